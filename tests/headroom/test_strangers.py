"""What others write on their own objects: nobody's label makes them ours, and nobody is given more than they ask for."""

from __future__ import annotations

from typing import Any

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import CreatePlaceholder, DeleteClaim, EndPlaceholder
from dra_spawner.headroom.known import Known, Namespaces
from dra_spawner.headroom.placeholder_objects import PlaceholderSettings, placeholder_claims, placeholder_pod
from dra_spawner.headroom.policy import Headroom, Policy
from dra_spawner.headroom.shapes import Shape
from dra_spawner.headroom.view import View
from tests.headroom.world import GPU, IMAGE, NAMESPACE, PLAIN, World

STRANGER = "stranger"
OURS = frozenset((NAMESPACE,))
#: As with a namespace of each user.
USER_NAMESPACES = Namespaces(None, OURS, OURS)


class SharedWorld(World):
    """Users' servers are in all namespaces."""

    def view(self, known: Known | None = None) -> View:
        return View(self.snapshot, self.now, namespaces=USER_NAMESPACES, known=known or self.known)

    def put(self, manifest: dict[str, Any], **metadata: Any) -> None:
        """Somebody makes an object."""
        name = manifest["metadata"]["name"]
        manifest["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": self._stamp(), **metadata}
        self._put(manifest)


def hub(shape: Shape, minimum: int, kind: type[World] = SharedWorld) -> Any:
    return kind(Policy(shapes={shape.id: shape}, headroom={shape.id: Headroom(minimum, 10)}))


def test_claims_of_other_namespaces_are_left_alone() -> None:
    """Another hub's, for one; whoever may only delete its own is not to ask for more."""
    for kind in (World, SharedWorld):
        world = hub(GPU, 1, kind)
        world.node("a", gpus=1)
        world.settle()
        elsewhere = placeholder_claims(GPU, "theirs", PlaceholderSettings(namespace="other-hub"))[0]
        ours = placeholder_claims(GPU, "orphan", PlaceholderSettings(namespace=NAMESPACE))[0]
        for claim in (elsewhere, ours):
            claim["metadata"] |= {"uid": f"uid-{claim['metadata']['name']}", "creationTimestamp": world._stamp()}
            world._put(claim)
        assert {each.key.namespace for each in world.view().warm_claims()} == {NAMESPACE}
        world.run(minutes=3)
        deleted = [(str(each.claim), each.uid) for each in world.actions(DeleteClaim)]
        assert deleted == [(f"{NAMESPACE}/orphan-gpu", "uid-orphan-gpu")]


def test_placeholders_of_other_namespaces_do_not_count() -> None:
    world = hub(PLAIN, 3)
    world.node("a")
    for number in range(3):
        pod = placeholder_pod(PLAIN, f"fake-{number}", PlaceholderSettings(namespace=STRANGER))
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
        world.put(pod)
    world.settle()
    assert {key.namespace for key in world.view().placeholders} == {NAMESPACE}
    assert len(world.actions(CreatePlaceholder)) == len(world.view().warm(PLAIN.id)) == 3
    assert world.actions(EndPlaceholder) == []


def test_nobody_says_that_images_are_there_but_our_pullers() -> None:
    world = hub(PLAIN, 0)
    world.node("a", images=())

    def puller(namespace: str) -> dict[str, Any]:
        (component, *_) = sorted(labels.IMAGE_PULLERS)
        metadata = {"name": "puller", "namespace": namespace, "labels": {labels.COMPONENT: component}}
        spec = {"nodeName": "a", "containers": [{"name": "pull", "image": IMAGE}]}
        return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    world.put(puller(STRANGER))
    world.settle()
    assert not world.is_ready("a")
    world.put(puller(NAMESPACE))
    world.settle()
    assert world.is_ready("a")

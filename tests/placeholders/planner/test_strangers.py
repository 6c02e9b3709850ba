"""Labels that others write on their objects: none makes an object ours, and no server gets more than it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.observed import ObservedObject
from dra_spawner.placeholders.controller.round.pending_shapes import PendingShapes
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeleteClaim, DeletePlaceholder
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.handover import is_under_way
from dra_spawner.placeholders.planner.targets import pod_shapes
from dra_spawner.placeholders.planner.targets.node_conditions import without_label
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape, definition_of, shape_id
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from tests.placeholders.planner.objects import GPU, IMAGE, NAMESPACE, PLAIN, Json, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub, policy_for

STRANGER = "stranger"
OURS = frozenset((NAMESPACE,))
#: As with one namespace for each user.
USER_NAMESPACES = Namespaces(None, OURS, OURS)


class SharedWorld(World):
    """Users' servers are in all namespaces, and are not trusted."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.published = policy
        self.shapes = PendingShapes(self, trusts_servers=False)  # type: ignore[arg-type]  # has the parts of a watch that it reads

    def view(self, index: ClusterIndex | None = None) -> View:
        view = View(self.snapshot, self.now, namespaces=USER_NAMESPACES, index=index or self.index)
        self.policy, view = self.shapes.added_to(self.published, view)
        return view

    def observed(self, kind: Kind, key: ObjectKey) -> ObservedObject:
        """As a watch returns it."""
        return ObservedObject.from_json(self.objects[kind, key])

    def server(
        self,
        name: str,
        stated: Shape,
        claims: Mapping[str, Json] | None = None,
        *,
        namespace: str = STRANGER,
        named: str = "",
        **spec: Any,
    ) -> None:
        """A user's pod that states any shape; ``named`` is an existing claim for its first entry."""
        own = dict(claims or {})
        there = {next(iter(own)): named} if named else {}
        self.user(
            name,
            {entry: claim for entry, claim in own.items() if entry not in there},
            there,
            namespace=namespace,
            labels={names.SHAPE: stated.id},
            annotations={names.DEFINITION: definition_of(stated)},
            **spec,
        )


def shared_hub(shape: Shape, minimum: int) -> SharedWorld:
    return SharedWorld(policy_for((shape, minimum, 10)))


def test_claims_of_other_namespaces_are_left_alone() -> None:
    """For example another hub's claims; a service without the right to delete them must not try."""
    for world in (hub((GPU, 1, 10)), shared_hub(GPU, 1)):
        world.node("a", gpus=1)
        world.settle()
        elsewhere = placeholder_claims(GPU, "theirs", PlaceholderSettings(namespace="other-hub"))[0]
        ours = placeholder_claims(GPU, "orphan", PlaceholderSettings(namespace=NAMESPACE))[0]
        for claim in (elsewhere, ours):
            world.create(claim)
        assert {each.key.namespace for each in world.view().warm_claims} == {NAMESPACE}
        world.run(minutes=3)
        deleted = [(str(each.claim), each.uid) for each in world.actions(DeleteClaim)]
        assert deleted == [(f"{NAMESPACE}/orphan-gpu", "uid-orphan-gpu")]


def test_placeholders_of_other_namespaces_do_not_count() -> None:
    world = shared_hub(PLAIN, 3)
    world.node("a")
    for number in range(3):
        pod = placeholder_pod(PLAIN, f"fake-{number}", PlaceholderSettings(namespace=STRANGER))
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
        world.create(pod)
    world.settle()
    assert {key.namespace for key in world.view().placeholders} == {NAMESPACE}
    assert world.made == len(world.warm(PLAIN)) == 3
    assert world.actions(DeletePlaceholder) == []


def test_only_our_pullers_report_images() -> None:
    world = shared_hub(PLAIN, 0)
    world.node("a", images=())

    def puller(namespace: str) -> dict[str, Any]:
        (component, *_) = sorted(names.IMAGE_PULLERS)
        metadata = {"name": "puller", "namespace": namespace, "labels": {names.COMPONENT: component}}
        spec = {"nodeName": "a", "containers": [{"name": "pull", "image": IMAGE}]}
        return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    world.create(puller(STRANGER))
    world.settle()
    assert not world.is_ready("a")
    world.create(puller(NAMESPACE))
    world.settle()
    assert world.is_ready("a")


def for_pending_pod(world: World) -> list[str]:
    """The pods for which placeholders were created."""
    return [str(each.for_pending_pod) for each in world.actions(CreatePlaceholder)]


CLAIM = {"gpu": gpu_claim()}
POOL: dict[str, Any] = {"nodeSelector": {"pool": "gpu"}}
TOLERATED = [{"key": "gpu", "operator": "Exists"}]


def zone(*names: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


CONFIG = {"config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"mode": "exclusive"}}}]}
LESS: dict[str, tuple[Shape, Mapping[str, Json], dict[str, Any]]] = {
    "no claim": (GPU, {}, {"cpu": "100"}),
    "a claim of another name": (GPU, {"other": gpu_claim()}, {}),
    "less CPU": (GPU, CLAIM, {"cpu": "1m"}),
    "fewer devices": (user_shape({"gpu": gpu_claim(count=4)}), CLAIM, {}),
    "admin access": (user_shape({"gpu": gpu_claim(adminAccess=True)}), CLAIM, {}),
    "config": (user_shape({"gpu": {"devices": {**gpu_claim()["devices"], **CONFIG}}}), CLAIM, {}),
    "a claim that others have": (GPU, CLAIM, {"named": "shared"}),
    "a pool": (user_shape(CLAIM, **POOL), CLAIM, {}),
    "another pool": (user_shape(CLAIM, **POOL), CLAIM, {"nodeSelector": {"pool": "cpu"}}),
    "nodes that are not open to it": (GPU, CLAIM, zone("nowhere")),
    "more nodes": (user_shape(CLAIM, **zone("a", "b")), CLAIM, zone("a")),
    "a taint that it does not tolerate": (user_shape(CLAIM, tolerations=TOLERATED), CLAIM, {}),
    "a runtime with overhead": (user_shape(CLAIM, runtimeClassName="vm"), CLAIM, {}),
    "another scheduler": (user_shape(CLAIM, schedulerName="other"), CLAIM, {}),
}
OTHER_RUNTIME = {"runtimeClassName": "vm", "schedulerName": "other"}
AS_STATED: dict[str, tuple[Shape, dict[str, Any]]] = {
    "as stated": (GPU, {}),
    "more": (GPU, {"cpu": "2"}),
    "more tolerant": (GPU, {"tolerations": TOLERATED}),
    "zones": (user_shape(CLAIM, **zone("b", "a")), zone("b", "a")),
    "runtime": (user_shape(CLAIM, **OTHER_RUNTIME), OTHER_RUNTIME),
}
PUBLISHED = pytest.mark.parametrize("is_published", [True, False], ids=["published", "stated-by-itself"])


@PUBLISHED
def test_a_server_that_asks_for_less_than_stated_gets_no_placeholder(is_published: bool) -> None:
    found = {}
    for name, (stated, claims, asks) in LESS.items():
        world = shared_hub(stated if is_published else PLAIN, 0)
        world.node("a")
        shared = {"name": "shared", "namespace": STRANGER}
        world.create({"kind": "ResourceClaim", "metadata": shared, "spec": CLAIM["gpu"]})
        world.server("eve", stated, claims, **asks)
        for _ in range(5):
            world.schedule()
            world.decide()
            world.pass_time(seconds=1)
        found[name] = world.pending, for_pending_pod(world)
    assert found == dict.fromkeys(LESS, (["eve"], []))


@PUBLISHED
def test_a_server_that_asks_for_its_stated_shape_gets_a_placeholder(is_published: bool) -> None:
    found = {}
    for name, (stated, asks) in AS_STATED.items():
        world = shared_hub(stated if is_published else PLAIN, 0)
        world.node("a")
        world.server("ada", stated, CLAIM, **asks)
        world.decide()
        found[name] = for_pending_pod(world), world.only.key.namespace, world.only.shape
    assert found == {name: ([f"{STRANGER}/ada"], NAMESPACE, stated.id) for name, (stated, _) in AS_STATED.items()}


def test_fewer_nodes_are_open_to_the_placeholder_where_fewer_are_to_the_server() -> None:
    """Whether a plugin or the user restricts the server: no node is asked for that the server could not use."""
    world = shared_hub(GPU, 0)
    world.node("a")
    world.server("ada", GPU, CLAIM, nodeSelector={"pool": "nowhere"})
    world.decide()
    placeholder = world.only
    assert placeholder.pod.node_selector == {"pool": "nowhere"}
    fields = {**GPU.node_fields, "nodeSelector": {"pool": "nowhere"}}
    assert placeholder.shape == shape_id(GPU.claims, GPU.containers, fields)
    world.run(minutes=1)
    assert world.made == 1
    assert world.actions(DeletePlaceholder) == []


def test_an_existing_claim_counts_instead_of_its_template() -> None:
    """The template may have changed since."""
    large = user_shape({"gpu": gpu_claim(count=4)})
    world = shared_hub(large, 0)
    world.node("a")
    world.server("eve", large, CLAIM)
    pod = world.objects["Pod", ObjectKey(STRANGER, "eve")]
    pod["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "eve-gpu-1"}]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "eve", "uid": "uid-eve", "controller": True}
    metadata = {"name": "eve-gpu-1", "namespace": STRANGER, "ownerReferences": [owner]}
    world.apply({"kind": "ResourceClaim", "metadata": metadata, "spec": CLAIM["gpu"]})
    world.apply(pod)
    template = {"metadata": {"name": "eve-gpu", "namespace": STRANGER}, "spec": {"spec": large.claims["gpu"]}}
    world.apply({"kind": "ResourceClaimTemplate", **template})
    world.decide()
    assert for_pending_pod(world) == []


def test_a_template_that_comes_later_is_looked_at() -> None:
    large = user_shape({"gpu": gpu_claim(count=4)})
    world = shared_hub(large, 0)
    world.node("a")
    world.server("ada", large, CLAIM)
    world.decide()
    assert for_pending_pod(world) == []
    template = {"metadata": {"name": "ada-gpu", "namespace": STRANGER}, "spec": {"spec": large.claims["gpu"]}}
    world.apply({"kind": "ResourceClaimTemplate", **template})
    world.decide()
    assert for_pending_pod(world) == [f"{STRANGER}/ada"]


def test_a_foreign_server_with_a_false_shape_does_not_prevent_preemption() -> None:
    world = shared_hub(GPU, 1)
    world.node("a", gpus=1)
    world.settle()
    world.server("eve", GPU, {"gpu": gpu_claim(count=4)})
    world.pass_time(seconds=1)
    world.server("ada", GPU, CLAIM, namespace="ada")
    world.decide()
    preempted = [each for each in world.actions(DeletePlaceholder) if each.cause is Cause.PREEMPTED]
    assert [str(each.pod) for each in preempted] == ["ada/ada"]


def test_a_foreign_claim_reserves_nothing() -> None:
    """New placeholders wait for a server that is about to get a warm claim."""
    world = shared_hub(GPU, 1)
    world.node("a", gpus=1)
    claim = placeholder_claims(GPU, "fake", PlaceholderSettings(namespace=STRANGER))[0]
    until = str(int((world.now + timedelta(seconds=30)).timestamp()))
    claim["metadata"]["labels"] |= {names.RESERVED_FOR: "eve", names.RESERVED_UNTIL: until}
    world.create(claim)
    world.server("eve", PLAIN, CLAIM, named="fake-gpu")
    assert not is_under_way(world.view(), world.policy)


def test_a_pod_is_looked_at_once_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def looking(pod: Pod, label: str) -> Pod:
        looked_at.append(pod.name)
        return without_label(pod, label)

    monkeypatch.setattr(pod_shapes, "without_label", looking)
    world = shared_hub(GPU, 0)
    world.node("a")
    for number in range(20):
        world.server(f"user-{number}", GPU, CLAIM)
    for _ in range(10):
        world.decide()
    assert sorted(looked_at) == sorted(["simulated-user", *(f"user-{number}" for number in range(20))])
    world.server("user-3", GPU, CLAIM, cpu="2")
    world.decide()
    assert looked_at[21:] == ["user-3"]


def test_placeholders_for_pending_pods_are_limited_and_namespaces_take_turns() -> None:
    other = user_shape(CLAIM, cpu="2")
    policy = Policy(shapes={GPU.id: GPU, other.id: other}, max_for_pending_pods=6)
    world = SharedWorld(policy)
    world.node("a")
    for number in range(20):
        world.server(f"eve-{number:02}", GPU, CLAIM)
        world.server(f"more-{number:02}", other, CLAIM, cpu="2")
    world.pass_time(seconds=1)
    for number in range(2):
        world.server(f"ada-{number}", other, CLAIM, namespace="ada", cpu="2")
    world.run(minutes=1)
    assert world.count == world.made == 6
    assert len([each for each in world.view().placeholders.values() if each.shape == other.id]) >= 2
    assert world.actions(DeletePlaceholder) == []
    world.server("bob", GPU, CLAIM, namespace="bob")
    world.settle()
    assert world.count == 6


def test_placeholders_of_another_hub_in_the_namespace_are_neither_counted_nor_deleted() -> None:
    """Also if the hub has other choices; placeholders without the label are ours, as of before an upgrade."""
    world = hub((GPU, 1, 10))
    world.node("a", gpus=3)
    ours, theirs = Namespaces(OURS, OURS, OURS, "ours"), {names.INSTALLATION: "theirs"}
    for name, labels in (("of-ours", {names.INSTALLATION: "ours"}), ("of-before", {}), ("of-theirs", theirs)):
        settings = PlaceholderSettings(NAMESPACE, labels=labels)
        for obj in (*placeholder_claims(GPU, name, settings), placeholder_pod(GPU, name, settings)):
            world.create(obj)
    world.schedule()
    view = View(world.snapshot, world.now, namespaces=ours, index=ClusterIndex())
    assert {key.name for key in view.placeholders} == {"of-ours", "of-before"}
    assert {each.key.name for each in view.warm_claims} == {"of-ours-gpu", "of-before-gpu"}
    assert not view.users_of_node.get("a"), "theirs is no user, either"
    assert NodesBusyness(view).of("a").figure == 0
    (pod,) = [each for each in world.snapshot.nodes["a"].pods if each.name == "of-theirs"]
    assert pod.priority <= 0, "kube-scheduler may preempt it"

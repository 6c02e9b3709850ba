"""Random states of small clusters, many of them side by side on one control plane.

Each state has nodes, users' servers and placeholders of its own: all of its pods require the label of its nodes. Nodes
are objects only, and no kubelet serves them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.kubelet.node_agent import complete_node
from dra_spawner.dra.scheduler_rules import rules_of
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Outlook, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.node_conditions import requiring_readiness
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    claim_name,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.versions import minor_version
from tests.cluster.claim_names import own_claim_names
from tests.cluster.harness_binary import chosen_version
from tests.cluster.under_test import RESOURCE_API, ClusterUnderTest
from tests.integration.devices import node_with, shareable, whole
from tests.placeholders.controller.objects import claim_spec
from tests.polling import eventually

__all__ = ["PRIORITY_CLASS", "RandomState", "States", "random_state"]

PRIORITY_CLASS: Final = "dra-spawner-placeholder"
STATE: Final = "example.com/state"
_AT_ONCE: Final = 24
_RULES: Final = rules_of(minor_version(chosen_version()))

Json = dict[str, Any]

#: Claims and CPU that servers of a hub ask for.
WANTED: Final[tuple[tuple[Json, str], ...]] = (
    ({}, "1"),
    ({}, "5"),
    ({}, "9"),
    ({"gpu": claim_spec()}, "1"),
    ({"gpu": claim_spec()}, "5"),
    ({"gpu": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}}, "1"),
    ({"gpu": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 3}}]}}}, "1"),
    ({"gpu": claim_spec("gpu-share.example.com", "5Gi")}, "1"),
    ({"gpu": claim_spec("gpu-share.example.com", "20Gi")}, "1"),
    ({"gpu": claim_spec("gpu-share.example.com", "40Gi")}, "1"),
    ({"gpu": claim_spec("gpu-share.example.com", "60Gi")}, "1"),
    ({"gpu": claim_spec(), "share": claim_spec("gpu-share.example.com", "10Gi")}, "1"),
)  # fmt: skip


#: Requests that fit no node are rarer.
WEIGHTS: Final = (1, 3, 1, 5, 3, 2, 1, 4, 5, 4, 1, 3)


@dataclass(frozen=True, slots=True)
class RandomState:
    """A state, before the scheduler has placed anything.

    Attributes
    ----------
    probe
        The shape of the server whose outlook is computed.
    """

    name: str
    objects: tuple[Json, ...]
    fill: tuple[Json, ...]
    shapes: dict[str, Shape]
    probe: tuple[Json, str]

    @property
    def probe_shape(self) -> Shape:
        return user_shape(self.name, *self.probe)


def user_manifest(state: str, name: str, claims: Json, cpu: str) -> Json:
    """A user's server of a state, whose claims are made from templates."""
    resources: Json = {"requests": {"cpu": cpu}}
    spec: Json = {
        "containers": [{"name": "notebook", "image": "example.com/image:1", "resources": resources}],
        "nodeSelector": {STATE: state},
        "affinity": requiring_readiness({}),
        "terminationGracePeriodSeconds": 0,
    }
    if claims:
        resources["claims"] = [{"name": entry} for entry in claims]
        spec["resourceClaims"] = [
            {"name": entry, "resourceClaimTemplateName": f"{name}-{entry}"} for entry in sorted(claims)
        ]
    metadata = {"name": name, "labels": {names.COMPONENT: names.USER_SERVER, STATE: state}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def user_shape(state: str, claims: Json, cpu: str) -> Shape:
    return shape_of(user_manifest(state, "anybody", claims, cpu), claims, frozenset((names.IMAGES_READY,)))


def user_objects(state: str, name: str, claims: Json, cpu: str) -> list[Json]:
    """A user's server with the templates of its claims."""
    pod = user_manifest(state, name, claims, cpu)
    pod["metadata"]["labels"][names.SHAPE] = user_shape(state, claims, cpu).id
    return [
        *(
            {
                "apiVersion": RESOURCE_API,
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"{name}-{entry}", "labels": {STATE: state}},
                "spec": {"spec": spec},
            }
            for entry, spec in claims.items()
        ),
        pod,
    ]


def placeholder_objects(state: str, name: str, claims: Json, cpu: str, namespace: str) -> list[Json]:
    settings = PlaceholderSettings(namespace, priority_class=PRIORITY_CLASS, labels={STATE: state})
    shape = user_shape(state, claims, cpu)
    pod = placeholder_pod(shape, name, settings)
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    return [*placeholder_claims(shape, name, settings), pod]


def random_state(seed: int, number: int, namespace: str) -> RandomState:
    """The state of a number; the same for the same seed."""
    chance = random.Random(f"{seed}/{number}")
    state = f"s{number}"
    objects: list[Json] = []
    for node in range(chance.choice((1, 1, 2))):
        kinds = chance.choice(((), (whole,), (shareable,), *3 * ((whole, shareable),), (whole, whole, shareable)))
        devices = [kind(f"gpu-{each}") for each, kind in enumerate(kinds)]
        manifests = node_with(f"{state}-n{node}", *devices)
        ready = chance.choices((names.TRUE, names.LATE, None), (14, 1, 1))[0]
        manifests[0]["metadata"]["labels"] |= {STATE: state, "node.kubernetes.io/instance-type": f"g{len(devices)}"}
        if ready is not None:
            manifests[0]["metadata"]["labels"][names.IMAGES_READY] = ready
        if chance.random() < 0.08:
            manifests[0]["spec"]["unschedulable"] = True
        objects += manifests if devices else manifests[:1]
    fill: list[Json] = []
    shapes: dict[str, Shape] = {}
    # Few sorts of servers, so that they want the same.
    sorts = chance.choices(WANTED, WEIGHTS, k=3)
    is_reserved = chance.random() < 0.5
    for each in range(chance.randrange(8)):
        wanted = chance.choice(sorts)
        shape = user_shape(state, *wanted)
        shapes[shape.id] = shape
        if chance.random() < (0.15 if is_reserved else 0.65):
            fill += user_objects(state, f"{state}-user-{each}", *wanted)
        else:
            fill += placeholder_objects(state, f"{state}-spare-{each}", *wanted, namespace)
    probe = chance.choice((*sorts, *chance.choices(WANTED, WEIGHTS)))
    return RandomState(state, tuple(objects), tuple(fill), shapes, probe)


@dataclass(slots=True)
class States:
    """States on a control plane, with the placement and the outlook of each."""

    cluster: ClusterUnderTest
    states: Sequence[RandomState]
    placements: dict[str, Placement] = field(default_factory=dict)
    outlooks: dict[str, Outlook] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Create the states, and wait until the scheduler has judged each pod. Pods that do not fit go again."""
        objects = [each for state in self.states for each in state.objects]
        clock = ScaledClock()
        nodes = [complete_node(each, clock) for each in objects if each["kind"] == "Node"]
        await self._each(self._create, (*nodes, *(each for each in objects if each["kind"] != "Node")))
        await eventually(self._nodes_are_open, "nodes lose their taints")
        fill = [each for state in self.states for each in state.fill]
        await self._each(self._create, [each for each in fill if each["kind"] != "Pod"])
        await self._each(self._create, [each for each in fill if each["kind"] == "Pod"])
        await own_claim_names(self.cluster, await self.pods())
        await eventually(self._all_are_judged, "the scheduler judges all pods", pause_seconds=0.2)
        pending = [pod["metadata"]["name"] for pod in await self.pods() if not pod["spec"].get("nodeName")]
        await self.delete(pending)

    async def judge(self) -> None:
        """Compute the placement and the outlook of each state's probe, on a snapshot of its own objects."""
        namespace = self.cluster.namespace
        snapshots = {state.name: Snapshot(rules=_RULES) for state in self.states}
        for group, plural, own in (
            ("v1", "nodes", False),
            (RESOURCE_API, "deviceclasses", False),
            (RESOURCE_API, "resourceslices", False),
            (RESOURCE_API, "resourceclaimtemplates", True),
            (RESOURCE_API, "resourceclaims", True),
            ("v1", "pods", True),
        ):
            path = resource_path(group, plural, namespace if own else None)
            for each in (await self.cluster.admin.list(path))["items"]:
                owner = each["metadata"]["name"].partition("-")[0]
                for snapshot in snapshots.values() if plural == "deviceclasses" else (snapshots[owner],):
                    assert snapshot.apply({"kind": _KIND_OF[plural], **each}) is None
        for state in self.states:
            self._judge(state, snapshots[state.name])

    def _judge(self, state: RandomState, snapshot: Snapshot) -> None:
        for pod in list(snapshot.pods.values()):
            if pod.node_name:
                snapshot.put(replace(pod, phase="Running"))  # as a kubelet would
        shape, namespace = state.probe_shape, self.cluster.namespace
        policy = Policy(
            shapes={**state.shapes, shape.id: shape},
            node_kinds_complete=True,
            drivers_prepare_for=drivers_prepare_for(),
        )
        view = View(snapshot, datetime.now(UTC), namespaces={namespace})
        placement = self.placements[state.name] = find_placement(view, policy, shape, namespace)
        self.outlooks[state.name] = find_outlook(
            view, policy, shape, namespace, placement, Supply(), lambda: BusyServers(view)
        )

    async def probe(self) -> None:
        """Create each state's probe."""
        objects = [
            each for state in self.states for each in user_objects(state.name, f"{state.name}-probe", *state.probe)
        ]
        await self._each(self._create, [each for each in objects if each["kind"] != "Pod"])
        await self._each(self._create, [each for each in objects if each["kind"] == "Pod"])
        await own_claim_names(self.cluster, await self.pods())

    async def said_of(self, state: str) -> str:
        """The scheduler's message about a state's probe."""
        pod = await self.cluster.admin.get(self.cluster.path("pods", f"{state}-probe"))
        return "; ".join(each.get("message", "") for each in pod["status"].get("conditions") or ())

    async def verdicts(self) -> dict[str, str]:
        """The node of each state's probe; empty while the scheduler says that it fits nowhere, absent before it does."""
        found = {}
        for pod in await self.pods():
            state, _, kind = pod["metadata"]["name"].partition("-")
            if kind == "probe" and _is_judged(pod):
                found[state] = pod["spec"].get("nodeName", "")
        return found

    async def pods(self) -> list[JsonObject]:
        return list((await self.cluster.admin.list(self.cluster.path("pods")))["items"])

    async def delete(self, pods: Iterable[str]) -> None:
        """Delete pods, and the claims that placeholders have."""
        claims = {
            each["metadata"]["name"]
            for each in (await self.cluster.admin.list(self.cluster.path("resourceclaims")))["items"]
        }

        async def delete(name: str) -> None:
            await self.cluster.admin.delete(self.cluster.path("pods", name), grace_period_seconds=0, missing_ok=True)
            for entry in ("gpu", "share"):
                if (claim := claim_name(name, entry)) in claims:
                    await self.cluster.admin.delete(self.cluster.path("resourceclaims", claim), missing_ok=True)

        await self._each(delete, list(pods))

    async def clear(self) -> None:
        """Remove the states."""
        admin, cluster = self.cluster.admin, self.cluster
        # One request for all pods would take longer than a request may.
        await self.delete([pod["metadata"]["name"] for pod in await self.pods()])
        await admin.delete(cluster.path("resourceclaims"))
        await admin.delete(cluster.path("resourceclaimtemplates"))
        for group, plural in ((RESOURCE_API, "resourceslices"), ("v1", "nodes")):
            await admin.delete(resource_path(group, plural))

    async def _nodes_are_open(self) -> bool:
        nodes = (await self.cluster.admin.list(resource_path("v1", "nodes")))["items"]
        taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", ())]
        return all(taint == names.UNSCHEDULABLE for taint in taints)

    async def _all_are_judged(self) -> bool:
        pods = await self.pods()
        return all(_is_judged(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)

    async def _create(self, obj: Json) -> None:
        plural, own = _PLURALS[obj["kind"]]
        namespace = self.cluster.namespace if own else None
        await self.cluster.admin.create(resource_path(obj["apiVersion"], plural, namespace), obj)

    async def _each(self, work: Callable[[Any], Awaitable[None]], items: Sequence[Any]) -> None:
        """Do something with all items, some at once."""
        rest = iter(items)

        async def do() -> None:
            for each in rest:
                await work(each)

        await asyncio.gather(*(do() for _ in range(_AT_ONCE)))


_PLURALS: Final = {
    "Node": ("nodes", False),
    "ResourceSlice": ("resourceslices", False),
    "Pod": ("pods", True),
    "ResourceClaim": ("resourceclaims", True),
    "ResourceClaimTemplate": ("resourceclaimtemplates", True),
}
_KIND_OF: Final = {plural: kind for kind, (plural, _) in _PLURALS.items()} | {"deviceclasses": "DeviceClass"}


def _is_judged(pod: JsonObject) -> bool:
    """Whether the scheduler has said yes, or no by its filters and with all claims."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = pod["status"].get("conditions") or ()
    messages = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    return any("nodes are available" in each and "not created yet" not in each for each in messages)

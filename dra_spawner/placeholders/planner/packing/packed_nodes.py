"""Nodes in the order in which devices are packed, and the devices that a pod should get on its node.

Only if the policy packs devices. What a node loses is remembered until its devices or their use change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.dra.model.decoding import ObjectError
from dra_spawner.dra.preferences import Group, Preferences
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.devices.caching import Cache
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import CPU, MEMORY
from dra_spawner.simulator.packing.packing import ClassSelectors, Packing

#: Shapes whose costs are remembered, as users can define shapes.
_MAX_SHAPES: Final = 200
#: Verdicts of selectors, about a hundred bytes each.
_MAX_VERDICTS: Final = 500_000
#: Sorts a node on which nothing is chosen after the others.
_UNKNOWN: Final = (2**63, True, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DevicePreferences:
    """The devices that a pod should get.

    Attributes
    ----------
    of_claims
        By entry of the pod's ``resourceClaims``; empty if kube-scheduler gives the right ones anyway.
    reason
        Which devices and why, as a clause; empty if none are preferred.
    """

    of_claims: Mapping[str, Preferences] = field(default_factory=dict)
    reason: str = ""


NO_PREFERENCES: Final = DevicePreferences()


class PackedNodes:
    """What the nodes of a view lose by a pod; the view must not change meanwhile."""

    def __init__(self, view: View, shape: Shape, pod: Pod, packing: Packing) -> None:
        self._nodes = view.snapshot.nodes
        self._entries = tuple(shape.claims)
        self._requests = [(name, pod.requests.get(name, 0)) for name in (CPU, MEMORY)]
        self._packing = packing
        self._cost = packing.costs()

    def order(self, name: str) -> tuple[int, ...]:
        """Sorts nodes by what they lose, the best last, as `Busyness.order` does."""
        cost = self._cost(name)
        state = self._nodes[name]
        left = (
            (amount, state.node.allocatable.get(resource, 0) - state.requested.get(resource, 0))
            for resource, amount in self._requests
        )
        return tuple(-part for part in (cost.order(left) if cost is not None else _UNKNOWN))

    def preferences(self, name: str) -> DevicePreferences:
        """The devices that the pod should get on a node."""
        found = self._packing.on_node(name)
        chosen = [each for each in found.choices if each.groups] if found is not None else []
        of_claims: dict[str, dict[str, tuple[Group, ...]]] = {}
        for each in chosen:
            of_claims.setdefault(self._entries[each.claim], {})[each.request] = each.groups
        return DevicePreferences(of_claims, " and ".join(each.reason for each in chosen)) if chosen else NO_PREFERENCES


def packed_nodes(view: View, policy: Policy, shape: Shape, pod: Pod) -> PackedNodes | None:
    """What nodes lose by a pod of a shape; None if the policy does not pack devices, or not those of this shape."""
    if not policy.packs_devices or not shape.claims or not _is_kube_scheduler(shape.node_fields.get("schedulerName")):
        return None
    packing = _packing(view, shape)
    try:
        return PackedNodes(view, shape, pod, packing) if packing is not None and not packing.problem else None
    except AllocationError:
        return None


def _is_kube_scheduler(name: object) -> bool:
    """Whether a scheduler is kube-scheduler, also zero-to-jupyterhub's: others may not know lists of alternatives."""
    return name in (None, "", "default-scheduler", "user-scheduler") or str(name).endswith("-user-scheduler")


def _packing(view: View, shape: Shape) -> Packing | None:
    memo, snapshot = view.index.of_devices, view.snapshot
    memo.classes_are(snapshot.classes)
    known: Cache[str, Packing | None] = memo.of(("packing", snapshot.rules), _new_cache)
    if shape.id not in known:
        classes = memo.of(("class selectors", snapshot.rules), lambda: _class_selectors(view))
        known.keep(shape.id, _new_packing(view, shape, classes))
    return known[shape.id]


def _class_selectors(view: View) -> ClassSelectors:
    """With the verdicts of selectors from before: most devices are the same."""
    devices, rules, known = view.snapshot.state.devices, view.snapshot.rules, view.index.selectors
    selectors = known.get(rules)
    if selectors is None or selectors.kept > _MAX_VERDICTS:
        known.clear()
        selectors = known[rules] = SelectorCache(list_attributes=rules.selectors_see_lists)
    return ClassSelectors(devices, selectors)


def _new_cache() -> Cache[str, Packing | None]:
    return Cache(_MAX_SHAPES)


def _new_packing(view: View, shape: Shape, classes: ClassSelectors) -> Packing | None:
    try:
        claims = [
            ResourceClaim.from_json({"metadata": {"name": entry}, "spec": spec}) for entry, spec in shape.claims.items()
        ]
    except ObjectError:
        return None
    return Packing(view.snapshot.state.devices, claims, classes)

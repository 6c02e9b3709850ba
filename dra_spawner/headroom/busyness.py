"""How busy nodes are with users: placeholders do not count, and shares of devices count for what they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dra_spawner.dra.allocated_state import AllocatedState
from dra_spawner.dra.features import SCHEDULER_1_36
from dra_spawner.headroom import labels
from dra_spawner.headroom.view import View
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.resources import CPU, MEMORY
from dra_spawner.simulator.weighted_utilization import weighted_utilization

_ZERO = Fraction(0)
_DAEMONS = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class Busyness:
    """How busy one node is.

    Attributes
    ----------
    users
        Users' servers there.
    figure
        From 0 to 1: the most used of CPU, memory and devices; None if what its devices do is not known.
    """

    users: int
    figure: Fraction | None

    @property
    def rank(self) -> tuple[Fraction, int]:
        """Nodes in the order in which users should fill them, the highest first."""
        return (self.figure or _ZERO, self.users)


class NodesBusyness:
    """Busyness of the nodes of a view, computed when asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[str, Busyness] = {}

    def of(self, name: str) -> Busyness:
        """Of one node."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._of(name)
        return known

    def _of(self, name: str) -> Busyness:
        view = self._view
        users = len(view.users_of_node.get(name, ()))
        state = view.snapshot.nodes[name]
        figures = [_ZERO]
        others = [pod for pod in state.pods if not _is_placeholder(pod) and pod.controller not in _DAEMONS]
        for resource in (CPU, MEMORY):
            total = state.node.allocatable.get(resource, 0)
            if total:
                figures.append(Fraction(sum(pod.requests.get(resource, 0) for pod in others), total))
        devices = self._devices(name)
        if devices is None:
            return Busyness(users, None)
        return Busyness(users, min(max(*figures, devices), Fraction(1)))

    def _devices(self, name: str) -> Fraction | None:
        view = self._view
        pools = {item.pool_id for item in view.known.slices_of_node.get(name, ())}
        if not pools:
            return _ZERO
        keys = {
            ObjectKey(pod.namespace, each.claim)
            for pod in view.snapshot.nodes[name].pods
            if not _is_placeholder(pod)
            for each in pod.claims
            if each.claim
        }
        claims = [view.snapshot.claims[key].claim for key in sorted(keys) if key in view.snapshot.claims]
        found = weighted_utilization(
            view.snapshot.nodes[name].node.identity,
            {pool: view.known.slices_of_pool[pool] for pool in pools},
            AllocatedState.from_claims(claims),
            SCHEDULER_1_36,
            lambda device: Fraction(1),
        )
        return (found.figure or _ZERO) if found.is_known else None


def _is_placeholder(pod: Pod) -> bool:
    """Ours, or one of the chart's own."""
    return pod.labels.get(labels.COMPONENT) == labels.PLACEHOLDER

"""How busy nodes are with users' servers. Placeholders do not count; a share of a device counts as that share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dra_spawner import names
from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.model.objects import PoolId, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import CPU, MEMORY
from dra_spawner.simulator.usage.weighted_utilization import weighted_utilization

_ZERO = Fraction(0)
#: Controllers whose pods run on every node: they do not make a node busy.
DAEMONS = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class Busyness:
    """How busy one node is.

    Attributes
    ----------
    users
        Number of users' servers on the node.
    figure
        Highest use of CPU, memory and devices, from 0 to 1; None if the use of its devices is not known.
    """

    users: int
    figure: Fraction | None
    order: tuple[float, Fraction, int] = field(init=False, compare=False, repr=False)
    """Sorts like `rank`, but compares fractions only where their floats are about equal."""

    def __post_init__(self) -> None:
        figure, users = self.rank
        object.__setattr__(self, "order", (float(figure), figure, users))

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
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._of(name)
        return known

    def _of(self, name: str) -> Busyness:
        view = self._view
        state, users = view.snapshot.nodes[name], view.users_of_node.get(name, ())
        rules = view.snapshot.rules

        def compute() -> tuple[Busyness, list[ObjectKey | PoolId]]:
            others = [pod for pod in state.pods if not _is_placeholder(pod)]
            ids = [item.pool_id for item in view.index.slices_of_node.get(name, ())]
            pools = {pool_id: view.index.slices_of_pool[pool_id] for pool_id in ids}
            named = [ObjectKey(pod.namespace, each.claim) for pod in others for each in pod.claims if each.claim]
            claims = [view.snapshot.claims[key].claim for key in named if key in view.snapshot.claims]
            return Busyness(len(users), _figure(state, others, pools, claims, rules)), [*named, *pools]

        found: Busyness = view.index.busyness.of(name, (state, users, rules), compute)
        # What is not published is no measure of what is in use.
        return Busyness(found.users, None) if view.doubts_of(name).missing else found


def _figure(
    state: NodeState,
    pods: Sequence[Pod],
    pools: Mapping[PoolId, tuple[ResourceSlice, ...]],
    claims: Iterable[ResourceClaim],
    rules: SchedulerRules,
) -> Fraction | None:
    figures = [_ZERO]
    counted = [pod for pod in pods if pod.controller not in DAEMONS]
    for resource in (CPU, MEMORY):
        total = state.node.allocatable.get(resource, 0)
        if total:
            figures.append(Fraction(sum(pod.requests.get(resource, 0) for pod in counted), total))
    if pools:
        # Several pods may share a claim.
        held = AllocatedState.from_claims({id(claim): claim for claim in claims}.values(), rules)
        devices = weighted_utilization(state.node.identity, pools, held, rules, lambda device: Fraction(1))
        if not devices.is_known:
            return None
        figures.append(devices.figure or _ZERO)
    return min(max(figures), Fraction(1))


def _is_placeholder(pod: Pod) -> bool:
    """Whether it is this project's placeholder, or one of the JupyterHub chart's."""
    return pod.labels.get(names.COMPONENT) == names.PLACEHOLDER

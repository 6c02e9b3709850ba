"""Number of servers of a shape that fit on present and on new nodes: they are placed one by one in a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from dra_spawner import names
from dra_spawner.dra.allocation.reasons import RefusalKind
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_drained, is_labelled, is_open
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.readiness import image_name, images_on
from dra_spawner.placeholders.planner.packing.packed_starts import PackedStarts
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains, without_label
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.rehearsal.nodes.closed_capacity import (
    ClosedCapacity,
    is_closed,
    opened,
    tolerating_all,
    undrained,
)
from dra_spawner.scale_ahead.rehearsal.nodes.new_nodes import NewNodes
from dra_spawner.scale_ahead.rehearsal.nodes.node_looks import NodeLook, looks_of_kind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.placing_trial import ATTEMPT_STEPS, PlacingTrial
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers
from dra_spawner.scale_ahead.rehearsal.timetable import arrivals
from dra_spawner.simulator.devices.search_limits import CommonBudget
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.node_templates import NodeTemplate, add_node
from dra_spawner.simulator.refusal_text import NO_NODE, refusal_detail

_NEW: Final = "rehearsed"
_NOTHING: Final[Mapping[str, Sequence[datetime]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ServersBeside:
    """Servers of other users at the same time, which are placed first.

    Attributes
    ----------
    servers
        Number of servers without a placeholder.
    supplies
        Kinds of new nodes for them.
    warm
        Number of placeholders that they take.
    on_order
        Number of servers of them on nodes that are ordered ahead.
    usable_at, usable_on_demand
        Time at which the last of their nodes is usable, if nodes are ordered ahead where a limit allows it, and if all
        are ordered as users come; None if it never comes.
    kept
        Placeholders that users of the shape find at any time; None for one for each of them.
    expected
        The users, as they were announced; None for usual launches.
    name
        Name of their calendar entry.
    next_starts
        Time at which a further node can start, by name of the supply, if the nodes for them start now or earlier.
    """

    shape: Shape
    servers: int
    supplies: Sequence[NodeSupply] = ()
    warm: int = 0
    on_order: int = 0
    usable_at: datetime | None = None
    usable_on_demand: datetime | None = None
    kept: int | None = 0
    expected: ExpectedUsers | None = None
    name: str = ""
    next_starts: Mapping[str, datetime] = field(default_factory=dict)

    def arrivals(self) -> tuple[datetime, ...]:
        """Times in UTC at which announced users come; none for usual launches, which others follow."""
        other = self.expected
        if other is None:
            return ()
        return arrivals(other.begins.astimezone(UTC), other.ramp, self.servers + self.warm)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Numbers of servers that fit on present and new nodes.

    Attributes
    ----------
    coming_with
        Number of servers that fit on nodes that come for users beside, by their position.
    ready
        Servers that fit on present nodes with their images.
    without_image
        Servers that fit on other present nodes.
    new
        New nodes by kind, in the given order; kinds that are not needed are left out.
    lacking
        Servers that fit on no node.
    refusal
        Why a server fits on no present node; empty if all servers fit.
    closed
        What is closed, and would run servers that do not fit on present nodes.
    leaving
        Present nodes that are empty, or whose placeholders fit elsewhere, until the users come, so that the autoscaler
        removes them.
    """

    ready: int
    without_image: int
    new: tuple[NewNodes, ...] = ()
    lacking: int = 0
    refusal: str = ""
    closed: ClosedCapacity = field(default_factory=ClosedCapacity)
    coming_with: Mapping[int, int] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()

    @property
    def present(self) -> int:
        return self.ready + self.without_image

    @property
    def coming(self) -> int:
        """Servers that fit on nodes that come for other users at the same time."""
        return sum(self.coming_with.values())


def measure_capacity(
    view: View,
    shape: Shape,
    namespace: str,
    wanted: int,
    supplies: Sequence[NodeSupply],
    budget: SearchBudget,
    *,
    are_pending_included: bool = False,
    beside: Sequence[ServersBeside] = (),
    used_from: Mapping[str, Sequence[datetime]] = _NOTHING,
    packs_devices: bool = False,
    target: int | None = None,
    back_in_use: Collection[str] = (),
) -> Capacity:
    """Place servers of a shape until all have a node, or no node is left.

    Other pending servers are placed first, and then servers beside. Placeholders of other shapes stay: they are for
    other users.

    Parameters
    ----------
    supplies
        Kinds of new nodes, in the order in which they are used.
    are_pending_included
        Whether the wanted servers include pending servers of this shape.
    used_from
        Times from which nodes are in use, by shape (`RehearsalSituation.used_from`); before, an autoscaler removes
        them.
    packs_devices
        Whether the service packs devices.
    target
        Placeholders of the shape that stay; None for all.
    back_in_use
        Drained nodes that are not drained any more when the users come.

    Raises
    ------
    SearchStopped
        If the budget is exceeded.
    """
    snapshot = view.snapshot
    snapshot.limit_searches(CommonBudget(lambda: budget))
    try:
        with snapshot.trial():
            for name in back_in_use:
                snapshot.put(undrained(snapshot.nodes[name].node))
            trial = PlacingTrial(view, namespace, budget, packs_devices=packs_devices)
            if target is not None:
                trial.end_placeholders(shape.id, target)
            trial.place_pending(shape.id if are_pending_included else "")
            trial.let_leave(
                supplies, used_from, {each.id: each for each in (shape, *(other.shape for other in beside))}
            )
            for number, each in enumerate(beside):
                usual = each.expected is None
                _placed(trial, _Placing(trial, each.shape, number, leaves=not usual), each.servers, each.supplies)
            placing = _Placing(trial, shape, len(beside))
            found = replace(_placed(trial, placing, wanted, supplies), leaving=tuple(sorted(trial.leaving)))
            closed = _closed(trial, shape, len(beside), wanted - found.present)
            if not found.lacking:
                return replace(found, closed=closed)
            return replace(found, refusal=placing.refusal(closed), closed=closed)
    finally:
        snapshot.limit_searches(view.searches)


def _placed(trial: PlacingTrial, placing: _Placing, wanted: int, supplies: Sequence[NodeSupply]) -> Capacity:
    """Place servers on present nodes, on nodes that come for others, and on new ones."""
    ready, without_image = placing.on_present_nodes(wanted)
    left = wanted - ready - without_image
    coming: Counter[int] = Counter()
    for name, other in trial.added.items():
        coming[other] += placing.on_nodes([name] if placing.is_usable(name) else (), left - coming.total())
    rests = trial.take_rests(supplies, left - coming.total())
    placing.count(rests.total())
    left -= (coming := coming + rests).total()
    new: list[NewNodes] = []
    for number, supply in enumerate(supplies):
        if left == 0:
            break
        leaving = len(trial.leaving.intersection(supply.nodes))
        found = placing.on_new_nodes(replace(supply, taken=trial.taken[supply.name], leaving=leaving), number, left)
        trial.taken[supply.name] += len(found.slots)
        if found.slots and not found.template_node:
            rest = len(found.slots) * (supply.slots or 0) - found.servers
            trial.rests.setdefault(supply.name, []).append((placing.position, rest))
        placing.count(found.servers)
        new.append(found)
        left -= found.servers
    return Capacity(ready, without_image, tuple(new), left, coming_with=coming)


def _closed(trial: PlacingTrial, shape: Shape, position: int, wanted: int) -> ClosedCapacity:
    """Open what is closed, and place servers there, in a trial."""
    snapshot, counts = trial.snapshot, Counter[str]()
    closed = [name for name in trial.present if is_closed(snapshot.nodes[name])]
    with snapshot.trial():
        # Placeholders of drained nodes end.
        ending = [*trial.view.terminating_soon, *(each.pod for each in trial.view.placeholders.values())]
        for key in [ObjectKey.of(pod) for pod in ending if pod.node_name in closed]:
            if key in snapshot.pods:
                snapshot.remove_pod(key)
        placing = _Placing(trial, shape, position + 1, leaves=False)
        for name in closed:
            snapshot.put(opened(snapshot.nodes[name].node))
            counts[name] = placing.on_nodes([name] if placing.is_usable(name) else (), wanted - counts.total())
        tainted = trial.view.index.tainted_slices
        left, devices = wanted - counts.total(), 0
        if left and tainted and shape.claims:
            tolerating = _Placing(trial, tolerating_all(shape), position + 2, leaves=False)
            devices = tolerating.on_nodes(filter(tolerating.is_usable, trial.present), left)
    nodes = [name for name in closed if counts[name]]
    drained = tuple(name for name in nodes if is_drained(snapshot.nodes[name]))
    cordoned = tuple(name for name in nodes if name not in drained)
    return ClosedCapacity(counts.total() + devices, drained, cordoned, devices)


class _Placing:
    """Places servers of one shape.

    Parameters
    ----------
    position
        Of the users among all that are placed.
    leaves
        Whether nodes may be gone that are empty until these users come.
    """

    def __init__(self, trial: PlacingTrial, shape: Shape, position: int, *, leaves: bool = True) -> None:
        self._trial = trial
        self._view = trial.view
        self._snapshot = trial.snapshot
        self._budget = trial.budget
        self.position = position
        self._shape = shape.id
        self._prefix = f"{_NEW}-{position}"
        # Templates of several shapes need names of their own.
        name = f"simulated-user-{self._prefix}"
        pod, _ = simulated_user(shape, trial.namespace, name)
        # A node without the images now may have them in time. Drained nodes are left out by `is_usable`; copies of
        # them are not drained.
        self._pod = without_drains(without_label(pod, names.IMAGES_READY))
        self._number = 0
        self._leaves = leaves and bool(trial.used_from)
        self._images = frozenset(map(image_name, shape.images))
        self._starts = PackedStarts(trial.view, shape, trial.namespace, name, packs_devices=trial.packs_devices)
        self._starts.reset()

    def on_present_nodes(self, wanted: int) -> tuple[int, int]:
        """Place servers; returns the numbers on nodes with the images and on other nodes."""
        usable = [name for name in self._trial.present if self.is_usable(name)]
        if self._leaves:
            usable.sort(key=self._trial.is_empty)  # users fill busy nodes first
        ready = self.on_nodes((each for each in usable if self._has_images(each)), wanted)
        return ready, self.on_nodes((each for each in usable if not self._has_images(each)), wanted - ready)

    def on_nodes(self, nodes: Iterable[str], wanted: int) -> int:
        """Place servers on nodes, one after the other; returns their number."""
        count, left = 0, list(nodes)
        if self._trial.packs_devices and self._starts.are_packed:
            while left and count < wanted:
                name = self._starts.in_order(left)[0]
                found = 0 if self._is_gone(name) else self._fill(name, 1)
                self.count(found)
                count += found
                if not found:
                    left.remove(name)
            return count
        for name in left:
            if count == wanted:
                break
            if not self._is_gone(name):
                found = self._fill(name, wanted - count)
                self.count(found)
                count += found
        return count

    def _is_gone(self, node: str) -> bool:
        """Whether the autoscaler removes a node before the next server comes."""
        return self._leaves and self._trial.leaves(node, self._shape)

    def count(self, servers: int) -> None:
        """Count servers that have their place."""
        self._trial.placed[self._shape] += servers if self._leaves else 0

    def on_new_nodes(self, supply: NodeSupply, number: int, wanted: int) -> NewNodes:
        """Place servers on new nodes of a kind.

        If nodes of the kind differ, the described number of servers decides between them, else the fewest servers.
        """
        if not (supply.nodes or supply.past):
            return NewNodes.as_described(supply, wanted)
        refusal = ""
        kind: RefusalKind | None = None
        for looks in looks_of_kind(self._view, supply.nodes, supply.past):
            if looks and not looks[0].shows_all and supply.slots:
                break  # the administrator knows more
            counts: dict[str, int] = {}
            for look in looks:
                if look.template is None:
                    refusal = refusal or look.problem
                    continue
                counts[look.name], answer = self._servers_on(look.template, f"{self._prefix}-{number}", wanted)
                if answer is not None:
                    refusal = str(answer)
                    kind = answer.reason.nearest.kind if answer.reason is not None else None
            if any(counts.values()):
                return self._on_nodes_like(_look(looks, counts, supply, wanted), supply, number, wanted, counts)
        if supply.slots and not refusal:
            return NewNodes.as_described(supply, wanted)
        return NewNodes(supply, refusal=refusal, refusal_kind=kind)

    def _on_nodes_like(
        self, look: NodeLook, supply: NodeSupply, number: int, wanted: int, counts: Mapping[str, int]
    ) -> NewNodes:
        assert look.template is not None
        slots = self._add(look.template, f"{self._prefix}-{number}", wanted, supply.max_new)
        last_seen = look.past.at if look.past is not None else None
        fewest, most = min(counts.values()), max(counts.values())
        differ = (fewest, most) if fewest < most else None
        return NewNodes(supply, slots, look.name, last_seen, servers_on_nodes=differ)

    def refusal(self, closed: ClosedCapacity) -> str:
        """Why a server fits on no node at present."""
        others = refusal_detail(self._snapshot.fits(self._next_pod()))
        if not closed.servers:
            return others
        told = f"{closed.clause()}, so no new server starts there"
        return told if others == NO_NODE else f"{told}; on other nodes: {others}"

    def is_usable(self, name: str) -> bool:
        """Whether new servers may start on a node."""
        state = self._snapshot.nodes[name]
        return is_open(state, self._pod) and not is_labelled(state, names.DRAINING)

    def _has_images(self, name: str) -> bool:
        state = self._snapshot.nodes[name]
        return is_labelled(state, names.IMAGES_READY) or self._images <= images_on(self._view, state)

    def _servers_on(self, template: NodeTemplate, suffix: str, wanted: int) -> tuple[int, NodeAnswer | None]:
        """How many servers a new node takes, and why it takes none."""
        with self._snapshot.trial():
            name = add_node(self._snapshot, template, suffix).name
            count = self._fill(name, wanted)
            return count, None if count else self._snapshot.fits_on(self._next_pod(), name, explain=True)

    def _add(self, template: NodeTemplate, suffix: str, wanted: int, most: int | None) -> tuple[int, ...]:
        """Add nodes until all servers have one; returns the servers by node."""
        slots: list[int] = []
        left = wanted
        while left and (most is None or len(slots) < most):
            with self._undone_without_servers() as keep:
                name = add_node(self._snapshot, template, f"{suffix}-{len(slots)}").name
                count = self._fill(name, left)
                if not count:
                    return tuple(slots)
                keep.append(name)
            self._trial.added[name] = self.position
            slots.append(count)
            left -= count
        return tuple(slots)

    @contextmanager
    def _undone_without_servers(self) -> Iterator[list[str]]:
        """Remove the nodes that were added within the context, unless their names are in the list."""
        keep: list[str] = []
        self._snapshot.fork()
        try:
            yield keep
        finally:
            if keep:
                self._snapshot.commit()
            else:
                self._snapshot.revert()

    def _fill(self, node: str, most: int) -> int:
        """Place servers on a node until it is full; returns their number."""
        for count in range(most):
            self._budget.spend(ATTEMPT_STEPS)
            if self._trial.packs_devices:
                self._starts.prepare(node)
            is_placed = self._snapshot.schedule(self._next_pod(), node).fits
            if self._trial.packs_devices:
                self._starts.reset()
            if not is_placed:
                return count
        return most

    def _next_pod(self) -> Pod:
        self._number += 1
        name = f"{self._pod.name}-{self._number}"
        return replace(self._pod, name=name, uid=name)


def _look(looks: Sequence[NodeLook], counts: Mapping[str, int], supply: NodeSupply, wanted: int) -> NodeLook:
    """The look that counts: the one with the described number of servers, or the fewest."""
    described = min(supply.slots or 0, wanted)
    fitting = [each for each in looks if counts.get(each.name)]
    return min(fitting, key=lambda each: (abs(counts[each.name] - described), counts[each.name]))

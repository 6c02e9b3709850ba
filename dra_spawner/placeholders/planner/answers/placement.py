"""The placement of a server that is about to start: its node, and how soon. Asked before its pod is created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import SENTENCES
from dra_spawner.placeholders.planner.answers.scale_up_estimate import ScaleUpEstimate, estimate_scale_up
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.closed_nodes import Closed, closed_devices_of, closed_for
from dra_spawner.placeholders.planner.cluster.node_doubts import why_in_doubt
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchPostponed
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.placeholders.planner.decisions.preemption import Preemption, find_preemption
from dra_spawner.placeholders.planner.decisions.prepared_claims import can_be_handed_over, goes_first
from dra_spawner.placeholders.planner.packing.packed_nodes import (
    NO_PREFERENCES,
    DevicePreferences,
    PackedNodes,
    packed_nodes,
)
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.fitting import NodeAnswer, PodFit
from dra_spawner.simulator.model.claims import ClaimTemplate
from dra_spawner.simulator.refusal_text import DOUBTFUL, never_sentence, refusal_detail, waiting_sentence
from dra_spawner.simulator.snapshot import Snapshot, Undecided


def _behind(count: int, *, has_ticket: bool) -> str:
    if has_ticket:
        return f"You are number {count} in the queue for this choice. You can start when a device is held for you."
    waiting = "One person waits" if count == 1 else f"{count} persons wait"
    return f"{waiting} for such a device already. Press “Tell me when it is free” to get one in your turn."


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of a server.

    Attributes
    ----------
    node
        Its node; empty if a new one is needed.
    preemption
        The placeholders to preempt.
    reason
        One sentence without a full stop, for administrators; `sentence` is the user's.
    closed
        What would run it if nobody had closed it; None if there is nothing, or if it fits elsewhere.
    has_nodes
        Whether there is any node.
    like
        A present node of the kind that is needed, if the server fits on one more of it.
    refusals
        Why it fits on no kind of node, if it never can; else why it fits on no present node, if that was looked for.
    before
        Number of tickets that get devices first, so that the server must not start now.
    has_ticket
        Whether the last of these tickets is the user's own.
    doubt
        Why it may not get the devices that the scheduler would give it on a present node; empty if there is none.
    preferences
        The devices that it should get on the node, if devices are packed.
    is_behind
        Whether others come first, as its user is over a budget and its devices are scarce.
    """

    state: AvailabilityState
    reason: str
    node: str = ""
    placeholder: Placeholder | None = None
    preemption: Preemption | None = None
    closed: Closed | None = None
    has_nodes: bool = True
    like: str = ""
    refusals: tuple[NodeAnswer, ...] = ()
    doubt: str = ""
    preferences: DevicePreferences = NO_PREFERENCES
    before: int = 0
    has_ticket: bool = False
    is_behind: bool = False

    @property
    def sentence(self) -> str:
        """One sentence or two for the user, without names of objects."""
        match self.state:
            case AvailabilityState.NEVER:
                return never_sentence(self.refusals)
            case AvailabilityState.WAITS if self.before:
                return _behind(self.before, has_ticket=self.has_ticket)
            case AvailabilityState.WAITS if self.closed is not None:
                return self.closed.text.waiting
            case AvailabilityState.WAITS if self.doubt:
                return DOUBTFUL.waiting
            case AvailabilityState.WAITS:
                return waiting_sentence(self.refusals, has_nodes=self.has_nodes)
        return SENTENCES[self.state]


def find_placement(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    drivers_of_kind: Mapping[str, frozenset[str]] = MappingProxyType({}),
    kinds_first: Collection[str] = (),
    *,
    leaves_warm: bool = False,
) -> Placement:
    """The placement of a server of a shape. Users fill the busiest node, so that others become empty.

    Parameters
    ----------
    drivers_of_kind
        Drivers by kind of node (`PlannerState.drivers`).
    kinds_first
        Kinds of nodes that are tried first if a new node is needed.
    leaves_warm
        Whether warm placeholders of devices are left to others.

    Raises
    ------
    SearchStopped
        When finding out takes too long.
    """
    busyness = NodesBusyness(view)
    if (
        shape.wants_devices
        and not leaves_warm
        and (warm := _warm(view, policy, shape, namespace, busyness)) is not None
    ):
        return warm
    pod, templates = simulated_user(shape, namespace)
    with view.snapshot.trial():
        _add(view.snapshot, templates)
        doubts: dict[str, str] = {}
        packed = packed_nodes(view, policy, shape, pod)

        def without_doubt(names: Iterable[str]) -> Iterator[str]:
            for name in _in_order(view, policy, busyness, names, packed):
                if doubt := why_in_doubt(view.doubts_of(name), view.snapshot, pod, name):
                    doubts[name] = doubt
                else:
                    yield name

        node = view.snapshot.first_fitting(pod, without_doubt)
        if node:
            preferences = packed.preferences(node) if packed is not None else NO_PREFERENCES
            because = f": {preferences.reason}" if preferences.reason else ""
            return Placement(AvailabilityState.FREE, f"free on node {node}{because}", node, preferences=preferences)
        # Without devices, free capacity serves equally well, and may be on a busier node.
        if not shape.wants_devices and (warm := _warm(view, policy, shape, namespace, busyness)) is not None:
            return warm
        free = [
            each
            for each in view.placeholders.values()
            if each.is_free
            and each.node not in doubts
            and each.node not in policy.drained
            and not (shape.wants_devices and view.doubts_of(each.node).missing)
        ]
        preemption = None
        with suppress(Undecided):  # the reasons below say why
            preemption = find_preemption(view.snapshot, pod, free, busyness)
        if preemption is not None:
            return Placement(
                AvailabilityState.AFTER_PREEMPTION,
                f"placeholders are preempted on node {preemption.node}",
                preemption.node,
                preemption=preemption,
            )
        scale_up = estimate_scale_up(view, policy, shape, pod, drivers_of_kind, kinds_first)
        if doubts:
            name, doubt = min(doubts.items())
            reason = f"node {name} is not counted on: {doubt}"
            return Placement(AvailabilityState.WAITS, reason, like=scale_up.like, doubt=doubt)
        return _with_more_nodes(scale_up, policy, view.snapshot.fits(pod, explain=True), closed_for(view, policy, pod))


def held_placement(
    view: View, policy: Policy, shape: Shape, namespace: str, tickets: Collection[str]
) -> Placement | None:
    """The placement that the queue for devices decides; None if it decides nothing.

    Parameters
    ----------
    tickets
        Ids of the open tickets of the server's user.
    """
    held = view.held_for(tickets, shape.id)
    if held is not None and can_be_handed_over(view, policy, held, namespace):
        return _on_placeholder(view, policy, held)
    before = tickets_before(view, policy, shape, tickets)
    if not before:
        return None
    has_ticket = view.tickets.has_own(shape.id, tickets)
    return Placement(AvailabilityState.WAITS, f"{before} tickets are first", before=before, has_ticket=has_ticket)


def tickets_before(view: View, policy: Policy, shape: Shape, own: Collection[str] = ()) -> int:
    """Number of tickets that get devices before a server may start (`TicketQueue.before`)."""
    return view.tickets.before(shape, own) if policy.tickets is not None and policy.tickets.go_first else 0


def group_alike_nodes(view: View, shape: Shape) -> bool:
    """Group equal nodes, which is most of the work of the first search on a big cluster.

    Returns
    -------
    bool
        Whether the work is done; otherwise the next call continues.
    """
    pod, templates = simulated_user(shape, "default")
    try:
        with view.snapshot.trial():
            _add(view.snapshot, templates)
            view.snapshot.first_fitting(pod, iter)
    except SearchPostponed:
        return False
    except SearchStopped:
        return True  # no search will find that out
    return True


def _in_order(
    view: View,
    policy: Policy,
    busyness: NodesBusyness,
    node_names: Iterable[str],
    packed: PackedNodes | None = None,
) -> list[str]:
    """Nodes in the order in which users fill them: ready ones, the busiest first; those that are emptied last.

    If devices are packed, the node that loses least comes before the busiest. A node that a person drains is none of
    them, although it may not have its label yet.
    """
    nodes = view.snapshot.nodes
    keys = [
        (
            not is_labelled(nodes[name], names.DRAINING),
            _lacks_nothing(view, name),
            packed.order(name) if packed is not None else (),
            busyness.of(name).order,
            name,
        )
        for name in node_names
        if name not in policy.drained
    ]
    return [name for *_, name in sorted(keys, reverse=True)]


def _warm(view: View, policy: Policy, shape: Shape, namespace: str, busyness: NodesBusyness) -> Placement | None:
    """The usable warm placeholder on the busiest node; None if there is none."""
    chosen = max(
        (each for each in view.warm(shape.id) if can_be_handed_over(view, policy, each, namespace)),
        key=lambda each: (_lacks_nothing(view, each.node), busyness.of(each.node).rank, each.key),
        default=None,
    )
    return _on_placeholder(view, policy, chosen) if chosen is not None else None


def _on_placeholder(view: View, policy: Policy, chosen: Placeholder) -> Placement:
    if goes_first(view, policy, chosen.pod):
        reason = f"free on node {chosen.node} as soon as a placeholder is gone"
        return Placement(AvailabilityState.AFTER_PLACEHOLDER, reason, chosen.node, chosen)
    reason = f"warm on node {chosen.node}"
    return Placement(AvailabilityState.READY, reason, chosen.node, chosen)


def _lacks_nothing(view: View, node: str) -> bool:
    return is_labelled(view.snapshot.nodes[node], names.IMAGES_READY)


def _with_more_nodes(scale_up: ScaleUpEstimate, policy: Policy, fit: PodFit, closed: Closed | None) -> Placement:
    refusals = tuple(each for each in fit.nodes.values() if not each.fits)
    closed = closed or closed_devices_of(refusals, policy)
    if scale_up.like:
        only = f"{closed.reason}; " if closed is not None else ""
        reason = f"{only}it fits on one more node like {scale_up.like}"
        if scale_up.unlike:
            reason += f", but not on one like {scale_up.unlike}, which is of the same kind"
        return Placement(AvailabilityState.WAITS, reason, closed=closed, like=scale_up.like, refusals=refusals)
    if policy.node_kinds_complete and scale_up.is_certain:
        reason = f"no node of this cluster can run it: {refusal_detail(fit)}"
        return Placement(AvailabilityState.NEVER, reason, refusals=scale_up.refusals)
    reason = closed.reason if closed is not None else f"it fits on no present node: {refusal_detail(fit)}"
    has_nodes = bool(fit.nodes) or fit.general is not None
    return Placement(AvailabilityState.WAITS, reason, closed=closed, refusals=refusals, has_nodes=has_nodes)


def _add(snapshot: Snapshot, templates: Sequence[ClaimTemplate]) -> None:
    for template in templates:
        snapshot.put(template)

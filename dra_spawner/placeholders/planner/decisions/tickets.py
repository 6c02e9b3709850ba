"""Tickets: who gets the next free device, for how long it is held, and which placeholders are created for them.

A ticket gets a warm placeholder of its choice. Where there is none, one is created and stays pending until a device is
free: the scheduler gives it the device at once. So that the order of tickets is the order of devices, only tickets at
the front have pending placeholders: those before which no ticket of another choice waits for the same devices.

A ticket at the front may be of another hub, whose service is away, or of a choice that needs more devices than are
free. So where devices for a later ticket have been free for half a minute, it need not wait any longer. Devices of a
node that is kept for the first ticket do not count as free (`kept_nodes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import TICKET, PlaceholderState, TicketEvent, after
from dra_spawner.placeholders.planner.actions import ChangeTicket, DeletePlaceholder, LabelNode
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.placeholders.planner.decisions.prepared_claims import can_be_handed_over
from dra_spawner.placeholders.planner.packing.kept_nodes import misplaced_placeholders, new_keeps, nodes_kept_from
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, Policy, ReplicaRange
from dra_spawner.placeholders.planner.ticket_queue import CLOCKS_APART, QueuedTicket, competing_devices
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.snapshot import Undecided

#: Tickets of one choice for which placeholders are pending at the same time.
_MOST_AHEAD: Final = 20
#: Time for which devices may be free although a ticket waits for them.
_FREE_FOR: Final = timedelta(seconds=30)
#: Choices that are searched for in one round.
_MOST_SEARCHED: Final = 5


def decide_tickets(round_: Round) -> tuple[ChangeTicket | DeletePlaceholder, ...]:
    """Hold warm placeholders for the first tickets, end holds that are over, and keep nodes for several devices.

    It is decided last: what ends in this round is not held.
    """
    if round_.policy.tickets is None:
        return ()
    round_.remember(ticket_devices_free=_free_for_blocked(round_))
    changes = tuple(_ended_holds(round_))
    holds = tuple(_new_holds(round_))
    served = {each.ticket for each in holds}
    keeps = (each for each in new_keeps(round_) if each.ticket not in served)
    return (*changes, *holds, *keeps, *misplaced_placeholders(round_))


def with_ticket_targets(view: View, policy: Policy, planner_state: PlannerState) -> Policy:
    """The policy with the placeholders that waiting tickets need; of shapes that compete with them, no others."""
    if policy.tickets is None or not view.tickets.tickets:
        return policy
    front = _front(view, planner_state.ticket_devices_free)
    competing = frozenset[str]().union(*(each.devices for each in view.tickets.tickets if each.waits))
    replicas = dict(policy.replicas)
    for name, shape in policy.shapes.items():
        if competing.isdisjoint(competing_devices(shape)):
            continue
        wanted, before = min(front.wanted[name], _MOST_AHEAD), policy.replicas_of(name)
        there = len(view.placeholders_of_shape.get(name, ())) + wanted
        because = "for users in the queue" if wanted else ""
        replicas[name] = ReplicaRange(wanted, min(max(before.max, there), MAX_PLACEHOLDERS), 0, because)
    return replace(policy, replicas=replicas)


@dataclass(frozen=True, slots=True)
class _Front:
    """What waits at the front of the queue.

    Attributes
    ----------
    wanted
        By shape: own tickets before which no competing ticket of another choice or hub waits.
    blocked
        Shapes of other own tickets, in order.
    """

    wanted: Counter[str]
    blocked: tuple[str, ...]


def _front(view: View, free_since: Mapping[str, datetime]) -> _Front:
    wanted, blocked = Counter[str](), dict[str, None]()
    before: dict[str, set[str]] = {}  # by name of devices: choices of the earlier tickets
    for ticket in view.tickets.tickets:
        if not ticket.waits or (ticket.is_own and not ticket.shape):
            continue
        kind = ticket.shape if ticket.is_own else ""
        others = set[str]().union(*(before.get(each, ()) for each in ticket.devices)) - {kind}
        if ticket.is_own:
            since = free_since.get(ticket.shape)
            if not others or (since is not None and view.now - since >= _FREE_FOR):
                wanted[ticket.shape] += 1
            else:
                blocked[ticket.shape] = None
        for each in ticket.devices:
            before.setdefault(each, set()).add(kind)
    return _Front(wanted, tuple(each for each in blocked if not wanted[each]))


def _free_for_blocked(round_: Round) -> dict[str, datetime]:
    """By shape of tickets that others are before: since when devices for it have been free."""
    view, known = round_.view, round_.state.ticket_devices_free
    found: dict[str, datetime] = {}
    for shape in _front(view, {}).blocked[:_MOST_SEARCHED]:
        since = known.get(shape, view.now)
        is_over = shape in known and view.now - since >= _FREE_FOR
        if _is_free(round_, shape) or (is_over and _has_pending(view, shape)):
            found[shape] = min(since, view.now)
    return found


def _has_pending(view: View, shape: str) -> bool:
    return any(
        each.state in (PlaceholderState.PENDING, PlaceholderState.STARTING)
        for each in view.placeholders_of_shape.get(shape, ())
    )


def _is_free(round_: Round, shape: str) -> bool:
    """Whether a server of a shape would fit on a present node that is not kept for others."""
    view = round_.view
    pod, templates = simulated_user(round_.policy.shapes[shape], "default")
    kept = nodes_kept_from(view, round_.policy, round_.policy.shapes[shape])

    def others(node_names: Iterable[str]) -> list[str]:
        return [name for name in node_names if name not in kept]

    try:
        with view.snapshot.trial():
            for template in templates:
                view.snapshot.put(template)
            return bool(view.snapshot.first_fitting(pod, others))
    except (SearchStopped, Undecided):
        return False


def _ended_holds(round_: Round) -> Iterator[ChangeTicket]:
    view, rules = round_.view, round_.policy.tickets
    assert rules is not None
    by_uid = {each.pod.uid: each for each in view.placeholders.values()}
    for ticket in view.tickets.tickets:
        if not ticket.is_own:
            continue
        placeholder = by_uid.get(ticket.placeholder_uid)
        is_published = ticket.shape in round_.policy.shapes
        if placeholder is not None and placeholder.reserved_by_ticket == ticket.id:
            yield _change(ticket, TicketEvent.TAKE, f"placeholder {placeholder.key.name} is handed over")
        elif not is_published and round_.policy.is_complete and TicketEvent.CHOICE_GONE in TICKET[ticket.state]:
            yield _change(ticket, TicketEvent.CHOICE_GONE, "its choice is not published")
        elif is_published and TicketEvent.CHOICE_BACK in TICKET[ticket.state]:
            yield _change(ticket, TicketEvent.CHOICE_BACK, "its choice is published again")
        elif TicketEvent.TIME_OVER not in TICKET[ticket.state]:
            continue
        elif ticket.until is None or not timedelta(0) < ticket.until - view.now <= rules.hold + CLOCKS_APART:
            yield _change(ticket, TicketEvent.TIME_OVER, "its user did not start a server in time")
        elif placeholder is None and view.knows(Kind.POD):
            yield _change(ticket, TicketEvent.LOST, f"placeholder {ticket.placeholder} is gone")
        elif placeholder is not None and placeholder.shape != ticket.shape:
            yield _change(ticket, TicketEvent.LOST, f"its choice has changed since {placeholder.key.name} was created")
        elif placeholder is not None and _is_lost(round_, placeholder):
            yield _change(ticket, TicketEvent.LOST, f"placeholder {placeholder.key.name} cannot be used")


def _is_lost(round_: Round, placeholder: Placeholder) -> bool:
    is_held = placeholder.ticket and placeholder.reservation is None
    return placeholder.key in round_.ending or not is_held or not _is_usable(round_, placeholder)


def _is_usable(round_: Round, placeholder: Placeholder) -> bool:
    """Whether a start in the placeholder's namespace could have it now."""
    return can_be_handed_over(round_.view, round_.policy, placeholder, placeholder.key.namespace)


def _new_holds(round_: Round) -> Iterator[ChangeTicket]:
    """The first tickets, each with a warm placeholder of its shape that nothing else ends or reserves."""
    view, rules = round_.view, round_.policy.tickets
    assert rules is not None
    if view.unknown_kinds:
        return
    until = view.now + rules.hold
    emptied = {each.node for each in round_.actions if isinstance(each, LabelNode) and each.label == names.DRAINING}
    usable: dict[str, list[Placeholder]] = {}
    served = set[str]()
    for ticket in view.tickets.tickets:
        if not (ticket.is_own and ticket.waits and ticket.shape in round_.policy.shapes):
            continue
        if not served.isdisjoint(ticket.of_user):
            continue
        if ticket.shape not in usable:
            warm = (each for each in view.warm(ticket.shape) if each.key not in round_.ending)
            found = (each for each in warm if each.node not in emptied and _is_usable(round_, each))
            usable[ticket.shape] = sorted(found, key=lambda each: each.key, reverse=True)
        if usable[ticket.shape]:
            chosen = usable[ticket.shape].pop()
            reason = f"placeholder {chosen.key.name} is held for it until {until:%H:%M:%S %Z}"
            served.add(ticket.id)
            yield _change(ticket, TicketEvent.HOLD, reason, chosen, until)


def _change(
    ticket: QueuedTicket,
    event: TicketEvent,
    reason: str,
    placeholder: Placeholder | None = None,
    until: datetime | None = None,
) -> ChangeTicket:
    action = after(TICKET, ticket.state, event).action
    assert action is ChangeTicket.kind
    name, uid = (placeholder.key.name, placeholder.pod.uid) if placeholder is not None else ("", "")
    return ChangeTicket(ticket.id, event, reason, ticket.shape, name, uid, until)

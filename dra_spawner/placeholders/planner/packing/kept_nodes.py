"""Nodes that are kept for tickets of several devices, so that tickets for one do not pass them for ever.

The first ticket may need more devices than are free. Then one node is kept for it: the free devices there wait until
enough of its servers have stopped. It is the node where this takes the least time, if all servers stop equally often.
Devices of other nodes go to later tickets meanwhile. After the time of the setting the node is free for others for as
long, and then another try begins. Which node is kept, and how long, stands in the ticket: so it survives a leader, and
the services of other hubs see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState, TicketEvent
from dra_spawner.placeholders.planner.actions import ChangeTicket, DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.cluster.view import View, wants_devices
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder, simulated_user
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import CLOCKS_APART, QueuedTicket, competing_devices
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Undecided

#: Nodes that are looked at for one ticket, those with the fewest servers.
_MOST_NODES: Final = 50
#: The longest time that the setting allows; another hub may have a longer one than this hub.
_LONGEST: Final = timedelta(days=1)


def nodes_kept_from(view: View, policy: Policy, shape: Shape) -> frozenset[str]:
    """Nodes whose free devices a new placeholder of a shape must not get."""
    if policy.tickets is None or not view.tickets.tickets:
        return frozenset()
    devices = competing_devices(shape)
    return frozenset(
        ticket.kept_node
        for ticket, has_others in view.tickets.firsts()
        if has_others
        and not (ticket.is_own and ticket.shape == shape.id)
        and not devices.isdisjoint(ticket.devices)
        and _is_kept(view, ticket)
        and ticket.kept_node in view.snapshot.nodes
    )


def _is_kept(view: View, ticket: QueuedTicket) -> bool:
    until = ticket.kept_until
    return until is not None and timedelta(0) < until - view.now <= _LONGEST + CLOCKS_APART


def new_keeps(round_: Round) -> Iterator[ChangeTicket]:
    """For the first own tickets that need more devices than are free: the nodes that are kept for them from now on."""
    view, rules = round_.view, round_.policy.tickets
    if rules is None or not rules.keep or view.unknown_kinds:
        return
    for ticket, has_others in view.tickets.firsts():
        shape = round_.policy.shapes.get(ticket.shape) if ticket.is_own else None
        if shape is None or not has_others:
            continue
        until = view.now + rules.keep
        if _is_kept(view, ticket):
            assert ticket.kept_until is not None
            if _time_until_free(view, shape, ticket.kept_node) is not None:
                continue
            until = min(ticket.kept_until, until)  # the node has gone, or is closed
        elif ticket.kept_until is not None and timedelta(0) <= view.now - ticket.kept_until < rules.keep:
            continue
        node = _soonest(round_, shape)
        if node:
            reason = f"free devices of node {node} are kept for it until {until:%H:%M:%S %Z}"
            yield ChangeTicket(ticket.id, TicketEvent.KEEP, reason, ticket.shape, until=until, node=node)


def _soonest(round_: Round, shape: Shape) -> str:
    """The node where a server of a shape fits soonest, as servers stop; empty if it fits now, or never."""
    view, found = round_.view, list[tuple[float, str]]()
    names = (name for name in view.snapshot.nodes if name not in round_.policy.drained)
    for name in sorted(names, key=lambda name: (len(view.users_of_node.get(name, ())), name))[:_MOST_NODES]:
        time = _time_until_free(view, shape, name)
        if time is not None:
            found.append((time, name))
    time, node = min(found, default=(0.0, ""))
    return node if time else ""


def _time_until_free(view: View, shape: Shape, node: str) -> float | None:
    """Expected time, in lengths of a usual session, until a server of a shape fits on a node; None if it never does.

    Zero if it fits now. If the chance of an end is the same for all servers at any time, the first of n ends after 1/n
    of a session, the next after 1/(n - 1) more.
    """
    pod, templates = simulated_user(shape, "default")
    ending = _in_order_of_end(view, node)
    with suppress(SearchStopped, Undecided), view.snapshot.trial():
        for template in templates:
            view.snapshot.put(template)
        for number in range(len(ending) + 1):
            if view.snapshot.fits_on(pod, node, explain=False).fits:
                return sum(1.0 / (len(ending) - each) for each in range(number))
            if number < len(ending):
                view.snapshot.remove_pod(ObjectKey.of(ending[number]))
    return None


def _in_order_of_end(view: View, node: str) -> Sequence[Pod]:
    """Servers with devices on a node, and placeholders, which become servers: those that began first end first."""
    servers = [each for each in view.users_of_node.get(node, ()) if wants_devices(each)]
    placeholders = [each.pod for each in view.placeholders_of_node.get(node, ())]
    return [*sorted(servers, key=lambda pod: (pod.created, pod.name)), *placeholders]


def misplaced_placeholders(round_: Round) -> Iterator[DeletePlaceholder]:
    """Pending placeholders that could get a device that is kept for others, or not one that is kept no more."""
    view, policy = round_.view, round_.policy
    if not view.tickets.tickets:
        return
    for shape in policy.shapes.values():
        pending = [
            each
            for each in view.placeholders_of_shape.get(shape.id, ())
            if each.state is PlaceholderState.PENDING and each.key not in round_.ending
        ]
        if not pending or not shape.wants_devices:
            continue
        kept = nodes_kept_from(view, policy, shape)
        anyway = _excluded_nodes(simulated_placeholder(shape, "default")[0])
        for each in pending:
            if _excluded_nodes(each.pod) - anyway != kept - anyway and each.may_end(Cause.PREEMPTED):
                reason = "another node is kept for a ticket now than when it was created"
                yield delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason)


def _excluded_nodes(pod: Pod) -> frozenset[str]:
    """Nodes that a pod excludes by name."""
    terms = pod.required_nodes.terms if pod.required_nodes is not None else ()
    return frozenset(
        value for term in terms for each in term.match_fields if each.operator == "NotIn" for value in each.values
    )

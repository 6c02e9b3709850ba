"""Sentences of a verdict, without words of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import NodeOrder
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation
from dra_spawner.scale_ahead.rehearsal.timetable import Waits


def verdict(
    situation: RehearsalSituation, orders: Sequence[NodeOrder], obstacle: RehearsalProblem | None, planned: Waits
) -> str:
    """One sentence: whether the users can start, with the orders that this needs, or the reason why they cannot.

    Parameters
    ----------
    obstacle
        The most important problem; None without one.
    planned
        Waits of users if all nodes are ordered in time, or now.
    """
    users, when = _users(situation.expected.users), _when(situation)
    if obstacle is None:
        if not situation.wanted:
            return f"Yes: no further server is needed for {users}."
        if not orders:
            return f"Yes: {users} can start {when} on the present nodes."
        unproved = next((each for each in orders if not each.template_node), None)
        condition = f", if a node of {unproved.supply.name} runs {unproved.slots[0]} servers" if unproved else ""
        return f"Yes{condition}: {users} can start {when}; {_ordered(situation, orders)}."
    if obstacle.code is ProblemCode.NOBODY_ORDERS:
        return f"Only if {_conditions(situation, orders, obstacle.plain)}: {users} can start {when}."
    is_drained = obstacle.code is ProblemCode.DRAINED and situation.settings.has_autoscaler and not planned.without_end
    if obstacle.code is ProblemCode.TOO_LATE or (
        planned.longest and (is_drained or obstacle.code is ProblemCode.PLACEHOLDER_LIMIT)
    ):
        longest = minutes_of(planned.longest)
        return f"No: {obstacle.users} of {users} would wait up to {longest} {when}: {obstacle.plain}."
    if obstacle.code is ProblemCode.NOT_KNOWN:
        return f"Not known whether {obstacle.users} of {users} can start {when}: {obstacle.plain}."
    return f"No: {obstacle.users} of {users} cannot start {when}: {obstacle.plain}."


def clock(moment: datetime, situation: RehearsalSituation) -> str:
    """A time in the rehearsal's zone, with its date if the begin is on another day."""
    zone = situation.expected.begins.tzinfo
    local = moment.astimezone(zone)
    is_same = local.date() == situation.begins.astimezone(zone).date()
    return f"{local:%H:%M}" if is_same else f"{local:%H:%M} on {local:%Y-%m-%d}"


def minutes_of(duration: timedelta) -> str:
    """A duration in minutes, rounded up."""
    minutes = -(-duration // timedelta(minutes=1))
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def nodes_of(number: int, kind: str) -> str:
    """A number of nodes of a kind."""
    return f"{number} {'node' if number == 1 else 'nodes'} of {kind}"


def _ordered(situation: RehearsalSituation, orders: Sequence[NodeOrder]) -> str:
    if len(orders) > 1:
        nodes = " and ".join(nodes_of(each.nodes, each.supply.name) for each in orders)
        first = min(orders, key=lambda each: each.order_at)
        verb = "was" if first.is_on_order else "is"
        return f"{nodes} are needed, and the first of them {verb} ordered {_order_time(situation, first)}"
    (order,) = orders
    verb = ("was" if order.is_on_order else "is") if order.nodes == 1 else ("were" if order.is_on_order else "are")
    return f"{nodes_of(order.nodes, order.supply.name)} {verb} ordered {_order_time(situation, order)}"


def _conditions(situation: RehearsalSituation, orders: Sequence[NodeOrder], others: str) -> str:
    """What somebody must do so that the users can start, and what is assumed of new nodes."""
    needed, settings = [each for each in orders if not each.is_on_order], situation.settings
    parts = []
    if not settings.is_announced and not settings.not_prepared:
        parts.append("a calendar entry announces them")
    for each in needed:
        nodes, verb = nodes_of(each.nodes, each.supply.name), "is" if each.nodes == 1 else "are"
        if settings.has_autoscaler is False or (settings.has_autoscaler is None and not settings.not_prepared):
            parts.append(f"{nodes} {verb} added by {clock(situation.usable_by, situation)}")
        elif settings.not_prepared:
            parts.append(f"{nodes} {verb} ordered {_order_time(situation, each)}")
    parts += [others] if others else []
    parts += [f"a node of {each.supply.name} runs {each.slots[0]} servers" for each in needed if not each.template_node]
    return " and ".join(parts)


def _order_time(situation: RehearsalSituation, order: NodeOrder) -> str:
    is_due = not order.is_on_order and order.order_at <= situation.now
    return "now" if is_due else f"at {clock(order.order_at, situation)}"


def _when(situation: RehearsalSituation) -> str:
    if situation.begins <= situation.now:
        return "now"
    zone = situation.expected.begins.tzinfo
    local, today = situation.begins.astimezone(zone), situation.now.astimezone(zone).date()
    return f"at {local:%H:%M}" if local.date() == today else f"on {local:%Y-%m-%d} at {local:%H:%M}"


def _users(number: int) -> str:
    return f"{number} user" if number == 1 else f"{number} users"

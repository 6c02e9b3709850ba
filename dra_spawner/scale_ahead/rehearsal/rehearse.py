"""A rehearsal: nodes for expected users, orders with their times, and problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.limits import Quota, needed_amounts
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.rehearsal.capacity import Capacity, ServersBeside, measure_capacity
from dra_spawner.scale_ahead.rehearsal.nodes.closed_capacity import drained_until_then
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.obstacles import (
    closed_obstacles,
    limit_obstacles,
    node_obstacles,
    notes,
    order_obstacles,
    quota_obstacles,
    time_obstacles,
)
from dra_spawner.scale_ahead.rehearsal.ordering import (
    new_servers,
    node_orders,
    slots_in_time,
    slots_with_orders,
    slots_without_orders,
)
from dra_spawner.scale_ahead.rehearsal.quotas import quota_capacity
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, NodeOrder, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation, situation_of
from dra_spawner.scale_ahead.rehearsal.timetable import Waits, waits
from dra_spawner.scale_ahead.rehearsal.verdict_text import verdict

#: Limit of the steps of all searches for devices in one rehearsal, 5 to 10 µs each.
_MAX_STEPS: Final = 2_000_000
#: Longer than any node stays that is not known to be removed.
_LONG: Final = timedelta(days=366)
#: Problems of users who get a server, but wait for it.
_ABOUT_WAITS: Final = frozenset(
    (ProblemCode.DRAINED, ProblemCode.TOO_LATE, ProblemCode.PLACEHOLDER_LIMIT, ProblemCode.NOBODY_ORDERS)
)


@dataclass(frozen=True, slots=True)
class RehearsedAlone:
    """A rehearsal, and the times from which servers can start, one for each user.

    Attributes
    ----------
    with_orders, without_orders
        If all nodes are ordered in time, or now, and if none is ordered before the users come.
    """

    result: Rehearsal
    situation: RehearsalSituation
    with_orders: Sequence[datetime] = ()
    without_orders: Sequence[datetime] = ()

    def waiting(self, with_orders: Waits, without_orders: Waits, *, is_enough: bool) -> Rehearsal:
        """The same answer with other waits, as users of other entries come at the same time.

        Parameters
        ----------
        is_enough
            Whether none of all these users waits, so that no node is late.
        """
        found = replace(self.result, with_orders=with_orders, without_orders=without_orders)
        if is_enough and self.situation.settings.has_autoscaler:
            problems = tuple(each for each in found.problems if not each.blocks or each.code not in _ABOUT_WAITS)
            first = next((each for each in problems if each.blocks), None)
            sentence = verdict(self.situation, found.orders, first, with_orders)
            return replace(found, problems=problems, is_possible=first is None, verdict=sentence)
        waiting = (with_orders if self.situation.is_done else without_orders).users
        if not (found.is_possible and waiting):
            return found
        note = RehearsalProblem(
            ProblemCode.BESIDE,
            "users of other entries come at the same time and may be faster: as many servers are there as these users "
            f"need, but {waiting} of them would wait",
            users=waiting,
            blocks=False,
        )
        return replace(found, problems=(*found.problems, note))


def rehearse(
    expected: ExpectedUsers,
    view: View,
    namespace: str,
    supplies: Sequence[NodeSupply],
    settings: RehearsalSettings | None = None,
    *,
    is_over: Callable[[], bool] | None = None,
) -> Rehearsal:
    """The answer of `rehearse_alone`."""
    return rehearse_alone(expected, view, namespace, supplies, settings, is_over=is_over).result


def rehearse_alone(
    expected: ExpectedUsers,
    view: View,
    namespace: str,
    supplies: Sequence[NodeSupply],
    settings: RehearsalSettings | None = None,
    *,
    beside: Sequence[ServersBeside] = (),
    starts_before: Mapping[str, datetime] | None = None,
    is_over: Callable[[], bool] | None = None,
) -> RehearsedAlone:
    """Prove by the simulator whether the users can start, and compute the orders of nodes.

    Parameters
    ----------
    view
        The cluster; the time of the view is now. Its snapshot is unchanged afterwards.
    namespace
        Namespace of the users' servers.
    supplies
        Kinds of nodes that can be added. Kinds that are usable in time are used first, then in the given order.
    beside
        Servers of other users at the same time: they get nodes, placeholders, quotas and limits first.
    starts_before
        Time before which nodes must have started, by name of the supply: nodes for users who come later start then.
    is_over
        Called from time to time; if it returns True, the search ends without a verdict.
    """
    settings = settings or RehearsalSettings()
    usable_after = max((each.usable_after for each in supplies), default=timedelta(0))
    order_at = expected.begins.astimezone(UTC) - settings.margin - usable_after
    settings = _left(settings, view, beside, expected.shape.id, order_at)
    lasting = max((each.usable_after + each.unneeded for each in supplies if each.unneeded is not None), default=_LONG)
    situation = situation_of(expected, view, namespace, settings, beside, starts_before, lasting)
    in_time_first = sorted(supplies, key=lambda each: situation.usable_by - each.usable_after < situation.now)
    try:
        capacity = measure_capacity(
            view,
            expected.shape,
            namespace,
            situation.to_place,
            in_time_first,
            SearchBudget(_MAX_STEPS, is_over),
            are_pending_included=expected.counts == IN_TOTAL,
            beside=beside,
            used_from=situation.used_from(),
            packs_devices=settings.packs_devices,
            target=settings.target,
            back_in_use=drained_until_then(view, settings.back_at, situation.begins),
        )
    except SearchStopped as stopped:
        problem = RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"the search for devices was stopped: {stopped.reason}",
            "the search for free nodes took too long",
            situation.wanted,
        )
        nothing = Capacity(0, 0, (), situation.to_place)
        return RehearsedAlone(_answer(situation, nothing, (), [problem], Waits(), Waits(), 0), situation)
    quotas = [
        found for quota in settings.quotas or () if (found := quota_capacity(quota, expected.shape, view)) is not None
    ]
    wanted = situation.wanted
    by_quota = min((situation.warm + each.servers for each in quotas), default=wanted)
    allowed = max(min(wanted - capacity.lacking, by_quota), 0)
    new = new_servers(situation, capacity, allowed)
    orders = tuple(node_orders(situation, new.ahead))
    come = situation.arrivals
    without_orders = slots_without_orders(situation, capacity, orders, new.on_demand, allowed)
    unprepared = waits(come, without_orders)
    with_orders = slots_with_orders(situation, capacity, orders, new.on_demand, allowed)
    planned = waits(come, with_orders)
    in_time = waits(come, slots_in_time(situation, capacity, orders, allowed))
    late = in_time.users - in_time.without_end
    problems = [
        *closed_obstacles(situation, capacity, late),
        *node_obstacles(situation, capacity),
        *quota_obstacles(situation, by_quota, quotas),
        *limit_obstacles(situation, new, planned.users - late - (wanted - allowed)),
        *time_obstacles(situation, capacity, orders, late),
        *order_obstacles(situation, capacity, orders, unprepared.users),
        *notes(situation, capacity),
    ]
    result = _answer(situation, capacity, orders, problems, unprepared, planned, allowed)
    return RehearsedAlone(result, situation, with_orders, without_orders)


def _left(
    settings: RehearsalSettings, view: View, beside: Sequence[ServersBeside], shape: str, order_at: datetime
) -> RehearsalSettings:
    """The settings with what servers beside leave of limits, when nodes must be ordered, and of quotas."""
    if not beside:
        return settings
    quotas = settings.quotas
    return replace(
        settings,
        placeholders_of_others=sum(_still_come(each, order_at) for each in beside if each.shape.id == shape),
        quotas=tuple(_quota_left(each, view, beside) for each in quotas) if quotas is not None else None,
    )


def _still_come(beside: ServersBeside, at: datetime) -> int:
    """Number of other users who have not come at a time, so that placeholders wait for them."""
    users = beside.servers + beside.warm
    return users - sum(each < at for each in beside.arrivals())


def _quota_left(quota: Quota, view: View, beside: Sequence[ServersBeside]) -> Quota:
    left = dict(quota.left)
    for each in beside:
        for resource, amount in needed_amounts(each.shape, view.snapshot.classes, quota, for_server=True).items():
            if resource in left:
                left[resource] -= amount * each.servers
    return replace(quota, left=left)


def _answer(
    situation: RehearsalSituation,
    capacity: Capacity,
    orders: Sequence[NodeOrder],
    problems: Sequence[RehearsalProblem],
    without_orders: Waits,
    with_orders: Waits,
    placed: int,
) -> Rehearsal:
    zone = situation.expected.begins.tzinfo
    in_the_way = sorted((each for each in problems if each.blocks), key=_rank)
    first_order_at = min((each.order_at for each in orders), default=None)
    return Rehearsal(
        expected=situation.expected,
        now=situation.now.astimezone(zone),
        verdict=verdict(situation, orders, in_the_way[0] if in_the_way else None, with_orders),
        is_possible=not in_the_way,
        first_order_at=first_order_at.astimezone(zone) if first_order_at is not None else None,
        problems=(*in_the_way, *(each for each in problems if not each.blocks)),
        running=situation.running,
        wanted=situation.wanted,
        warm=situation.warm,
        free=capacity.ready,
        free_without_image=capacity.without_image,
        lacking=capacity.lacking,
        orders=tuple(replace(each, order_at=each.order_at.astimezone(zone)) for each in orders),
        without_orders=without_orders,
        with_orders=with_orders,
        free_coming=capacity.coming,
        placed=placed,
    )


def _rank(problem: RehearsalProblem) -> tuple[bool, int]:
    """What makes it impossible comes before what somebody can still do."""
    return problem.code is ProblemCode.NOBODY_ORDERS, -problem.users

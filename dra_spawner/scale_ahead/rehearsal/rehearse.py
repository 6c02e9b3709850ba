"""A rehearsal: nodes for expected users, orders with their times, and problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.rehearsal.capacity import Capacity, measure_capacity
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.obstacles import limit_obstacles, node_obstacles, notes, time_obstacles
from dra_spawner.scale_ahead.rehearsal.ordering import node_orders, waits_with_orders, waits_without_orders
from dra_spawner.scale_ahead.rehearsal.quotas import quota_capacity
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, NodeOrder, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation, situation_of
from dra_spawner.scale_ahead.rehearsal.timetable import Waits
from dra_spawner.scale_ahead.rehearsal.verdict_text import verdict

__all__ = ["rehearse"]

#: Limit of the steps of all searches for devices in one rehearsal, 5 to 10 µs each.
_MAX_STEPS: Final = 2_000_000


def rehearse(
    expected: ExpectedUsers,
    view: View,
    namespace: str,
    supplies: Sequence[NodeSupply],
    settings: RehearsalSettings | None = None,
    *,
    is_over: Callable[[], bool] | None = None,
) -> Rehearsal:
    """Prove by the simulator whether the users can start, and compute the orders of nodes.

    Parameters
    ----------
    view
        The cluster; the time of the view is now. Its snapshot is unchanged afterwards.
    namespace
        Namespace of the users' servers.
    supplies
        Kinds of nodes that can be added. Kinds that are usable in time are used first, then in the given order.
    is_over
        Called from time to time; if it returns True, the search ends without a verdict.
    """
    settings = settings or RehearsalSettings()
    situation = situation_of(expected, view, namespace, settings)
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
        )
    except SearchStopped as stopped:
        problem = RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"the search for devices was stopped: {stopped.reason}",
            "the search for free nodes took too long",
            situation.wanted,
        )
        return _answer(situation, Capacity(0, 0, (), situation.to_place), (), [problem], Waits(), Waits())
    quotas = [
        found for quota in settings.quotas or () if (found := quota_capacity(quota, expected.shape, view)) is not None
    ]
    wanted, most = situation.wanted, settings.max_placeholders
    by_nodes = wanted - capacity.lacking
    by_quota = min((situation.warm + each.servers for each in quotas), default=wanted)
    # Free capacity needs no placeholder.
    by_limit = max(situation.present(capacity), min(wanted, most)) if most is not None else wanted
    orders = tuple(node_orders(situation, capacity))
    without_orders = waits_without_orders(situation, capacity, min(by_nodes, by_quota))
    with_orders = waits_with_orders(situation, capacity, orders, min(by_nodes, by_quota, by_limit))
    problems = [
        *node_obstacles(situation, capacity),
        *limit_obstacles(situation, by_limit, by_quota, quotas),
        *time_obstacles(situation, orders, with_orders),
        *notes(situation, capacity),
    ]
    return _answer(situation, capacity, orders, problems, without_orders, with_orders)


def _answer(
    situation: RehearsalSituation,
    capacity: Capacity,
    orders: Sequence[NodeOrder],
    problems: Sequence[RehearsalProblem],
    without_orders: Waits,
    with_orders: Waits,
) -> Rehearsal:
    zone = situation.expected.begins.tzinfo
    in_the_way = sorted((each for each in problems if each.blocks), key=lambda each: -each.users)
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
    )

"""Rehearsal of a whole day: all announced users on the same nodes, with the same quotas and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.rehearsal.capacity import ServersBeside
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, NodeOrder, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse import RehearsedAlone, rehearse_alone
from dra_spawner.scale_ahead.rehearsal.timetable import shared_waits, start_delays

_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Announced:
    """Users of one entry.

    Attributes
    ----------
    ends
        Time at which their servers end, with a time zone.
    usual
        Launches besides, from the begin until the last of the users has come.
    """

    name: str
    expected: ExpectedUsers
    ends: datetime
    supplies: Sequence[NodeSupply]
    settings: RehearsalSettings
    usual: int = 0


def rehearse_day(
    entries: Sequence[Announced], view: View, namespace: str, *, is_over: Callable[[], bool] | None = None
) -> list[Rehearsal]:
    """Rehearse entries, each beside those that begin before it and have not ended.

    Servers of an entry run until it ends. Of two entries at one time, the first in the given order gets nodes first.

    Returns
    -------
    list of Rehearsal
        In the order of the entries.
    """
    order = sorted(range(len(entries)), key=lambda number: entries[number].expected.begins.astimezone(UTC))
    found: dict[int, RehearsedAlone] = {}
    beside: dict[int, list[ServersBeside]] = {}
    for position, number in enumerate(order):
        entry = entries[number]
        usable_by = entry.expected.begins.astimezone(UTC) - entry.settings.margin
        active = [each for each in order[:position] if entries[each].ends.astimezone(UTC) > usable_by]
        beside[number] = [_servers_of(entries[each], found[each]) for each in active]
        if entry.usual:
            beside[number].insert(0, ServersBeside(entry.expected.shape, entry.usual, entry.supplies))
        found[number] = _rehearsed(entry, view, namespace, beside[number], {}, is_over)
    # Nodes of a kind that starts one after the other must not be ordered when those of later entries start.
    started: dict[str, datetime] = {}
    for number in reversed(order):
        result = found[number].result
        if any(each.supply.name in started and started[each.supply.name] < _last_start(each) for each in result.orders):
            found[number] = _rehearsed(entries[number], view, namespace, beside[number], started, is_over)
        for each in found[number].result.orders:
            rate = each.supply.starts_per_minute
            if rate is not None and not each.is_on_order:
                began = each.order_at.astimezone(UTC) - timedelta(minutes=max(1.0, 1 / rate))
                started[each.supply.name] = min(started.get(each.supply.name, began), began)
    results = {number: each.result for number, each in found.items()}
    for group in _coming_together([number for number in order if found[number].situation.wanted], found):
        together = [found[number] for number in group]
        come = [each.situation.arrivals for each in together]
        with_orders = shared_waits(come, chain.from_iterable(each.with_orders for each in together))
        without_orders = shared_waits(come, chain.from_iterable(each.without_orders for each in together))
        for number, alone, ahead, on_demand in zip(group, together, with_orders, without_orders, strict=True):
            happens = with_orders if alone.situation.is_done else without_orders
            is_enough = not any(waits.users for waits in happens)
            results[number] = alone.waiting(ahead, on_demand, is_enough=is_enough)
    return [results[number] for number in range(len(entries))]


def _coming_together(order: Iterable[int], found: Mapping[int, RehearsedAlone]) -> list[list[int]]:
    """Entries whose users need equal servers and come while others come: who comes first gets a server first."""
    groups: list[list[int]] = []
    last: dict[str, tuple[datetime, list[int]]] = {}
    for number in order:
        situation = found[number].situation
        shape, come = situation.expected.shape.id, situation.arrivals
        until, group = last.get(shape, (come[0], []))
        if come[0] > until or not group:
            groups.append(group := [])
        group.append(number)
        last[shape] = max(until, come[-1]), group
    return [each for each in groups if len(each) > 1]


def _rehearsed(
    entry: Announced,
    view: View,
    namespace: str,
    beside: Sequence[ServersBeside],
    starts_before: Mapping[str, datetime],
    is_over: Callable[[], bool] | None,
) -> RehearsedAlone:
    found = rehearse_alone(
        entry.expected,
        view,
        namespace,
        entry.supplies,
        entry.settings,
        beside=beside,
        starts_before=starts_before,
        is_over=is_over,
    )
    if not beside:
        return found
    others = [f"{each.name} ({_users(each.servers + each.warm)})" for each in beside if each.expected is not None]
    named = others[:_MAX_NAMED] + ([f"{len(others) - _MAX_NAMED} more"] if len(others) > _MAX_NAMED else [])
    named += [f"{each.servers} usual launches" for each in beside if each.expected is None]
    note = f"at the same time there are {', '.join(named)}; they get nodes first"
    problem = RehearsalProblem(ProblemCode.BESIDE, note, blocks=False)
    return replace(found, result=replace(found.result, problems=(*found.result.problems, problem)))


def _servers_of(entry: Announced, rehearsed: RehearsedAlone) -> ServersBeside:
    """The servers that the users of an entry get."""
    found, ahead, on_demand = rehearsed.result, rehearsed.with_orders, rehearsed.without_orders
    return ServersBeside(
        entry.expected.shape,
        max(found.placed - found.warm, 0),
        entry.supplies,
        found.warm,
        sum(each.servers for each in found.orders),
        max(ahead) if found.placed and len(ahead) >= found.placed else None,
        max(on_demand) if found.placed and len(on_demand) >= found.placed else None,
        rehearsed.situation.kept,
        entry.expected,
        entry.name,
        {each.supply.name: each.next_start(found.now) for each in found.orders if each.is_due(found.now)},
    )


def _last_start(order: NodeOrder) -> datetime:
    return order.order_at.astimezone(UTC) + start_delays(order.nodes, order.supply.starts_per_minute)[-1]


def _users(number: int) -> str:
    return "1 user" if number == 1 else f"{number} users"

"""Rehearsal of a whole day: all announced users on the same nodes, with the same quotas and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.rehearsal.capacity import ServersBeside
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, NodeOrder, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.scale_ahead.rehearsal.timetable import start_delays

__all__ = ["Announced", "rehearse_day"]

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
    found: dict[int, Rehearsal] = {}
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
        result = found[number]
        if any(each.supply.name in started and started[each.supply.name] < _last_start(each) for each in result.orders):
            found[number] = _rehearsed(entries[number], view, namespace, beside[number], started, is_over)
        for each in found[number].orders:
            rate = each.supply.starts_per_minute
            if rate is not None and not each.is_on_order:
                began = each.order_at.astimezone(UTC) - timedelta(minutes=max(1.0, 1 / rate))
                started[each.supply.name] = min(started.get(each.supply.name, began), began)
    return [found[number] for number in range(len(entries))]


def _rehearsed(
    entry: Announced,
    view: View,
    namespace: str,
    beside: Sequence[ServersBeside],
    starts_before: Mapping[str, datetime],
    is_over: Callable[[], bool] | None,
) -> Rehearsal:
    found = rehearse(
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
    return replace(found, problems=(*found.problems, RehearsalProblem(ProblemCode.BESIDE, note, blocks=False)))


def _servers_of(entry: Announced, found: Rehearsal) -> ServersBeside:
    """The servers that the users of an entry get."""
    usable = [max(each.usable_at(found.now)) for each in found.orders]
    return ServersBeside(
        entry.expected.shape,
        max(found.placed - found.warm, 0),
        entry.supplies,
        found.warm,
        sum(each.servers for each in found.orders),
        max(usable, default=None),
        entry.expected,
        entry.name,
    )


def _last_start(order: NodeOrder) -> datetime:
    return order.order_at.astimezone(UTC) + start_delays(order.nodes, order.supply.starts_per_minute)[-1]


def _users(number: int) -> str:
    return "1 user" if number == 1 else f"{number} users"

"""Orders of new nodes with their times, and times from which servers can start with and without these orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dra_spawner.scale_ahead.rehearsal.capacity import Capacity
from dra_spawner.scale_ahead.rehearsal.nodes.new_nodes import NewNodes
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import NodeOrder
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation
from dra_spawner.scale_ahead.rehearsal.timetable import order_time, starts_on_demand


@dataclass(frozen=True, slots=True)
class NewServers:
    """New nodes for the servers that may start: those that are ordered ahead, and those that come when users wait."""

    ahead: tuple[NewNodes, ...]
    on_demand: tuple[NewNodes, ...]


def new_servers(situation: RehearsalSituation, capacity: Capacity, allowed: int) -> NewServers:
    """Nodes for the servers that quotas allow; placeholders, of which a limit allows some, order theirs ahead.

    A node that is ordered for one placeholder has room for further users.

    Parameters
    ----------
    allowed
        Number of users that can have a server.
    """
    settings = situation.settings
    present = situation.present(capacity)
    most = settings.placeholders_left
    prepared = min(allowed, most) if most is not None and not settings.not_prepared else allowed
    left, placed = max(allowed - present, 0), present
    ahead: list[NewNodes] = []
    on_demand: list[NewNodes] = []
    for new in capacity.new:
        parts: tuple[list[int], list[int]] = ([], [])
        for slots in new.slots:
            count = min(slots, left)
            if count:
                parts[placed >= prepared].append(count)
            placed, left = placed + count, left - count
        for found, part in zip((ahead, on_demand), parts, strict=True):
            if part:
                found.append(replace(new, slots=tuple(part)))
    return NewServers(tuple(ahead), tuple(on_demand))


def node_orders(situation: RehearsalSituation, ahead: Sequence[NewNodes]) -> Iterator[NodeOrder]:
    """Orders of new nodes; nodes for pending placeholders are on order already."""
    on_order = list(situation.on_order)
    for new in ahead:
        slots = list(new.slots)
        begun = []
        starts = [each.next_starts[new.supply.name] for each in situation.beside if new.supply.name in each.next_starts]
        not_before = max(starts, default=None)
        since = on_order[0] if on_order else situation.now
        while slots and on_order:
            begun.append(slots.pop(0))
            del on_order[: begun[-1]]
        if begun:
            order = NodeOrder(new.supply, tuple(begun), new.template_node, since, True, not_before)
            not_before = order.next_start(situation.now)
            yield order
        if slots:
            order_at = _order_time(situation, new, len(slots))
            yield NodeOrder(new.supply, tuple(slots), new.template_node, order_at, not_before=not_before)


def slots_in_time(
    situation: RehearsalSituation, capacity: Capacity, orders: Sequence[NodeOrder], allowed: int
) -> list[datetime]:
    """Times from which servers can start on nodes that are present or ordered ahead, one for each user."""
    return _first(_slots_with(situation, capacity, orders), allowed)


def slots_with_orders(
    situation: RehearsalSituation,
    capacity: Capacity,
    orders: Sequence[NodeOrder],
    on_demand: Sequence[NewNodes],
    allowed: int,
) -> list[datetime]:
    """The same if each order is given in time, or now, and further nodes come as the limit of placeholders allows."""
    slots = _slots_with(situation, capacity, orders)
    # A placeholder is created as soon as an earlier user has taken one.
    late = _slots_on_demand(situation, on_demand, len(slots), situation.settings.max_placeholders)
    return _first([*slots, *late], allowed)


def slots_without_orders(
    situation: RehearsalSituation,
    capacity: Capacity,
    orders: Sequence[NodeOrder],
    on_demand: Sequence[NewNodes],
    allowed: int,
) -> list[datetime]:
    """The same if further nodes are ordered only as users come; those that are on order already come."""
    settings = situation.settings
    slots = _slots_with(situation, capacity, [each for each in orders if each.is_on_order], is_prepared=False)
    new: list[NewNodes | NodeOrder] = [*(each for each in orders if not each.is_on_order), *on_demand]
    # Usual placeholders order a node before the users come that need it.
    slots += _slots_on_demand(situation, new, len(slots), settings.min_placeholders)
    return _first(slots, allowed)


def _slots_with(
    situation: RehearsalSituation, capacity: Capacity, orders: Sequence[NodeOrder], *, is_prepared: bool = True
) -> list[datetime]:
    # Placeholders pull the images before the users come.
    pull_from = situation.now if is_prepared and not situation.settings.not_prepared else situation.begins
    slots = [*_present_slots(situation, capacity, pull_from)]
    for position, count in capacity.coming_with.items():
        other = situation.beside[position]
        moment = other.usable_at if is_prepared else other.usable_on_demand
        if other.expected is None:
            moment = situation.now
        if moment is not None:
            slots += [moment.astimezone(UTC)] * count
    for order in orders:
        for count, moment in zip(order.slots, order.usable_at(situation.now), strict=True):
            slots += [moment] * count
    return slots


def _slots_on_demand(
    situation: RehearsalSituation, new: Sequence[NewNodes | NodeOrder], taken: int, placeholders: int | None
) -> Iterator[datetime]:
    """Times from which slots are free, if a node is ordered for each user that finds none.

    Parameters
    ----------
    taken
        Number of the slots before, which the first users get.
    placeholders
        Number of users for whom there are placeholders at any time, so that nodes are ordered before they come.
    """
    if situation.settings.has_autoscaler is False:
        return
    come = situation.placeholder_times(placeholders)
    for each in new:
        ordered = []
        for count in each.slots:
            ordered.append(come[min(taken, len(come) - 1)])
            taken += count
        starts = starts_on_demand(ordered, each.supply.starts_per_minute)
        for count, start in zip(each.slots, starts, strict=True):
            yield from (start + each.supply.usable_after,) * count


def _order_time(situation: RehearsalSituation, new: NewNodes, nodes: int) -> datetime:
    supply = new.supply
    started_by = situation.starts_before.get(supply.name)
    usable_by = situation.usable_by if started_by is None else started_by + supply.usable_after
    return order_time(min(usable_by, situation.usable_by), supply.usable_after, nodes, supply.starts_per_minute)


def _present_slots(situation: RehearsalSituation, capacity: Capacity, pull_from: datetime) -> Iterator[datetime]:
    yield from (situation.now,) * (situation.warm + capacity.ready)
    yield from (pull_from + situation.settings.image_time,) * capacity.without_image


def _first(slots: Sequence[datetime], most: int) -> list[datetime]:
    return sorted(slots)[: max(most, 0)]

"""Orders of new nodes with their times, and waits of users with and without these orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from dra_spawner.scale_ahead.rehearsal.capacity import Capacity, NewNodes
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import NodeOrder
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation
from dra_spawner.scale_ahead.rehearsal.timetable import Waits, arrivals, order_time, starts_on_demand, waits

__all__ = ["node_orders", "waits_with_orders", "waits_without_orders"]


def node_orders(situation: RehearsalSituation, capacity: Capacity) -> Iterator[NodeOrder]:
    """Orders of all new nodes; nodes for pending placeholders are on order already."""
    on_order = list(situation.on_order)
    for new in capacity.new:
        slots = list(new.slots)
        begun = []
        since = on_order[0] if on_order else situation.now
        while slots and on_order:
            begun.append(slots.pop(0))
            del on_order[: begun[-1]]
        if begun:
            yield NodeOrder(new.supply, tuple(begun), new.template_node, since, is_on_order=True)
        if slots:
            yield NodeOrder(new.supply, tuple(slots), new.template_node, _order_time(situation, new, len(slots)))


def waits_with_orders(
    situation: RehearsalSituation, capacity: Capacity, orders: Sequence[NodeOrder], most: int
) -> Waits:
    """Waits of users if each order is given in time, or now.

    Parameters
    ----------
    most
        Limit of users that can have a server.
    """
    slots = [*_present_slots(situation, capacity, situation.now)]
    for order in orders:
        for count, moment in zip(order.slots, order.usable_at(situation.now), strict=True):
            slots += [moment] * count
    return _waits(situation, slots, most)


def waits_without_orders(situation: RehearsalSituation, capacity: Capacity, most: int) -> Waits:
    """Waits of users if each node is ordered only when a user comes that fits on no other node."""
    slots = [*_present_slots(situation, capacity, situation.begins)]
    come = _arrivals(situation)
    taken = situation.present(capacity)
    for new in capacity.new:
        ordered = []
        for count in new.slots:
            ordered.append(come[taken])
            taken += count
        starts = starts_on_demand(ordered, new.supply.starts_per_minute)
        for count, start in zip(new.slots, starts, strict=True):
            slots += [start + new.supply.usable_after] * count
    return _waits(situation, slots, most)


def _order_time(situation: RehearsalSituation, new: NewNodes, nodes: int) -> datetime:
    return order_time(situation.usable_by, new.supply.usable_after, nodes, new.supply.starts_per_minute)


def _present_slots(situation: RehearsalSituation, capacity: Capacity, pull_from: datetime) -> Iterator[datetime]:
    yield from (situation.now,) * (situation.warm + capacity.ready)
    yield from (pull_from + situation.settings.image_time,) * capacity.without_image


def _waits(situation: RehearsalSituation, slots: Sequence[datetime], most: int) -> Waits:
    return waits(_arrivals(situation), sorted(slots)[: max(most, 0)])


def _arrivals(situation: RehearsalSituation) -> tuple[datetime, ...]:
    return arrivals(situation.begins, situation.expected.ramp, situation.wanted)

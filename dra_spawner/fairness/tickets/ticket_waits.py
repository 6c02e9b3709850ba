"""Expected waits of the tickets of one hub, from the cluster and the lengths of its sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from dra_spawner import names
from dra_spawner.fairness.tickets.interval_widths import IntervalWidths
from dra_spawner.fairness.tickets.queue_waits import FEWEST_SESSIONS, QueueHabits, QueueOutlook, expected_waits
from dra_spawner.fairness.tickets.ticket_book import Waits
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SessionLengths, WaitInterval
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy, TicketRules
from dra_spawner.placeholders.planner.ticket_queue import QueuedTicket, competing_devices
from dra_spawner.simulator.model.pods import Pod

#: By what tickets compete for: the waiting tickets, and what is known of such devices.
Outlooks: TypeAlias = Mapping[frozenset[str], tuple[Sequence[QueuedTicket], QueueOutlook]]


@dataclass(frozen=True, slots=True)
class KnownSessions:
    """What is known of sessions.

    Attributes
    ----------
    lengths_of
        Returns the lengths of sessions of a shape; None if too few were seen.
    age_of
        Returns the seconds since a server has had its node.
    """

    lengths_of: Callable[[str], SessionLengths | None]
    age_of: Callable[[Pod], float]


def outlooks_of(
    view: View, policy: Policy, sessions: KnownSessions, habits: QueueHabits, widths: IntervalWidths
) -> Outlooks:
    """What is known of the devices for which own tickets wait, where enough sessions were seen.

    Parameters
    ----------
    widths
        How earlier expected waits came true.
    """
    found = {}
    waiting = [each for each in view.tickets.tickets if each.waits and each.devices]
    for devices in {each.devices for each in waiting if each.shape}:
        queue = [each for each in waiting if not devices.isdisjoint(each.devices)]
        outlook = _outlook(view, policy, sessions, devices, queue, habits)
        if outlook is not None:
            found[devices] = queue, replace(outlook, widths=widths)
    return found


def waits_of(outlooks: Outlooks, now: datetime, chance: Callable[[], float]) -> Waits:
    """Expected waits by id, of own waiting tickets.

    Parameters
    ----------
    now
        The time of the outlooks.
    chance
        Returns random numbers from 0 to 1.
    """
    found: dict[str, WaitInterval] = {}
    for devices, (queue, outlook) in outlooks.items():
        before = len(outlook.sessions) - len(queue)
        for ticket, wait in zip(queue, expected_waits(outlook, chance)[before:], strict=True):
            if wait is not None and ticket.devices == devices and ticket.is_own:
                found[ticket.id] = wait
    return Waits(now, found)


def _outlook(
    view: View,
    policy: Policy,
    sessions: KnownSessions,
    devices: frozenset[str],
    queue: Sequence[QueuedTicket],
    habits: QueueHabits,
) -> QueueOutlook | None:
    """What is known of the devices; None where lengths of sessions are not known."""
    shapes = {name for name, shape in policy.shapes.items() if not devices.isdisjoint(competing_devices(shape))}
    lengths = {name: sessions.lengths_of(name) for name in shapes}
    own = next((found for each in queue if (found := lengths.get(each.shape)) is not None), None)
    if own is None or own.examples_after(0.0) < FEWEST_SESSIONS:
        return None

    def of(shape: str) -> SessionLengths:
        return lengths.get(shape) or own  # of another hub: as own ones

    running, pending = list[RunningServer](), Counter[str]()
    for pod in view.users.values():
        shape = pod.labels.get(names.SHAPE, "")
        if shape in shapes and not pod.is_deleted:
            if pod.node_name:
                running.append(RunningServer(max(sessions.age_of(pod), 0.0), of(shape)))
            else:
                pending[shape] += 1
    placeholders = [each for shape in shapes for each in view.placeholders_of_shape.get(shape, ())]
    held = [each for each in placeholders if each.ticket or each.reservation is not None]
    ready = sum(bool(each.node) for each in placeholders) - len(held)
    running += (RunningServer(0.0, of(each.shape)) for each in held)
    first = [of(shape) for shape, count in sorted(pending.items()) for _ in range(count)]
    rules = policy.tickets or TicketRules()
    all_sessions = [*first, *(of(each.shape) for each in queue)]
    return QueueOutlook(running, all_sessions, max(ready, 0), habits, rules.hold.total_seconds())

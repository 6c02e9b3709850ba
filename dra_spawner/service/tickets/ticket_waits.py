"""Expected waits of the tickets of one hub, from the cluster and the lengths of its sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from dra_spawner import names
from dra_spawner.fairness.tickets.queue_waits import QueueOutlook, expected_waits
from dra_spawner.fairness.tickets.ticket_book import Waits
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SessionLengths, WaitInterval
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.targets.policy import Policy, TicketRules
from dra_spawner.placeholders.planner.ticket_queue import QueuedTicket, competing_devices

__all__ = ["TakenShare", "waits_of"]

#: Tickets that count as taken before any was seen.
_TAKEN_BEFORE = 8


class TakenShare:
    """How often a held device is taken, and how soon, as this process has seen it."""

    def __init__(self) -> None:
        self._taken = self._expired = 0
        self._seconds = 0.0

    def taken(self, seconds: float) -> None:
        """Note a ticket that was taken some time after the device was held."""
        self._taken += 1
        self._seconds += max(seconds, 0.0)

    def expired(self) -> None:
        """Note a ticket that was not taken."""
        self._expired += 1

    @property
    def share(self) -> float:
        return (self._taken + _TAKEN_BEFORE) / (self._taken + self._expired + _TAKEN_BEFORE + 1)

    @property
    def seconds(self) -> float:
        """Mean time until a device is taken; a minute before any was."""
        return (self._seconds + 60.0 * _TAKEN_BEFORE) / (self._taken + _TAKEN_BEFORE)


def waits_of(controller: PlaceholderController, taken: TakenShare, chance: Callable[[], float]) -> Waits:
    """Expected waits by id, of own waiting tickets for whose choice enough sessions were seen."""
    view, policy = controller.view(), controller.policy
    rules = policy.tickets or TicketRules()
    found: dict[str, WaitInterval] = {}
    waiting = [each for each in view.tickets.tickets if each.waits and each.devices]
    for devices in {each.devices for each in waiting if each.shape}:
        queue = [each for each in waiting if not devices.isdisjoint(each.devices)]
        outlook = _outlook(controller, view, policy, devices, queue, taken, rules)
        if outlook is not None:
            before = len(outlook.sessions) - len(queue)
            for ticket, wait in zip(queue, expected_waits(outlook, chance)[before:], strict=True):
                if wait is not None and ticket.devices == devices and ticket.is_own:
                    found[ticket.id] = wait
    return Waits(controller.now(), found)


def _outlook(
    controller: PlaceholderController,
    view: View,
    policy: Policy,
    devices: frozenset[str],
    queue: Sequence[QueuedTicket],
    taken: TakenShare,
    rules: TicketRules,
) -> QueueOutlook | None:
    """What is known of the devices; None where lengths of sessions are not known."""
    shapes = {name for name, shape in policy.shapes.items() if not devices.isdisjoint(competing_devices(shape))}
    lengths = {name: controller.sessions.lengths_of(controller.name_of(name)) for name in shapes}
    own = next((lengths[each.shape] for each in queue if lengths.get(each.shape) is not None), None)
    if own is None:
        return None

    def of(shape: str) -> SessionLengths:
        return lengths.get(shape) or own  # of another hub: as own ones

    running, pending = list[RunningServer](), Counter[str]()
    for pod in view.users.values():
        shape = pod.labels.get(names.SHAPE, "")
        if shape in shapes and not pod.is_deleted:
            if pod.node_name:
                running.append(RunningServer(_age(controller, view, pod.uid, pod.created), of(shape)))
            else:
                pending[shape] += 1
    placeholders = [each for shape in shapes for each in view.placeholders_of_shape.get(shape, ())]
    held = [each for each in placeholders if each.ticket or each.reservation is not None]
    ready = sum(bool(each.node) for each in placeholders) - len(held)
    running += (RunningServer(0.0, of(each.shape)) for each in held)
    first = [of(shape) for shape, count in sorted(pending.items()) for _ in range(count)]
    sessions = [*first, *(of(each.shape) for each in queue)]
    return QueueOutlook(running, sessions, max(ready, 0), taken.share, taken.seconds, rules.hold.total_seconds())


def _age(controller: PlaceholderController, view: View, uid: str, created: str) -> float:
    began: datetime | None = controller.sessions.began(uid)
    passed = view.now - began if began is not None else age(created, view.now)
    return max(passed.total_seconds(), 0.0)

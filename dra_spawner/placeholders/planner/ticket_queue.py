"""The queue for devices as decisions see it: tickets in their order, and what they compete for."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from dra_spawner.dra.model.extended_resources import IMPLICIT_PREFIX
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.targets.shapes import Shape, canonical, is_extended_resource

#: The clocks of two leaders differ by less.
CLOCKS_APART: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class QueuedTicket:
    """An open ticket.

    Attributes
    ----------
    id
        Of the ticket, as in the ConfigMap.
    shape
        Id of the choice's shape; empty if the hub does not publish the choice, or if the ticket is of another hub.
    devices
        What it competes for (`competing_devices`).
    is_own
        Whether it is of this service's hub.
    placeholder, placeholder_uid, until
        What is held for it, and how long.
    kept_node, kept_until
        The node that is kept for it, and how long.
    of_user
        Ids of other open tickets of its user for the same devices. One device at a time is held for all of them.
    is_paused
        Whether a device is held for one of these, so that this one keeps its place, and gets nothing.
    """

    id: str
    shape: str
    devices: frozenset[str]
    state: TicketState = TicketState.WAITING
    is_own: bool = True
    placeholder: str = ""
    placeholder_uid: str = ""
    until: datetime | None = None
    kept_node: str = ""
    kept_until: datetime | None = None
    of_user: frozenset[str] = frozenset()
    is_paused: bool = False

    @property
    def waits(self) -> bool:
        """Whether it waits for a device."""
        return self.state is TicketState.WAITING and not self.is_paused

    def is_other(self, than: QueuedTicket) -> bool:
        """Whether it competes with a ticket of another choice or hub."""
        kinds = (self.is_own, self.shape), (than.is_own, than.shape)
        return kinds[0] != kinds[1] and not self.devices.isdisjoint(than.devices)


@dataclass(frozen=True, slots=True)
class TicketQueue:
    """All open tickets of the cluster, in their order.

    Attributes
    ----------
    is_known
        Whether the tickets were ever read; without it any placeholder may be held for a user.
    """

    tickets: tuple[QueuedTicket, ...] = ()
    is_known: bool = True
    by_uid: Mapping[str, QueuedTicket] = field(init=False)
    """Own tickets by the uid of the placeholder that is held for them."""

    def __post_init__(self) -> None:
        held = {each.placeholder_uid: each for each in self.tickets if each.is_own and each.placeholder_uid}
        object.__setattr__(self, "by_uid", held)

    def has_own(self, shape: str, own: Collection[str]) -> bool:
        """Whether one of these tickets waits for a shape, or keeps its place."""
        return any((each.waits or each.is_paused) and each.id in own and each.shape == shape for each in self.tickets)

    def firsts(self) -> Iterator[tuple[QueuedTicket, bool]]:
        """The waiting tickets before which no other one waits for the same devices.

        Yields
        ------
        tuple of QueuedTicket and bool
            With whether tickets of another choice, or of another hub, wait for these devices, too.
        """
        waiting = [each for each in self.tickets if each.waits and each.devices and (each.shape or not each.is_own)]
        seen = set[str]()
        for ticket in waiting:
            if seen.isdisjoint(ticket.devices):
                yield ticket, any(each.is_other(ticket) for each in waiting)
            seen |= ticket.devices

    def before(self, shape: Shape, own: Collection[str] = ()) -> int:
        """Number of waiting tickets for which devices are held before a server may start; its user's own one counts.

        Parameters
        ----------
        own
            Ids of the tickets of the server's user.
        """
        if not self.tickets:
            return 0
        devices, count = competing_devices(shape), 0
        for each in self.tickets:
            if each.id in own and each.shape == shape.id:
                return count + 1 if each.waits or each.is_paused else 0
            count += each.waits and not devices.isdisjoint(each.devices)
        return count


def competing_devices(shape: Shape) -> frozenset[str]:
    """What shapes compete for: a name for each class with the same selectors, and for each extended resource.

    The extended resource that stands for a class by its name is the class.

    Two shapes with different selectors of one class do not compete, although a device may suit both.
    """
    claimed = (_name(each) for spec in shape.claims.values() for each in _requests(spec))
    extended = (
        name.removeprefix(IMPLICIT_PREFIX)
        for each in shape.containers
        for name in each.get("requests", {})
        if is_extended_resource(name)
    )
    return frozenset((*claimed, *extended))


def _requests(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for request in (spec.get("devices") or {}).get("requests") or ():
        yield from (each for each in (request.get("exactly"), *(request.get("firstAvailable") or ())) if each)


def _name(request: Mapping[str, Any]) -> str:
    name, selectors = str(request.get("deviceClassName", "")), _selectors(request.get("selectors") or ())
    return f"{name}#{selectors}" if selectors else name


def _selectors(selectors: Iterable[object]) -> str:
    texts = sorted(canonical(each) for each in selectors)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8] if texts else ""

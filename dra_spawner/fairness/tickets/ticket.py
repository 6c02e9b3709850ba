"""A ticket: the place of a user in the queue for a choice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import WaitInterval


@dataclass(frozen=True, slots=True)
class Ticket:
    """The place of a user in the queue for a choice.

    Attributes
    ----------
    id
        Random; no user can guess another user's.
    number
        The place in the order of arrival, over all hubs: a counter in the cluster, no clock.
    user, groups
        Name of the user and of the user's groups in JupyterHub, for budgets; never shown to other users.
    hub
        Namespace of the hub and name of its published choices; only the service of this hub holds devices for it.
    choice
        Name of the published choice (`dra_spawner.placeholders.planner.targets.choice_names`).
    joined
        The hub's time, for people; the order does not depend on it.
    devices
        What tickets compete for: device classes and resources, sorted. Empty until the service has seen the ticket.
    is_behind
        Whether the user is over a budget: all others of the same devices come first.
    since
        Begin of the state; the writer's time.
    placeholder, placeholder_uid, until
        What is held, and how long; empty and None otherwise.
    told, told_at
        The expected wait that was told first, and when; None before, and `told` when it is clear whether it came true.
    kept_node, kept_until
        Node whose free devices are kept for the ticket while it waits for several, and how long; empty and None before.
    more
        What a newer release has stored of the ticket, as JSON; empty for nothing.
    """

    id: str
    number: int
    user: str
    hub: str
    choice: str
    joined: datetime
    since: datetime
    state: TicketState = TicketState.WAITING
    groups: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    is_behind: bool = False
    placeholder: str = ""
    placeholder_uid: str = ""
    until: datetime | None = None
    kept_node: str = ""
    kept_until: datetime | None = None
    told: WaitInterval | None = None
    told_at: datetime | None = None
    more: str = ""

    @property
    def order(self) -> tuple[bool, int]:
        """Sorting key: first come, users over a budget last."""
        return (self.is_behind, self.number)

    @property
    def kind(self) -> tuple[str, ...]:
        """Equal for tickets that compete with the same ones (`competes_with`)."""
        return ("", *self.devices, self.hub, self.choice) if self.devices else (self.hub, self.choice)

    def is_held(self, now: datetime) -> bool:
        """Whether a device is held for the user at this time."""
        return self.state is TicketState.HELD and self.until is not None and now < self.until

    def competes_with(self, other: Ticket) -> bool:
        """Whether both want the same devices; before the service has seen both, the same choice of one hub."""
        if self.devices and other.devices:
            return not set(self.devices).isdisjoint(other.devices)
        return (self.hub, self.choice) == (other.hub, other.choice)

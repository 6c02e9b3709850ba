"""The tickets of one user at this hub: what pages show of them, and what the user changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketRefusal, TicketRefused, TicketStanding
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.targets.choice_names import options_of, profile_of
from dra_spawner.profiles.choices import pick_choice
from dra_spawner.spawner.availability.form_choices import (
    FormChoices,
    choice_text,
    chosen_profile,
    form_choices,
    name_of_options,
)
from dra_spawner.spawner.ticket_pages.shown_ticket import ShownTicket, kept_ticket, shown_ticket
from dra_spawner.ticket_store.ticket_store import TicketStore, TicketsUnavailable

#: Changes that a user may make in a minute; a page makes one at each click.
_MOST_CHANGES: Final = 20
_CHANGES_SECONDS: Final = 60.0
#: Seconds after a reading for which a place is surely kept: the least time for which a device is held.
_KEPT_SECONDS: Final = 30.0


class TooManyChanges(Exception):
    """Raised for a user who changes tickets faster than any person does."""


@dataclass(frozen=True, slots=True)
class UserForm:
    """A user's own form.

    Attributes
    ----------
    profiles
        As KubeSpawner has initialized them.
    settings
        The spawner's own traits about devices.
    """

    profiles: Sequence[Mapping[str, Any]]
    choices: FormChoices
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, profiles: Sequence[object], settings: Mapping[str, Any]) -> UserForm:
        """The form of a list of profiles that KubeSpawner has initialized."""
        known = [each for each in profiles if isinstance(each, Mapping)]
        return cls(known, form_choices(known), settings)

    def has_devices(self, name: str) -> bool:
        """Whether a choice of the form asks for devices: only these are held for users in the queue."""
        try:
            listed = pick_choice(self.profiles, self.settings, profile_of(name), options_of(name))
        except LookupError:
            return False
        plan = listed.choice.plan if listed.choice is not None else None
        return plan is not None and bool(plan.specs or plan.extended_resources.names)

    def text(self, name: str) -> str | None:
        """A choice's name for users; None if the form has no such choice."""
        known = self.choices.known_name(name)
        profile = chosen_profile(self.profiles, profile_of(name)) if known is not None else None
        return choice_text(profile, options_of(known)) if profile is not None and known is not None else None

    def chosen(self, slug: str, options: object) -> str | None:
        """Name of the choice that user options make; None with free text, or if the form lacks it."""
        return name_of_options(chosen_profile(self.profiles, slug), options, self.choices)


@dataclass(eq=False)
class OwnTickets:
    """The tickets of one user.

    Attributes
    ----------
    hub
        `Ticket.hub` of this hub; tickets of other hubs are shown there.
    store
        The queue of the cluster.
    seconds, now
        Monotonic and wall clock.
    starting
        Held while a start with a device of a ticket begins.
    """

    user: str
    hub: str
    store: TicketStore
    seconds: Callable[[], float] = monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _begun: tuple[str, datetime] | None = None
    _last: tuple[float, list[TicketStanding]] | None = None
    _changes: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_CHANGES))
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def shown(self, form: UserForm) -> list[ShownTicket]:
        """The tickets as pages show them.

        Raises
        ------
        TicketsUnavailable
            If it is not known which there are.
        """
        try:
            found = await self.store.standings(self.user)
        except TicketsUnavailable:
            if self._last is None or self.seconds() - self._last[0] > _KEPT_SECONDS:
                raise
            kept = (kept_ticket(each, form.text(each.ticket.choice)) for each in self._last[1])
            return [each for each in kept if each is not None]
        standings = [each for each in found if each.ticket.hub == self.hub]
        self._last = (self.seconds(), standings)
        now = self.now()
        shown = (shown_ticket(each, form.text(each.ticket.choice), now) for each in standings)
        return [each for each in shown if each is not None]

    async def held(self, choice: str) -> Ticket | None:
        """The user's ticket for a choice, if a device is held for it at this hub.

        Raises
        ------
        TicketsUnavailable
        """
        standing = await self.store.standing(self.user, choice)
        is_held = standing is not None and standing.is_held and standing.ticket.hub == self.hub
        return standing.ticket if standing is not None and is_held else None

    def begin(self, ticket: Ticket) -> None:
        """Note that a start takes the device that is held."""
        self._begun = ticket.id, ticket.since

    def has_begun(self, ticket: Ticket) -> bool:
        """Whether a start took the device of this hold: a click in another tab must not end it."""
        return self._begun == (ticket.id, ticket.since)

    async def join(self, choice: str, groups: Sequence[str]) -> None:
        """Join the queue of a choice. Idempotent: an open ticket keeps its place, and nothing is written.

        Raises
        ------
        TicketRefused, TicketsUnavailable, TooManyChanges
        """
        async with self._one_at_a_time:
            standing = await self.store.standing(self.user, choice)
            is_open = standing is not None and standing.ticket.state.is_open
            # A device that is held no longer is for others, also if the leader has not said so yet.
            is_over = standing is not None and standing.ticket.state is TicketState.HELD and not standing.is_held
            if standing is None or not is_open or is_over:
                self._count_change()
                if is_over:
                    await self.store.leave(self.user, choice)
                standing = await self.store.join(self.user, choice, groups)
            if standing.ticket.hub != self.hub:
                raise TicketRefused(TicketRefusal.NAME, "You are in the queue for this choice already, at another hub.")

    async def leave(self, choice: str) -> None:
        """Leave the queue of a choice. Idempotent.

        Raises
        ------
        TicketsUnavailable, TooManyChanges
        """
        async with self._one_at_a_time:
            standing = await self.store.standing(self.user, choice)
            if standing is not None and standing.ticket.state.is_open:
                self._count_change()
                await self.store.leave(self.user, choice)

    def _count_change(self) -> None:
        now = self.seconds()
        if len(self._changes) == _MOST_CHANGES and now - self._changes[0] < _CHANGES_SECONDS:
            raise TooManyChanges
        self._changes.append(now)

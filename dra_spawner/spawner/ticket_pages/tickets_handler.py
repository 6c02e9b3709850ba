"""``{hub}/dra-spawner/tickets``: the tickets of the user who is logged in, for the scripts of the hub's pages.

``GET`` tells them. ``PUT`` and ``DELETE`` join and leave a queue, ``POST`` starts a server with the device that is
held. Query: ``choice``, and ``server`` of the page. No user acts for another one here, not even an administrator. A
refusal is JSON with a sentence, ``problem``.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from math import inf
from typing import Any, Final

from jupyterhub.user import User
from jupyterhub.utils import url_escape_path, url_path_join
from tornado.web import HTTPError

from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.tickets.ticket_book import TicketRefused
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.form_choices import options_with
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.ticket_access import queue_hub, tickets_of
from dra_spawner.spawner.ticket_pages.own_tickets import OwnTickets, TooManyChanges, UserForm
from dra_spawner.spawner.user_pages.start_handler import BeginningHandler, start_state
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable

#: Seconds for which a user's form is taken to be the same: it may come from a function that asks others.
_FORM_SECONDS: Final = 30.0
#: Users whose forms and changes are remembered.
_MOST_USERS: Final = 2000
#: Until an answer of the service about a choice is not awaited any more.
_WAIT_SECONDS: Final = 1.0
_NOT_KNOWN: Final = "Your place in a queue is not known now. This page tries again."
_TRY_AGAIN: Final = "The queue cannot be changed now. Please try again in a minute."


class TicketsHandler(BeginningHandler):
    """Answers the scripts of pages about tickets."""

    async def get(self) -> None:
        """Write the user's tickets, and the choice for which the page may offer one."""
        parts, own = self._of_page()
        form = await user_form(parts)
        answer: JsonObject = {"tickets": [], "problem": "", "own": await _own_choice(parts, form)}
        try:
            answer["tickets"] = [each.as_json() for each in await own.shown(form)]
        except TicketsUnavailable:
            answer["problem"] = _NOT_KNOWN
        self._write(answer)

    async def put(self) -> None:
        """Join a queue. Idempotent."""
        parts, own = self._of_page()
        choice = await self._choice(parts)
        if problem := await _problem_of_queue(parts, await user_form(parts), choice):
            self._refuse(409, problem)
        else:
            await self._change(own.join(choice, parts.server.user_groups))

    async def delete(self) -> None:
        """Leave a queue. Idempotent; also for a choice that is gone."""
        _, own = self._of_page()
        await self._change(own.leave(self.get_query_argument("choice", "")))

    async def post(self) -> None:
        """Start a server with the device that is held; end a start that still waits before."""
        parts, own = self._of_page()
        choice = await self._choice(parts)
        async with own.starting:  # clicks in several tabs
            await self._start_held(parts, own, choice)

    async def _start_held(self, parts: Any, own: OwnTickets, choice: str) -> None:
        spawner = parts.server.spawner
        try:
            ticket = await own.held(choice)
        except TicketsUnavailable:
            self._refuse(503, _TRY_AGAIN)
            return
        if ticket is None:
            self._refuse(409, "No device is held for you any more.")
        elif own.has_begun(ticket) and start_state(spawner) != "over":
            self._lead_to_start(spawner)
        elif spawner.ready:
            self._refuse(409, "Your server runs already. Stop it first, then start this choice.")
        elif spawner.pending == "stop":
            self._refuse(409, "Your server is just being stopped. Please try again in a moment.")
        else:
            own.begin(ticket)
            await self._start(parts, choice)

    async def _start(self, parts: Any, choice: str) -> None:
        spawner, form = parts.server.spawner, await user_form(parts)
        options = options_with(spawner.user_options, choice, form.choices)
        if start_state(spawner) == "waiting" and not await self.end_start(spawner.user, spawner):
            self._refuse(409, "Your server has started meanwhile.")
            return
        await self.begin_start(spawner.user, spawner, options)
        self._lead_to_start(spawner)

    def _lead_to_start(self, spawner: Any) -> None:
        pending = ("spawn-pending", url_escape_path(spawner.user.name), url_escape_path(spawner.name))
        self._write({"address": url_path_join(self.hub.base_url, *pending)})

    def _of_page(self) -> tuple[Any, OwnTickets]:
        """The server of the page, and its user's tickets.

        Raises
        ------
        HTTPError
            403 without a login, or for a user who may not start servers; 404 where tickets are off.
        """
        user: Any = self.current_user
        if not isinstance(user, User) or self.get_query_argument("user", user.name) != user.name:
            raise HTTPError(403)
        if not self.get_scope_filter("servers")(user.orm_user, "user"):
            raise HTTPError(403)
        parts = self.server_parts()
        server: ServerContext = parts.server
        store = tickets_of(server)
        if store is None:
            raise HTTPError(404)
        known: dict[str, OwnTickets] = this_hub().shared("own tickets", dict)
        if user.name not in known and len(known) >= _MOST_USERS:
            del known[next(iter(known))]
        return parts, known.setdefault(user.name, OwnTickets(user.name, queue_hub(server), store))

    async def _choice(self, parts: Any) -> str:
        """The choice of the question, as the user's form knows it."""
        form = await user_form(parts)
        name = form.choices.known_name(self.get_query_argument("choice", ""))
        if name is None:
            raise HTTPError(400, "The form has no such choice.")
        return name

    async def _change(self, change: Awaitable[None]) -> None:
        try:
            await change
        except TicketRefused as refused:
            self._refuse(409, refused.sentence)
        except TooManyChanges:
            self._refuse(429, "You have changed your place in queues too often. Please wait a minute.")
        except TicketsUnavailable:
            self._refuse(503, _TRY_AGAIN)
        else:
            await self.get()

    def _refuse(self, status: int, problem: str) -> None:
        self.set_status(status)
        self._write({"problem": problem})

    def _write(self, answer: JsonObject) -> None:
        self.set_header("Cache-Control", "no-store")
        self.finish(answer)


async def user_form(parts: Any) -> UserForm:
    """The user's own form of one server, at most half a minute old.

    Raises
    ------
    HTTPError
        Of the hub's function of profiles; 503 if it has failed otherwise, which is logged once in half a minute.
    """
    spawner = parts.server.spawner
    known: dict[tuple[str, str], tuple[float, UserForm | None]] = this_hub().shared("forms of tickets", dict)
    key, now = (spawner.user.name, spawner.name), time.monotonic()
    at, form = known.get(key, (-inf, None))
    if now - at > _FORM_SECONDS:
        try:
            await parts.form.learn_devices_of_choices()
            profiles = spawner._get_initialized_profile_list(await parts.form.own_profiles()) or ()
            form = UserForm.of(profiles, parts.server.settings_of_choices)
        except HTTPError:
            raise
        except Exception:  # of a function of the hub's own: a page asks again and again
            parts.server.log.exception("The queue is not shown, as there are no profiles: user=%s", spawner.user.name)
            form = None
        known.pop(key, None)
        known[key] = now, form
        # The oldest come first. A form of hundreds of choices is large, and nobody asks for most of them again.
        while len(known) > _MOST_USERS or now - next(iter(known.values()))[0] > _FORM_SECONDS:
            del known[next(iter(known))]
    if form is None:
        raise HTTPError(503, _NOT_KNOWN)
    return form


async def _problem_of_queue(parts: Any, form: UserForm, choice: str) -> str:
    """Why nobody can wait in a queue for a choice; empty if one can."""
    if not form.has_devices(choice):
        return "This choice has no device that could be held for you."
    client: AvailabilityClient | None = parts.form.availability
    state = AvailabilityState.UNKNOWN
    if client is not None:
        view = await client.latest(_WAIT_SECONDS)
        is_listed = choice in view.choices
        state = (view.of(choice) if is_listed else await client.of_combination(choice, _WAIT_SECONDS)).state
    if state is AvailabilityState.NEVER:
        return "No machine can ever run this choice."
    # The service holds devices for choices that it knows.
    return "There is no queue for this choice now. Please try again in a minute." if state is state.UNKNOWN else ""


async def _own_choice(parts: Any, form: UserForm) -> JsonObject | None:
    """The choice of a start that waits or has waited in vain; None where the page offers no ticket."""
    page, spawner = parts.page, parts.server.spawner
    is_waiting = page.is_waiting()
    if spawner.ready or not (is_waiting or page.has_waited_in_vain()):
        return None
    name = form.chosen(parts.server.chosen_profile, spawner.user_options)
    if name is None or await _problem_of_queue(parts, form, name):
        return None
    return {"choice": name, "text": form.text(name), "is_waiting": is_waiting}

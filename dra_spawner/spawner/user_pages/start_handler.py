"""``{hub}/dra-spawner/start``: the start of a user's own server, for the script of its page.

``GET`` tells how far it is, and what else would start now. ``POST`` with ``name`` ends the start and begins one of
another choice of the user's form. Query: ``user`` and ``server`` for another user's server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tornado.web import HTTPError

from dra_spawner.common.json_types import JsonObject
from dra_spawner.spawner.availability.availability_handler import ServerHandler
from dra_spawner.spawner.availability.form_choices import FormChoices, options_with

#: Seconds for which the answer waits for the end of a start, and of the stop after it.
_END_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05
#: Seconds for which it waits for the new start, which may be refused at once; JupyterHub's form waits as long.
_BEGIN_SECONDS: Final = 1.0


class _Form(Protocol):
    async def choices_of_form(self) -> FormChoices:
        """The choices of the user's own form."""


class _Page(Protocol):
    def line(self) -> str:
        """The sentence of the moment."""

    async def while_waiting(self, form: Any) -> JsonObject:
        """What the page says beside the sentence."""


class BeginningHandler(ServerHandler):
    """Base of handlers that begin a start of a user's server."""

    async def end_start(self, user: Any, spawner: Any) -> bool:
        """End a pending start and remove what it left, as JupyterHub's API does; return whether nothing is left.

        A server that has become ready meanwhile stays: the page leads to it.
        """
        self.log.info("A start is given up for another choice: %s", spawner._log_name)
        start: asyncio.Future[Any] | None = spawner._spawn_future
        if start is not None:
            start.cancel()
            await asyncio.wait({start}, timeout=_END_SECONDS)
            if start.done() and not start.cancelled() and start.exception() is None:
                return False
            # JupyterHub's own callbacks come after this.
            await asyncio.sleep(0)
        if not spawner.pending and spawner.server is not None:
            await self.stop_single_user(user, spawner.name)
        loop = asyncio.get_running_loop()
        end = loop.time() + _END_SECONDS
        while spawner.pending and loop.time() < end:  # noqa: ASYNC110 - JupyterHub has no event for the end of a stop
            await asyncio.sleep(_LOOK_SECONDS)
        if spawner.active:
            raise HTTPError(503, "The start does not end. Please try again.")
        return True

    async def begin_start(self, user: Any, spawner: Any, options: Mapping[str, Any]) -> None:
        """Begin a start; a refusal that comes at once is raised."""
        # Only an explicit start may follow one that has failed, and this is one.
        spawner._spawn_future = None
        begun = asyncio.ensure_future(self.spawn_single_user(user, spawner.name, options=dict(options)))
        # One that fails later is JupyterHub's to tell: it keeps the start, and logs its failure.
        begun.add_done_callback(lambda start: start.cancelled() or start.exception())
        done, _ = await asyncio.wait({begun}, timeout=_BEGIN_SECONDS)
        if done and (error := begun.exception()) is not None:
            raise error


class StartHandler(BeginningHandler):
    """Answers the script of the page of a start."""

    async def get(self) -> None:
        """Write state, sentence, usual wait and offers as JSON."""
        parts = self.server_parts()
        spawner, page = parts.server.spawner, _page(parts)
        more = await page.while_waiting(parts.form)
        self.set_header("Cache-Control", "no-store")
        self.finish({"state": start_state(spawner), "line": page.line(), **more})

    async def post(self) -> None:
        """End the start, and begin one of another choice. What comes of it, the page learns by a reload."""
        parts = self.server_parts()
        spawner, form = parts.server.spawner, _form(parts)
        user = spawner.user
        if not self.get_scope_filter("servers")(user.orm_user, "user"):
            raise HTTPError(403)
        choices = await form.choices_of_form()
        name = choices.known_name(self.get_body_argument("name", ""))
        if name is None:
            raise HTTPError(400, "The form has no such choice.")
        if start_state(spawner) == "waiting":
            options = options_with(spawner.user_options, name, choices)
            if await self.end_start(user, spawner):
                await self.begin_start(user, spawner, options)
        self.finish({})


def start_state(spawner: Any) -> str:
    """What the page of a start waits for: ``waiting``, or a reload that shows something else."""
    if spawner.ready:
        return "ready"
    return "waiting" if spawner.pending and spawner.pending != "stop" else "over"


def _form(parts: Any) -> _Form:
    form: _Form = parts.form
    return form


def _page(parts: Any) -> _Page:
    page: _Page = parts.page
    return page

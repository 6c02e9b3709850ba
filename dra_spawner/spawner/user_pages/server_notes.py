"""What the home page says about a user's servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.server_context import parts_of

#: Until the home page is shown with what was known before.
_WAIT_SECONDS: Final = 0.3
_NO_REASON: Final = "The server did not start. Please try again, or tell your administrator."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerNote:
    """What is to be said of a server. Plain text: the template escapes it.

    Attributes
    ----------
    server
        Its name for users.
    text
        A sentence about a failure; else the devices.
    failed_at
        In words; empty if that is not known.
    was_ended
        Whether the server ran before.
    runs
        Whether the server still runs, in spite of the failure.
    is_sentence
        Whether the text is a sentence about the running server, not its devices.
    is_urgent
        Whether the user must do something.
    is_idle
        Whether `text` is a warning that it is stopped for being idle.
    kept_as
        Name of the server by which its user may keep it; None if it may not be kept.
    """

    server: str
    text: str
    is_failure: bool = False
    failed_at: str = ""
    was_ended: bool = False
    runs: bool = False
    is_sentence: bool = False
    is_urgent: bool = False
    is_idle: bool = False
    kept_as: str | None = None

    @property
    def headline(self) -> str:
        """What happened to the server."""
        if self.runs:
            return f"{self.server} may not answer"
        return f"{self.server} {'was ended' if self.was_ended else 'did not start'}"


def server_notes(user: Any) -> list[ServerNote]:
    """Return what is to be said of a user's servers: devices of those that run, reasons of those that failed.

    Never raises: a home page without notes is better than none.
    """
    try:
        return list(_notes(user))
    except Exception:
        log.exception("The home page says nothing about servers")
        return []


async def home_notes(user: Any) -> list[ServerNote]:
    """The same for the home page, after a short look at the devices of running servers. Never raises."""
    try:
        ready = (each for each in user.all_spawners() if getattr(each, "ready", False))
        pages = (getattr(parts_of(each), "home", None) for each in ready)
        looks = [look for page in pages if page is not None and (look := page.begin_device_look()) is not None]
        if looks:
            await asyncio.wait(looks, timeout=_WAIT_SECONDS)
    except Exception:
        log.exception("The devices of servers are not read for the home page")
    return server_notes(user)


def _notes(user: Any) -> Iterator[ServerNote]:
    for server in user.all_spawners():
        yield from _notes_of(server)


def _notes_of(server: Any) -> Iterator[ServerNote]:
    # JupyterHub has the spawner of a server that is active or has failed, else its record in the database.
    page = getattr(parts_of(server), "home", None)
    record = page.record if page is not None else ServerRecord.of_state(getattr(server, "state", None))
    name = getattr(server, "display_name", "") or server.name
    name = f"Server {name}" if name else "Your server"
    if getattr(server, "active", False):
        if page is not None and getattr(server, "ready", False) and (trouble := page.trouble):
            yield ServerNote(name, trouble, is_failure=True, runs=True)
        if page is not None and getattr(server, "ready", False) and (warning := page.idle_note()) is not None:
            kept_as = server.name if warning["may_keep"] else None
            yield ServerNote(name, warning["sentence"], is_idle=True, kept_as=kept_as)
        if page is not None and getattr(server, "ready", False) and (kept := page.kept_note()):
            yield ServerNote(name, kept, is_sentence=True)
        if page is not None and getattr(server, "ready", False) and (note := page.device_note()):
            yield ServerNote(name, note, is_sentence=True)
        if record.instead and getattr(server, "ready", False):
            yield ServerNote(name, record.instead, is_sentence=True)
        if record.place and getattr(server, "ready", False):
            yield ServerNote(name, record.place)
        session = page.session() if page is not None and record.session and getattr(server, "ready", False) else None
        if session is not None:
            sentence = session.sentence(datetime.now(UTC))
            yield ServerNote(name, sentence, is_sentence=True, is_urgent=session.ends_soon)
    elif failure := record.failure or _failure_of(server):
        at = record.failed_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if record.failed_at else ""
        yield ServerNote(name, failure, is_failure=True, failed_at=at, was_ended=record.was_ended)


def note_of_server(user: Any, server_name: str) -> ServerNote | None:
    """Return why a user's server was ended or did not start; None if neither is known. Never raises."""
    try:
        for server in user.all_spawners():
            if (server.name or "") == (server_name or "") and not getattr(server, "active", False):
                return next((each for each in _notes_of(server) if each.is_failure), None)
    except Exception:
        log.exception("The pages of a server do not say why it does not run")
    return None


def _failure_of(server: Any) -> str:
    """The reason of a failure outside of the spawner's own start; empty if there was none."""
    if not getattr(server, "_failed", False):
        return ""
    return str(getattr(server._spawn_future.exception(), "jupyterhub_message", "") or _NO_REASON)

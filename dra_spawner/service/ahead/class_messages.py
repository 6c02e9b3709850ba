"""Messages to a webhook when the verdict of a class turns to No; a POST with a JSON object.

``event``
    ``verdict-turned-to-no``.
``class``, ``choice``, ``choice_title``, ``users``, ``begins``, ``announced_by``
    The class; the title is what the spawn form calls the choice. The last is empty for an entry of the settings or of a
    calendar.
``verdict``, ``turned_at``
    The sentence, and when it turned.

An answer with a status from 200 to 299 ends it; else the message is sent again each minute until the class begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import aiohttp

from dra_spawner import names
from dra_spawner.common.log_once import LogOnce
from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.choice_titles import title_of

log = logging.getLogger(__name__)

_AHEAD: Final = timedelta(days=366)
_SECONDS: Final = 60.0
_AT_ONCE: Final = 20
_HEADERS: Final = {"User-Agent": names.PROJECT}


class _NotTaken(ValueError):
    """Raised for an answer with another status; the message is a part of a sentence."""


@dataclass(frozen=True, slots=True)
class MessageTarget:
    """Where messages are sent; nowhere without a URL."""

    url: str = field(default="", repr=False)
    timeout: timedelta = timedelta(seconds=5)


def read_message_target(value: object, path: str = "class_webhook") -> MessageTarget:
    """The webhook, as configured: ``{"url": "https://chat.example.org/hook", "timeout_seconds": 5}``.

    Raises
    ------
    SettingsError
        With path and allowed values of every problem; it shows no address.
    """
    reader = SettingsReader(value, path, 'a mapping like {"url": "https://chat.example.org/hook"}')
    url = reader.value("url")
    if reader.given and not (isinstance(url, str) and url.startswith(("https://", "http://"))):
        reader.refuse("url", "an address that begins with https:// or http://", "a text" if url else "")
    seconds = reader.number("timeout_seconds", 5, 0.1, 60)
    reader.refuse_other_keys()
    refuse_settings(reader.problems)
    return MessageTarget(str(url or ""), timedelta(seconds=seconds))


class ClassMessages:
    """See the module.

    Parameters
    ----------
    owner_of
        Returns who announced a class; empty for an entry of the settings or of a calendar.
    """

    def __init__(
        self, controller: ScaleAheadController, target: MessageTarget, owner_of: Callable[[Occurrence], str]
    ) -> None:
        self._controller = controller
        self._target = target
        self._owner_of = owner_of
        self._problem = ""
        self._failed: set[str] = set()
        """Messages that were not taken: they come last, so that one that is refused keeps no other back."""
        self._log_once = LogOnce(log, "Messages about classes cannot be sent: error=%s")

    def problems(self) -> tuple[str, ...]:
        """Why messages cannot be sent, as sentences without the address."""
        return (f"Messages about classes cannot be sent: {self._problem}.",) if self._problem else ()

    async def run(self) -> None:
        """Send messages, until cancelled."""
        while self._target.url:
            try:
                await self.send()
            except Exception:  # a defect here must not end the service
                log.exception("Messages about classes are not sent.")
            await asyncio.sleep(_SECONDS)

    async def send(self) -> None:
        """Send each message that was not sent, and remember that it was."""
        now, outcomes = self._controller.now(), self._controller.overrides.present.classes.outcomes
        waiting = {key for key, each in outcomes.items() if each.turned_at is not None and not each.is_told}
        if not waiting:
            self._problem = ""
            return
        times = self._controller.scale_ahead.calendars.occurrences(now, _AHEAD)
        found = {key: each for each in times if each.begins > now and (key := outcome_key(each)) in waiting}
        self._failed &= found.keys()
        sent, problem = [], ""
        timeout = aiohttp.ClientTimeout(total=self._target.timeout.total_seconds())
        async with aiohttp.ClientSession(
            headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout
        ) as session:
            for key in sorted(found, key=self._failed.__contains__)[:_AT_ONCE]:
                try:
                    await self._post(session, self._message(found[key], outcomes[key]))
                    sent.append(key)
                except (OSError, aiohttp.ClientError, ValueError) as error:  # TimeoutError is an OSError
                    problem = self._text(error)
                    self._failed.add(key)
                    break
        if sent and self._problem and not problem:
            log.info("Messages about classes are sent again.")
        self._problem = problem
        problems: dict[str, object] = {problem: problem} if problem else {}
        if sent:
            try:
                await self._controller.overrides.change(
                    lambda present: replace(present, classes=present.classes.told(sent))
                )
            except OverridesUnavailable as error:
                problems["store"] = error
        self._log_once.present(problems)

    def _text(self, error: Exception) -> str:
        if isinstance(error, _NotTaken):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"the webhook does not answer within {self._target.timeout.total_seconds():g} s"
        # The text of another error may have the address.
        return f"the webhook cannot be reached ({type(error).__name__})"

    async def _post(self, session: aiohttp.ClientSession, message: Mapping[str, Any]) -> None:
        async with session.post(self._target.url, json=message, allow_redirects=False) as answer:
            if not 200 <= answer.status < 300:
                raise _NotTaken(f"the webhook answers with status {answer.status}")

    def _message(self, occurrence: Occurrence, outcome: ClassOutcome) -> dict[str, Any]:
        return {
            "event": "verdict-turned-to-no",
            "class": occurrence.name,
            "choice": occurrence.profile,
            "choice_title": title_of(self._controller.published, occurrence.profile),
            "users": occurrence.users,
            "begins": occurrence.begins.isoformat(),
            "announced_by": self._owner_of(occurrence),
            "verdict": outcome.verdict,
            "turned_at": outcome.turned_at.isoformat() if outcome.turned_at is not None else "",
        }

"""``classes.ics``: the own classes with their verdicts, for a person's calendar program, which cannot log in."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from tornado.web import HTTPError

from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.scale_ahead.calendars.calendar_book import ADDED_ENTRIES
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key, progress_sentence, stored_progress
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.service.ahead.announced_classes import Announcer
from dra_spawner.service.http.requests.authentication import SecureHandler
from dra_spawner.service.http.requests.endpoints import Access, Query, endpoint
from dra_spawner.service.http.schemas.schema_parts import text
from dra_spawner.service.web_settings import WebSettings

_PAST: Final = timedelta(days=14)
_AHEAD: Final = timedelta(days=90)
_MAX_EVENTS: Final = 500
#: Bytes of a line, as RFC 5545 limits them.
_LINE: Final = 74
_MEDIA_TYPE: Final = "text/calendar"


def feed_query(web: WebSettings, user: str) -> str:
    """The query of a person's feed, with the key; empty without a hub."""
    key = _key(web, user)
    return urlencode({"user": user, "key": key}) if key else ""


def _key(web: WebSettings, user: str) -> str:
    """The key of a feed. It follows from the service's token, so nothing is stored, and a new token ends all keys."""
    if not web.own_token:
        return ""
    message = b"dra-spawner classes.ics\0" + user.encode("utf-8", "surrogatepass")
    return hmac.new(web.own_token.encode(), message, hashlib.sha256).hexdigest()


class ClassFeedHandler(SecureHandler):
    """See the module.

    Query: ``user``, and ``key``, which the page Classes shows to this user.
    """

    @endpoint(
        "The classes of one person as an iCal calendar; the key is in the address that the page Classes shows.",
        Access.EVERYBODY,
        media_type=_MEDIA_TYPE,
        query=(
            Query("user", "Name of the person.", text("ada")),
            Query("key", "The key that the page Classes shows.", text("0123456789abcdef")),
        ),
        problems=(404, 503),
    )
    async def get(self) -> None:
        user, given = self.get_query_argument("user", ""), self.get_query_argument("key", "")
        key = _key(self.web, user)
        if not key or not hmac.compare_digest(key.encode(), given.encode("utf-8", "surrogatepass")):
            raise HTTPError(404)
        runner, controller = self.context.scale_ahead, self.context.controller
        if runner is None or controller is None:
            raise HTTPError(503)
        if controller.overrides.unknown_because:
            raise HTTPError(503)
        now, who = controller.now(), Announcer(f"user {user}", self.context.class_limits.of(user, ()))
        times = [
            each
            for added in runner.classes.visible(who)
            for each in added.entry.occurrences(now - _PAST, now + _AHEAD, ADDED_ENTRIES)
        ]
        found = [(each, runner.class_figures.outcome_of(each)) for each in times[:_MAX_EVENTS]]
        self.set_header("Content-Type", f"{_MEDIA_TYPE}; charset=utf-8")
        self.finish("".join(f"{line}\r\n" for line in calendar_lines(found, now)))


def calendar_lines(times: Iterable[tuple[Occurrence, ClassOutcome]], now: datetime) -> Iterator[str]:
    """Lines of an iCal calendar (RFC 5545), folded."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//dra-spawner//classes//EN", "X-WR-CALNAME:Classes"]
    for time, outcome in times:
        is_no = outcome.turned_at is not None and now < time.begins
        lines += [
            "BEGIN:VEVENT",
            f"UID:{outcome_key(time)}@dra-spawner",
            f"DTSTAMP:{_utc(now)}",
            f"DTSTART:{_utc(time.begins)}",
            f"DTEND:{_utc(time.ends)}",
            f"SUMMARY:{_escaped(f'Not all can start: {time.name}' if is_no else time.name)}",
            f"DESCRIPTION:{_escaped(_description(time, outcome, now))}",
            "END:VEVENT",
        ]
    for line in (*lines, "END:VCALENDAR"):
        yield from _folded(line)


def _description(time: Occurrence, outcome: ClassOutcome, now: datetime) -> str:
    """What the page says of it but who is there now: a calendar program asks some times a day."""
    if now < time.begins:
        return outcome.verdict or "Not rehearsed yet."
    came = f"{progress_sentence(time, stored_progress(outcome), now)}." if now >= time.ends else ""
    said = f"Said before it: {outcome.verdict}" if outcome.verdict else ""
    return " ".join(filter(None, (came, said)))


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escaped(value: str) -> str:
    """A text as a value; characters that are not printable become spaces, so no line can be made of it."""
    plain = "".join(each if each.isprintable() else " " for each in value)
    return plain.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")


def _folded(line: str) -> Iterator[str]:
    """Lines of at most 75 bytes; each further one begins with a space."""
    part, size = "", 0
    for each in line:
        width = len(each.encode("utf-8", "replace"))
        if size + width > _LINE:
            yield part
            part, size = " ", 1
        part, size = part + each, size + width
    yield part

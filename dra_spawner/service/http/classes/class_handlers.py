"""Handlers of classes that people announce."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from tornado.web import HTTPError

from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.service.ahead.added_entries import TooManyEntries
from dra_spawner.service.ahead.announced_classes import AnnouncedClasses, Announcer, ClassRefused, UnknownClass
from dra_spawner.service.ahead.rehearsals import TooManyRehearsals
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.call_rates import CallRates
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.override_handlers import OverrideHandler
from dra_spawner.service.http.classes.class_body import read_class
from dra_spawner.service.http.classes.class_json import class_json, classes_json
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, Query, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.requests.page_frame import may
from dra_spawner.service.http.schemas.class_schemas import (
    CLASS,
    CLASS_REHEARSAL,
    CLASSES,
    MAX_RAISED,
    NEW_CLASS,
    NEW_MAX,
    RAISED,
)
from dra_spawner.service.http.schemas.schema_parts import text


def announcer_of(context: ServiceContext, reader: Any) -> Announcer:
    """Who asks, by the hub's answer."""
    name, groups = str(reader["name"]), [str(each) for each in reader.get("groups") or ()]
    limits = None if may(Access.OPERATE, context.web, reader) else context.class_limits.of(name, groups)
    return Announcer(f"{reader.get('kind', 'user')} {name}", limits)


class ClassesBase(OverrideHandler):
    """Base of these handlers."""

    @property
    def runner(self) -> ScaleAheadRunner:
        """What runs scale-ahead; 503 while the cluster is not found."""
        if self.context.scale_ahead is None:
            raise HTTPError(503, "The cluster is not found yet.")
        return self.context.scale_ahead

    @property
    def classes(self) -> AnnouncedClasses:
        """The classes, to change them; 409 without placeholders, 503 while the choices or the entries are not known."""
        self.require_placeholders()
        self.require_known()
        if not self.controller.published.shapes:
            raise HTTPError(503, "The choices are not known yet: the hub has published none.")
        return self.runner.classes

    @property
    def announcer(self) -> Announcer:
        """Who asks."""
        return announcer_of(self.context, self.hub_user)

    def count(self, rates: CallRates) -> None:
        """Refuse with 429 if the caller asks too often."""
        if not rates.take(self.caller, self.controller.now()):
            raise HTTPError(429, "You ask too often. Try again in some minutes.")

    @contextlib.contextmanager
    def problems(self) -> Iterator[None]:
        """Errors of a change as answers."""
        try:
            yield
        except SettingsError as error:
            raise HTTPError(400, "%s.", "; ".join(map(str, error.problems))) from None
        except ClassRefused as error:
            raise HTTPError(409, "%s", error) from None
        except UnknownClass:
            raise HTTPError(404, "There is nothing of yours with this id.") from None
        except TooManyEntries:
            raise HTTPError(409, "There are too many entries or requests. Ask an administrator.") from None
        except OverridesUnavailable as error:
            raise HTTPError(503, "%s", error) from None

    def found(self, name: str) -> dict[str, Any]:
        """A class as JSON, as it is now."""
        found = next((each for each in self.runner.classes.visible(self.announcer) if each.id == name), None)
        if found is None:
            raise HTTPError(404, "There is nothing of yours with this id.")
        return class_json(self.controller, self.runner, found, self.announcer)


class ClassesHandler(ClassesBase):
    """``api/classes``: the own classes; an operator sees all."""

    @endpoint(
        "The caller's classes; all of them for operators.", Access.ASK, answer=CLASSES, query=(LIMIT_OR_ALL, CONTINUE)
    )
    async def get(self) -> None:
        self.require_known()
        items = classes_json(self.controller, self.runner, self.announcer)
        numbered = [(f"{number:08}", each) for number, each in enumerate(items)]
        found = self.page(numbered, lambda each: each[0])
        items = [each for _, each in found["items"]]
        self.write_json({**found, "items": items, "incomplete_because": self.context.incomplete_because()})

    @endpoint(
        "Announce a class, within the caller's limits.",
        Access.ANNOUNCE,
        body=NEW_CLASS,
        answer=CLASS,
        status=201,
        problems=(409, 429),
    )
    async def post(self) -> None:
        written, group = read_class(bytes(self.body))
        classes = self.classes
        self.count(self.context.class_rates.changes)
        with self.problems():
            name = await classes.announce(written, group, self.announcer)
        self.set_status(201)
        self.set_header("Location", f"{self.web.prefix}api/classes/{name}")
        self.write_version(self.found(name))


class ClassHandler(ClassesBase):
    """``api/classes/<id>``: one of the own classes; an operator may change all."""

    @endpoint("One of the caller's classes.", Access.ASK, answer=CLASS, problems=(404,))
    async def get(self, name: str) -> None:
        self.require_known()
        self.write_json(self.found(name))

    @endpoint(
        "Write another class in place of one.",
        Access.ANNOUNCE,
        body=NEW_CLASS,
        answer=CLASS,
        problems=(404, 409, 429),
    )
    async def put(self, name: str) -> None:
        written, group = read_class(bytes(self.body))
        classes = self.classes
        self.count(self.context.class_rates.changes)
        with self.problems():
            await classes.replace(name, written, group, self.announcer)
        self.write_json(self.found(name))

    @endpoint("Cancel a class.", Access.ASK, status=204, problems=(404, 409, 429))
    async def delete(self, name: str) -> None:
        self.require_placeholders()
        self.count(self.context.class_rates.changes)
        with self.problems():
            await self.runner.classes.cancel(name, self.announcer)
        self.set_status(204)


class ClassMaxHandler(ClassesBase):
    """``api/classes/<id>/max``: consent to more placeholders than configured, until the class is over."""

    @endpoint(
        "Allow a class as many placeholders as it needs, until it is over.",
        Access.OPERATE,
        body=NEW_MAX,
        answer=RAISED,
        problems=(404, 409),
    )
    async def put(self, name: str) -> None:
        body = json_object(bytes(self.body), ("max",))
        most = body.get("max")
        is_number = isinstance(most, int) and not isinstance(most, bool) and 1 <= most <= MAX_RAISED
        if most is not None and not is_number:
            raise HTTPError(400, "max: found %s; allowed: a whole number from 1 to %d.", f"{most!r:.60}", MAX_RAISED)
        with self.problems():
            raised = await self.classes.raise_max(name, most, self.announcer)
            self.runner.class_rehearsals.renew(name)
        self.write_json({"max": raised.max, "until": raised.until.isoformat(), "by": raised.by})

    @endpoint("End this consent.", Access.OPERATE, status=204, problems=(404, 409))
    async def delete(self, name: str) -> None:
        self.require_placeholders()
        with self.problems():
            await self.runner.classes.lower_max(name, self.announcer)
            self.runner.class_rehearsals.renew(name)
        self.set_status(204)


class ClassRehearsalsHandler(ClassesBase):
    """``POST api/class-rehearsals``: whether all users of a class can start, before it is announced."""

    @endpoint(
        "Whether all users of a class can start; nothing is announced.",
        Access.ANNOUNCE,
        body=NEW_CLASS,
        answer=CLASS_REHEARSAL,
        query=(Query("instead_of", "Id of the class that it takes the place of.", text("")),),
        problems=(404, 409, 429),
    )
    async def post(self) -> None:
        written, _ = read_class(bytes(self.body))
        classes = self.classes
        if self.context.watch is None or not self.context.watch.synced:
            raise HTTPError(503, "The cluster is not read completely yet.")
        self.count(self.context.class_rates.rehearsals)
        name = self.get_query_argument("instead_of", "")
        with self.problems():
            entry = classes.preview(written, name, self.announcer)
        time = self.runner.class_rehearsals.next_time(entry)
        if time is None:
            raise HTTPError(409, "The class has begun already.")
        try:
            found = await self.runner.class_rehearsals.of_time(time, entry)
        except TooManyRehearsals:
            raise HTTPError(503, "Too many rehearsals wait already. Try again in a minute.") from None
        if found is None:
            raise HTTPError(409, "The hub offers this choice no longer. Reload the page, and choose another.")
        needed = classes.needed_max(entry, name)
        self.write_json(
            {
                "verdict": found.verdict,
                "is_possible": found.is_possible,
                "begins": time.begins.isoformat(),
                "rehearsed_at": found.now.astimezone(UTC).isoformat(),
                "needs_max": needed if needed is None or self.announcer.is_operator else entry.demand.users,
                "refusal": self._refusal(entry),
            }
        )

    def _refusal(self, entry: CalendarEntry) -> str:
        """Why the caller may not announce the class; empty if they may."""
        who = self.announcer
        if who.limits is None:
            return ""
        own = [each.entry for each in self.runner.classes.visible(who)]
        return who.limits.refusal(entry, [each for each in own if each.id != entry.id], self.controller.now())

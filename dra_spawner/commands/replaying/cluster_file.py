"""The description of a cluster for ``dra-spawner replay`` and ``rehearse``: kinds of nodes, classes, calendar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final, NoReturn, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_spawner.commands.cluster_files.documents import Document, PathPart
from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, IN_TOTAL, Occurrence
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.classes import WeeklyClass
from dra_spawner.scale_ahead.replay.traces import Durations

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_Built = TypeVar("_Built")


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """A parsed description."""

    kinds: tuple[NodeKind, ...]
    classes: tuple[WeeklyClass, ...] = ()
    calendar: tuple[Occurrence, ...] = ()
    durations: Durations | None = None
    floor: int = 0
    zone: tzinfo = UTC

    @property
    def group_of(self) -> Mapping[str, str]:
        """The kind of node of each profile; a single kind is also that of rows without a profile."""
        found = {profile: kind.name for kind in self.kinds for profile in kind.profiles}
        return {"": self.kinds[0].name, **found} if len(self.kinds) == 1 else found


def parse_cluster(document: Document, *, has_groups: bool = True) -> ClusterFile:
    """Read a description.

    Parameters
    ----------
    has_groups
        Whether the profiles of each kind of node are a group, so that a profile belongs to one kind only.

    Raises
    ------
    InputError
        If a value is invalid or missing; with its line and path.
    """
    top = _Part(document, (), document.value)
    top.only("nodes", "classes", "calendar", "servers", "floor", "zone")
    zone = _zone(top, UTC)
    kinds = tuple(_kind(part) for part in top.items("nodes"))
    if not kinds:
        top.fail("must have one or more nodes", "nodes")
    _check_names(top, kinds)
    if has_groups:
        _check_groups(top, kinds)
    profiles = {profile for kind in kinds for profile in kind.profiles}
    return ClusterFile(
        kinds,
        tuple(_class(part, profiles, zone) for part in top.items("classes")),
        tuple(_entry(part, profiles) for part in top.items("calendar")),
        _durations(top),
        top.integer("floor", 0, least=0),
        zone,
    )


def _kind(part: _Part) -> NodeKind:
    part.only(
        "name", "profiles", "slots", "lead_minutes", "image_minutes", "max_nodes", "starts_per_minute",
        "unneeded_minutes", "price", "labels",
    )  # fmt: skip
    leads = part.numbers("lead_minutes")
    return part.build(
        lambda: NodeKind(
            name=part.text("name"),
            slots=part.integer("slots", least=1),
            lead_times=tuple(timedelta(minutes=each) for each in leads),
            image_time=timedelta(minutes=part.number("image_minutes", 0.0)),
            profiles=part.texts("profiles"),
            max_nodes=part.integer("max_nodes", least=0) if "max_nodes" in part.value else None,
            starts_per_minute=part.number("starts_per_minute") if "starts_per_minute" in part.value else None,
            unneeded=timedelta(minutes=part.number("unneeded_minutes", 10.0)),
            price=part.number("price", 0.0),
            labels=tuple(sorted(part.text_map("labels").items())),
        )
    )


def _class(part: _Part, profiles: set[str], zone: tzinfo) -> WeeklyClass:
    part.only("profile", "users", "weekday", "at", "ramp_minutes", "absent", "zone")
    weekday = part.text("weekday").lower()
    if weekday not in _DAYS:
        part.fail(f"is {weekday!r}; it must be one of {', '.join(_DAYS)}", "weekday")
    at = part.text("at")
    try:
        clock = time.fromisoformat(at)
    except ValueError:
        part.fail(f"is {at!r}; it must be a time like 17:00, in quotes", "at")
    return part.build(
        lambda: WeeklyClass(
            profile=_profile(part, profiles),
            users=part.integer("users", least=0),
            weekday=_DAYS.index(weekday),
            at=clock,
            ramp=timedelta(minutes=part.number("ramp_minutes", 15.0)),
            absent=part.number("absent", 0.0),
            zone=_zone(part, zone),
        )
    )


def _entry(part: _Part, profiles: set[str]) -> Occurrence:
    part.only("name", "profile", "users", "begins", "ends", "counts", "ramp_minutes")
    counts = part.text("counts", ADDITIONAL)
    if counts not in (ADDITIONAL, IN_TOTAL):
        part.fail(f"is {counts!r}; it must be {ADDITIONAL!r} or {IN_TOTAL!r}", "counts")
    begins, ends = _moment(part, "begins"), _moment(part, "ends")
    return part.build(
        lambda: Occurrence(
            name=part.text("name", "calendar entry"),
            profile=_profile(part, profiles),
            begins=begins,
            ends=ends,
            users=part.integer("users", least=0),
            counts=IN_TOTAL if counts == IN_TOTAL else ADDITIONAL,
            ramp=timedelta(minutes=part.number("ramp_minutes", 15.0)),
            source=part.document.file,
        )
    )


def _durations(top: _Part) -> Durations | None:
    if "servers" not in top.value:
        return None
    part = top.part("servers")
    part.only("median_minutes", "sigma")
    return part.build(lambda: Durations(part.number("median_minutes"), part.number("sigma", 1.0)))


def _profile(part: _Part, profiles: set[str]) -> str:
    name = part.text("profile", "" if not profiles else None)
    if profiles and name not in profiles:
        part.fail(f"is {name!r}, which no kind of node lists; known are {', '.join(sorted(profiles))}", "profile")
    return name


def _moment(part: _Part, key: str) -> datetime:
    text = part.text(key)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        part.fail(f"is {text!r}; it must be like 2026-11-24T17:00:00+01:00", key)
    if moment.tzinfo is None:
        part.fail(f"is {text!r}, which has no time zone", key)
    return moment


def _zone(part: _Part, default: tzinfo) -> tzinfo:
    if "zone" not in part.value:
        return default
    name = part.text("zone")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        part.fail(f"is {name!r}, which is not a known time zone; it must be like Europe/Berlin", "zone")


def _check_names(top: _Part, kinds: tuple[NodeKind, ...]) -> None:
    for index, kind in enumerate(kinds):
        if kind.name in [each.name for each in kinds[:index]]:
            top.fail(f"has the name {kind.name!r}, which another kind also has", "nodes", index)


def _check_groups(top: _Part, kinds: tuple[NodeKind, ...]) -> None:
    seen: dict[str, str] = {}
    for index, kind in enumerate(kinds):
        if not kind.profiles and len(kinds) > 1:
            top.fail("must list its profiles, since there are several kinds", "nodes", index)
        for profile in kind.profiles:
            if profile in seen:
                top.fail(f"lists the profile {profile!r}, which {seen[profile]!r} also lists", "nodes", index)
            seen[profile] = kind.name


class _Part:
    """A mapping of the document, with its path."""

    def __init__(self, document: Document, path: tuple[PathPart, ...], value: object) -> None:
        self.document = document
        self._path = path
        if not isinstance(value, dict):
            self.fail(f"is {_shown(value)}; it must be a mapping")
        self.value: dict[str, object] = value

    def fail(self, problem: str, *keys: PathPart) -> NoReturn:
        raise self.document.error((*self._path, *keys), problem)

    def build(self, make: Callable[[], _Built]) -> _Built:
        """Create a value; an error of its class becomes an error of this part."""
        try:
            return make()
        except (ValueError, OverflowError) as error:
            self.fail(str(error))

    def only(self, *keys: str) -> None:
        for key in self.value:
            if key not in keys:
                self.fail(f"is not known; known are {', '.join(keys)}", key)

    def part(self, key: str) -> _Part:
        return _Part(self.document, (*self._path, key), self.value[key])

    def items(self, key: str) -> list[_Part]:
        value = self.value.get(key, [])
        if not isinstance(value, list):
            self.fail(f"is {_shown(value)}; it must be a list", key)
        return [_Part(self.document, (*self._path, key, index), each) for index, each in enumerate(value)]

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            self.fail(f"is {_shown(value)}; it must be a text", key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            self.fail(f"is {_shown(value)}; it must be a list of texts", key)
        return tuple(value)

    def text_map(self, key: str) -> Mapping[str, str]:
        value = self.value.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
            self.fail(f"is {_shown(value)}; it must be a mapping of texts", key)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f"is {_shown(value)}; it must be a number", key)
        return float(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self._get(key, None)
        values = value if isinstance(value, list) else [value]
        found = tuple(float(each) for each in values if isinstance(each, (int, float)) and not isinstance(each, bool))
        if not values or len(found) < len(values):
            self.fail(f"is {_shown(value)}; it must be a number, or a list of numbers", key)
        return found

    def integer(self, key: str, default: int | None = None, *, least: int) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fail(f"is {_shown(value)}; it must be a whole number of {least} or more", key)
        return value

    def _get(self, key: str, default: object) -> object:
        if key not in self.value and default is None:
            self.fail(f"must have {key!r}")
        return self.value.get(key, default)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

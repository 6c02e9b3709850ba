"""Classes and requests as JSON, for one reader: of others' classes only operators learn anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import ClassRequest
from dra_spawner.scale_ahead.calendars.calendar_book import ADDED_ENTRIES
from dra_spawner.scale_ahead.calendars.class_limits import last_end
from dra_spawner.scale_ahead.calendars.class_progress import (
    ClassProgress,
    is_counted,
    nearest,
    progress_sentence,
)
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.added_entries import AddedEntry
from dra_spawner.service.ahead.announced_classes import Announcer
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.http.classes.class_body import class_members

_PAST: Final = timedelta(days=14)


def classes_json(controller: ScaleAheadController, runner: ScaleAheadRunner, who: Announcer) -> list[dict[str, Any]]:
    """The classes that a reader may see: those that run or come next first, then those that are over."""
    found = [class_json(controller, runner, each, who) for each in runner.classes.visible(who)]
    return sorted(found, key=lambda each: (each["next"] is None, _begins(each), each["id"]))


def class_json(
    controller: ScaleAheadController, runner: ScaleAheadRunner, added: AddedEntry, who: Announcer
) -> dict[str, Any]:
    """One class."""
    now, entry = controller.now(), added.entry
    coming, over = nearest_times(entry, now)
    records = runner.classes.records
    owner, raised = records.owners.get(added.id), records.raised.get(added.id)
    until = None
    if raised is not None:
        by = raised.by if who.is_operator else ""
        until = {"max": raised.max, "until": raised.until.isoformat(), "by": by}
    return {
        "id": added.id,
        **class_members(added.written),
        **({"group": owner.group} if owner is not None and owner.group else {}),
        "by": added.by,
        "at": _moment(added.at),
        "is_own": added.by == who.name,
        "next": _time_json(runner, coming, now) if coming is not None else None,
        "last": _time_json(runner, over, now) if over is not None else None,
        "unusable_because": _unusable_because(controller, entry, who) if coming is not None else None,
        "needs_max": _needed(runner, entry, who, added.id),
        "raised": until,
    }


def nearest_times(entry: CalendarEntry, now: datetime) -> tuple[Occurrence | None, Occurrence | None]:
    """The time of a class that runs or comes next, and the last one that is over, as `nearest` finds them."""
    return nearest(entry.occurrences(now - _PAST, max(last_end(entry), now), ADDED_ENTRIES), now)


def _unusable_because(controller: ScaleAheadController, entry: CalendarEntry, who: Announcer) -> str | None:
    """Why nothing is prepared for a class; settings and keys are for operators."""
    because = controller.choice_not_prepared_because(entry.demand.profile)
    if not because or who.is_operator:
        return because or None
    is_offered = find_choice(entry.demand.profile, controller.published.shapes) is not None
    return "no further servers are prepared for it at present" if is_offered else "the hub offers this choice no longer"


def requests_json(controller: ScaleAheadController, runner: ScaleAheadRunner, who: Announcer) -> list[dict[str, Any]]:
    """The requests that a reader may see: open ones first, the oldest first."""
    now, requests = controller.now(), runner.classes.requests(who)
    found = [request_json(runner, name, each, who, now) for name, each in requests.items()]
    return sorted((each for each in found if each is not None), key=lambda each: (not each["is_open"], each["at"]))


def request_json(
    runner: ScaleAheadRunner, name: str, request: ClassRequest, who: Announcer, now: datetime
) -> dict[str, Any] | None:
    """One request; None if it cannot be read."""
    try:
        members, entry = class_members(request.written), runner.added.read(request.written)
    except (KeyError, ValueError):
        return None
    rehearsals, (coming, _) = runner.class_rehearsals, nearest_times(entry, now)
    rehearsal = None
    if who.is_operator and rehearsals.next_time(entry) is not None:
        rehearsal = rehearsals.of_requests.get(name) or rehearsals.last_of(entry)
    return {
        "id": name,
        **members,
        **({"group": request.group} if request.group else {}),
        "by": request.by,
        "at": request.at.isoformat(),
        "is_own": request.by == who.name,
        "is_open": request.is_open,
        "phase": _phase(coming, now),
        "declined_by": request.declined_by if who.is_operator else "",
        "declined_at": request.declined_at.isoformat() if request.declined_at is not None else None,
        "because": request.because,
        "verdict": rehearsal.verdict if rehearsal is not None else "",
        "is_possible": rehearsal.is_possible if rehearsal is not None else None,
        "rehearsed_at": rehearsal.now.astimezone(UTC).isoformat() if rehearsal is not None else None,
        "needs_max": _needed(runner, entry, who) if request.is_open else None,
    }


def _needed(runner: ScaleAheadRunner, entry: CalendarEntry, who: Announcer, name: str = "") -> int | None:
    """The needed ``max`` while a time is still to begin; only operators learn how many users others have announced."""
    if runner.class_rehearsals.next_time(entry) is None:
        return None
    needed = runner.classes.needed_max(entry, name)
    return needed if needed is None or who.is_operator else entry.demand.users


def _time_json(runner: ScaleAheadRunner, time: Occurrence, now: datetime) -> dict[str, Any]:
    figures = runner.class_figures
    progress = figures.near().get(time) or figures.stored(time)
    outcome = figures.outcome_of(time)
    return {
        "begins": time.begins.isoformat(),
        "ends": time.ends.isoformat(),
        "zone": time.begins.tzname(),
        "phase": _phase(time, now),
        "sentence": progress_sentence(time, progress, now),
        "users": time.users,
        **_numbers(time, progress, now),
        "verdict": outcome.verdict,
        "is_possible": outcome.is_possible if outcome.rehearsed_at is not None else None,
        "rehearsed_at": _moment(outcome.rehearsed_at),
        "turned_at": _moment(outcome.turned_at),
    }


def _phase(time: Occurrence | None, now: datetime) -> str:
    if time is None or now >= time.ends:
        return "over"
    return "coming" if now < time.begins else "running"


def _numbers(time: Occurrence, progress: ClassProgress, now: datetime) -> dict[str, Any]:
    is_known = progress.came or now < time.begins or progress.counted_until is not None
    return {
        "prepared": progress.prepared,
        "ready_at": _moment(progress.ready_at),
        "came": progress.came if is_known else None,
        "came_is_complete": now < time.ends or is_counted(time, progress),
        "running": progress.running,
        "waiting": progress.waiting,
        "longest_seconds": round(progress.longest_seconds, 1),
    }


def _begins(found: Mapping[str, Any]) -> float:
    time = found["next"] or found["last"]
    moment = datetime.fromisoformat(time["begins"]).timestamp() if time is not None else 0.0
    return moment if found["next"] is not None else -moment


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None

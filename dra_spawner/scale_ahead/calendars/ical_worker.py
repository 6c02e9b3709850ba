"""The process that reads one iCal calendar: ``python -m dra_spawner.scale_ahead.calendars.ical_worker``.

It takes a question from standard input, and writes the answer as JSON. It limits its own processor time and
memory, as a calendar may be written by anybody.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading, CalendarUnreadable, read_ical
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

SECONDS: Final = 30
"""Processor time after which the process is ended."""
MEMORY_BYTES: Final = 192 * 2**20
"""Limit of what the process allocates."""
_NICER: Final = 10


def question_of(text: str, begins: datetime, ends: datetime, source: str, zone: tzinfo) -> bytes:
    """The question of `read_ical`: a line of JSON, and the text."""
    asked = {"begins": begins.isoformat(), "ends": ends.isoformat(), "source": source, "zone": str(zone)}
    return b"\n".join((json.dumps(asked).encode(), text.encode(errors="replace")))


def answer_of(question: bytes) -> bytes:
    """The answer to a question, as JSON: what `read_ical` returns, or why the calendar is unreadable."""
    try:
        head, _, text = question.partition(b"\n")
        asked = json.loads(head)
        begins, ends = datetime.fromisoformat(asked["begins"]), datetime.fromisoformat(asked["ends"])
        zone = ZoneInfo(asked["zone"])
        found = read_ical(text.decode(), begins, ends, source=asked["source"], zone=zone)
        occurrences = [_written(each) for each in found.occurrences]
        return json.dumps({"occurrences": occurrences, "problems": found.problems}).encode()
    except CalendarUnreadable as error:
        cause = str(error)
    except MemoryError:
        cause = f"reading it needs more than {MEMORY_BYTES // 2**20} MiB of memory"
    except Exception as error:  # the caller logs what is wrong here
        cause = f"its reader failed: {type(error).__name__}"
    return json.dumps({"unreadable": cause}).encode()


def reading_of(answer: bytes, source: str) -> CalendarReading:
    """What an answer says.

    Raises
    ------
    CalendarUnreadable
        If the calendar is unreadable.
    ValueError, TypeError, KeyError
        If it is not an answer.
    """
    found = json.loads(answer)
    if "unreadable" in found:
        raise CalendarUnreadable(found["unreadable"])
    occurrences = tuple(_read(each, source) for each in found["occurrences"])
    return CalendarReading(occurrences, tuple(found["problems"]))


def _written(occurrence: Occurrence) -> list[Any]:
    times = [[each.astimezone(UTC).isoformat(), str(each.tzinfo)] for each in (occurrence.begins, occurrence.ends)]
    each = occurrence
    return [each.name, each.profile, *times, each.users, each.counts, each.ramp.total_seconds(), each.uid]


def _read(written: list[Any], source: str) -> Occurrence:
    name, profile, begins, ends, users, counts, ramp, uid = written
    times = _moment(*begins), _moment(*ends)
    return Occurrence(name, profile, *times, users, counts, timedelta(seconds=ramp), source=source, uid=uid)


def _moment(in_utc: str, zone: str) -> datetime:
    return datetime.fromisoformat(in_utc).astimezone(ZoneInfo(zone))


def _limit() -> None:
    """Limit this process; where a limit is not known, the others hold."""
    for kind, limit in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # above a limit of the container
            resource.setrlimit(kind, (limit, limit))
    with contextlib.suppress(OSError):
        os.nice(_NICER)


def _main() -> None:
    _limit()
    sys.stdout.buffer.write(answer_of(sys.stdin.buffer.read()))


if __name__ == "__main__":
    _main()

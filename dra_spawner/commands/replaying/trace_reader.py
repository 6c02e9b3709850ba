"""Traces from CSV files: single launches, or counts by the minute. Errors name the line."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.history.imports.limited_lines import TooManyLines, limited_lines
from dra_spawner.history.records import TRIAL
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, minute_of
from dra_spawner.scale_ahead.replay.traces import Trace

LONGEST_GAP: Final = timedelta(days=4)
"""Limit of a time without rows: a longer one is a gap in the record, not quiet days."""
_TIMES: Final = ("time", "minute", "asked", "minute_utc")
_COUNTS: Final = ("launches", "count")
_PROFILE: Final = "profile"
_SECONDS: Final = "seconds"
#: Columns of `dra-spawner history export`, which has no duration.
_BEGIN_AND_END: Final = ("running", "ended")
_USER: Final = "user"
_SOURCE: Final = "source"
_LONGEST: Final = 20 * 366 * MINUTES_A_DAY
_MAX_AT_ONCE: Final = 1_000_000
#: Limit of the memory for all launches of a file.
_MAX_LAUNCHES: Final = 50_000_000
_MAX_SKIPPED: Final = 100_000
_NEVER: Final = -1
_GZIP: Final = b"\x1f\x8b"


@dataclass(slots=True)
class TraceRows:
    """Traces of a file.

    Attributes
    ----------
    traces
        Traces by group, all for the same time.
    rows
        Number of used rows.
    skipped
        Messages on skipped rows, and on gaps; empty unless `skip_bad`.
    """

    traces: dict[str, Trace] = field(default_factory=dict)
    rows: int = 0
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    minute: int
    at: datetime
    group: str
    launches: int
    length: int
    key: tuple[str, ...] | None
    """Key that is unique among the rows of one time; None if equal rows are allowed."""


def read_trace(
    file: str, group_of: Mapping[str, str], *, skip_bad: bool = False, longest_gap: timedelta = LONGEST_GAP
) -> TraceRows:
    """Read a CSV file, which may be compressed by gzip.

    The first row names the columns: ``time`` (or ``minute``, ``asked``; with a time zone) or ``minute_utc``;
    ``profile`` if there are several; ``launches`` (or ``count``), 1 without it; ``seconds``, the server's duration, or
    ``running`` and ``ended``; ``user``; ``source``, whose rows with ``trial`` are left out. Other columns are ignored.
    `dra-spawner history export` writes such a file.

    Parameters
    ----------
    group_of
        Group of each known profile; the key ``""`` is for rows without a profile.
    skip_bad
        Skip invalid rows, and accept gaps.

    Raises
    ------
    InputError
        If the file cannot be read, has no rows, or, without `skip_bad`, has an invalid row.
    """
    found = TraceRows()

    def bad(line: int, problem: str) -> None:
        error = InputError(file, line, "", problem)
        if not skip_bad or len(found.skipped) >= _MAX_SKIPPED:
            raise error
        found.skipped.append(str(error))

    builder = _Builder()
    last: _Row | None = None
    at_this_time: set[tuple[str, ...]] = set()
    try:
        with Path(file).open("rb") as raw:
            for row in _rows(file, raw, group_of, bad):
                if last is not None:
                    if row.at < last.at:
                        bad(
                            row.line, f"has the time {row.at.isoformat()}, which is before the time of line {last.line}"
                        )
                        continue
                    if row.at - last.at > longest_gap:
                        gap = f"is {row.at - last.at} after line {last.line}, without a row between them"
                        bad(row.line, f"{gap}; this time is not judged" if skip_bad else gap)
                        builder.gaps.append((last.minute + 1, row.minute))
                    if row.minute - builder.first > _LONGEST:
                        raise InputError(file, row.line, "", "is more than 20 years after the first row")
                if last is None or row.at != last.at:
                    at_this_time.clear()
                if row.key is not None and row.key in at_this_time:
                    bad(row.line, f"appears twice: {', '.join(filter(None, row.key)) or 'this time'}")
                    continue
                if row.key is not None:
                    at_this_time.add(row.key)
                builder.add(row)
                if builder.launches > _MAX_LAUNCHES:
                    raise InputError(file, row.line, "", f"brings more than {_MAX_LAUNCHES:,} launches, the limit")
                last = row
    except TooManyLines as error:
        raise InputError(file, 0, "", str(error)) from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(file, 0, "", f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise InputError(file, 0, "", "is not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(file, 0, "", f"is not CSV: {error}") from None
    if last is None:
        raise InputError(file, 0, "", "has no usable row")
    found.rows = builder.rows
    found.traces = builder.traces(group_of)
    return found


class _Builder:
    """Collects rows into traces."""

    def __init__(self) -> None:
        self.first = 0
        self.rows = 0
        self.launches = 0
        self.gaps: list[tuple[int, int]] = []
        self._last = 0
        self._launches: dict[str, array[int]] = {}
        self._lengths: dict[str, array[int]] = {}
        self._has_length: set[str] = set()

    def add(self, row: _Row) -> None:
        """Add a row, which must not be earlier than the last one."""
        if not self.rows:
            self.first = row.minute
        self.rows += 1
        self.launches += row.launches
        self._last = row.minute
        launches = self._launches.setdefault(row.group, array("L"))
        missing = row.minute - self.first + 1 - len(launches)
        if missing > 0:
            launches.frombytes(bytes(missing * launches.itemsize))
        launches[-1] += row.launches
        if row.length != _NEVER:
            self._has_length.add(row.group)
        lengths = self._lengths.setdefault(row.group, array("l"))
        lengths.extend([row.length] * row.launches)

    def traces(self, group_of: Mapping[str, str]) -> dict[str, Trace]:
        """The traces; all end with the last minute of any trace."""
        minutes = self._last - self.first + 1
        found = {}
        for group in dict.fromkeys(group_of.values()):
            launches = self._launches.get(group, array("L"))
            launches.frombytes(bytes((minutes - len(launches)) * launches.itemsize))
            lengths = self._lengths[group] if group in self._has_length else None
            found[group] = Trace(self.first, launches, lengths, tuple(self.gaps))
        return found


class _Bad(Exception):
    """Raised for an invalid row."""


def _rows(file: str, raw: BinaryIO, group_of: Mapping[str, str], bad: Callable[[int, str], None]) -> Iterator[_Row]:
    is_compressed = raw.read(2) == _GZIP
    raw.seek(0)
    stream = gzip.GzipFile(fileobj=raw) if is_compressed else raw
    reader = csv.reader(limited_lines(io.TextIOWrapper(stream, "utf-8", newline="")))
    header = next(reader, None)
    if not header:
        raise InputError(file, 0, "", "is empty; its first row must name the columns")
    columns = _Columns(file, header)
    for cells in reader:
        if not cells:
            continue
        if columns.is_trial(cells):
            continue
        line = reader.line_num
        try:
            yield _row(line, cells, columns, group_of)
        except _Bad as error:
            bad(line, str(error))


class _Columns:
    """Positions of the columns."""

    def __init__(self, file: str, header: Sequence[str]) -> None:
        names = [name.strip().lower() for name in header]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise InputError(file, 1, "", f"names the column {min(twice)!r} twice")
        time = next((name for name in _TIMES if name in names), None)
        if time is None:
            raise InputError(file, 1, "", f"has no column {', '.join(_TIMES[:-1])} or {_TIMES[-1]}; it has {names}")
        self.number = len(names)
        self.time = names.index(time)
        self.is_utc = time.endswith("_utc")
        self.count = next((names.index(name) for name in _COUNTS if name in names), None)
        self.profile = names.index(_PROFILE) if _PROFILE in names else None
        self.seconds = names.index(_SECONDS) if _SECONDS in names else None
        has_ends = self.seconds is None and {*_BEGIN_AND_END} <= {*names}
        self.begin_and_end = [names.index(each) for each in _BEGIN_AND_END] if has_ends else None
        self.user = names.index(_USER) if _USER in names else None
        self.source = names.index(_SOURCE) if _SOURCE in names else self.number

    def is_trial(self, cells: Sequence[str]) -> bool:
        """Whether a row is a server of ``dra-spawner try``."""
        return self.source < len(cells) and cells[self.source] == TRIAL


def _row(line: int, cells: Sequence[str], columns: _Columns, group_of: Mapping[str, str]) -> _Row:
    if len(cells) != columns.number:
        raise _Bad(f"has {len(cells)} cells; the first row has {columns.number}")
    at = _time(cells[columns.time], is_utc=columns.is_utc)
    profile = cells[columns.profile].strip() if columns.profile is not None else ""
    group = group_of.get(profile)
    if group is None:
        known = ", ".join(sorted(filter(None, group_of)))
        raise _Bad(f"has the profile {profile!r}, which no kind of node lists; known are {known or 'none'}")
    launches = 1 if columns.count is None else _count(cells[columns.count])
    length = _NEVER
    if columns.seconds is not None:
        length = _length(cells[columns.seconds])
    elif columns.begin_and_end is not None:
        length = _length_between(*(cells[each] for each in columns.begin_and_end))
    key: tuple[str, ...] | None = None
    if columns.user is not None:
        # Launches that were imported into a history have no user.
        key = (profile, cells[columns.user]) if cells[columns.user] else None
    elif columns.count is not None:
        key = (profile,)
    return _Row(line, minute_of(at), at, group, launches, length, key)


def _time(text: str, *, is_utc: bool) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _Bad(f"has the time {text!r}; it must be like 2026-11-24T17:00:00+01:00") from None
    if moment.tzinfo is None:
        if not is_utc:
            raise _Bad(f"has the time {text!r}, which has no time zone; add one, or name the column minute_utc")
        moment = moment.replace(tzinfo=UTC)
    return moment


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise _Bad(f"has {text!r} launches; it must be a whole number") from None
    if not 0 <= number <= _MAX_AT_ONCE:
        raise _Bad(f"has {number} launches; it must be 0 to {_MAX_AT_ONCE:,}")
    return number


def _length(text: str) -> int:
    if not text.strip():
        return _NEVER
    try:
        seconds = float(text)
    except ValueError:
        raise _Bad(f"has {text!r} seconds; it must be a number, or empty if it is unknown") from None
    return _minutes(seconds)


def _length_between(begin: str, end: str) -> int:
    """From the time at which the server ran to its end; it may have neither."""
    if not begin.strip() or not end.strip():
        return _NEVER
    return _minutes((_time(end, is_utc=False) - _time(begin, is_utc=False)).total_seconds())


def _minutes(seconds: float) -> int:
    if not 0 <= seconds < 1e9:
        raise _Bad(f"has {seconds:g} seconds; it must be 0 or more")
    return max(round(seconds / 60), 1)

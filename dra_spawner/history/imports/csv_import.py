"""Launches from a CSV file: an export of `dra-spawner history export`, or any list of launches or of counts."""

from __future__ import annotations

import contextlib
import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Final, TextIO, TypeVar

from dra_spawner.history.imports.imported_rows import BadRow, SourceError, misordered, parsed_time, quoted
from dra_spawner.history.imports.limited_lines import TooManyLines, limited_lines
from dra_spawner.history.records import TRIAL, Launch, WaitCause
from dra_spawner.history.user_names import UserNameMode, UserNames

COLUMNS: Final = (
    "uid",
    "asked",
    "profile",
    "choice",
    "user",
    "user_names",
    "pod",
    "bound",
    "running",
    "ended",
    "end_is_estimate",
    "node",
    "warm",
    "cause",
    "reason",
    "source",
    "ended_because",
    "devices",
)
"""Columns of an export. An import needs only ``asked``; it may also have ``count``."""

NO_DEVICES: Final = "none"
"""In the column ``devices`` of a server without devices; an empty field says that it is not known."""

_COUNT: Final = "count"
_MAX_COUNT: Final = 100_000
_LONGEST_COUNT: Final = 20
_MAX_DEVICES: Final = 10_000
_TRUTHS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LONGEST_FIELD: Final = 65_536


_Word = TypeVar("_Word", bound=StrEnum)


class _InvalidRow(Exception):
    """Raised for an invalid row; the message has the found and the allowed value."""


@dataclass(frozen=True)
class CsvSource:
    """A CSV file, and how to read it.

    Attributes
    ----------
    path
        The file; a file that ends in ``.gz`` is decompressed.
    names
        Makes identifiers of launches without an identifier.
    now
        Present time; later launches are bad rows.
    renamed
        Our names of columns, by the file's names.
    ignored
        Columns of the file that are not read.
    profile
        Profile of rows without one.
    zone
        Time zone of times without one; None refuses these times.
    spread
        Time over which the launches of a row with a ``count`` are spread evenly.
    """

    path: Path
    names: UserNames
    now: datetime
    renamed: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    profile: str = ""
    zone: tzinfo | None = None
    spread: timedelta = timedelta(minutes=1)

    def rows(self) -> Iterator[Launch | BadRow]:
        """Launches and bad rows of the file.

        Raises
        ------
        SourceError
            If the file or its header cannot be read.
        """
        csv.field_size_limit(_LONGEST_FIELD)
        try:
            with self._opened() as stream:
                yield from self._rows(csv.reader(limited_lines(stream), strict=True))
        except TooManyLines as error:
            raise SourceError(f"{self.path}: {error}") from None
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"{self.path}: {getattr(error, 'strerror', None) or error}") from None
        except UnicodeDecodeError:
            raise SourceError(f"{self.path}: is not UTF-8 text") from None

    def _opened(self) -> TextIO:
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open(encoding="utf-8-sig", newline="")

    def _rows(self, lines: Iterator[list[str]]) -> Iterator[Launch | BadRow]:
        try:
            header = next(lines, [])
        except csv.Error as error:
            raise SourceError(f"{self.path}: line 1: {error}") from None
        columns = self._columns(header)
        seen: Counter[str] = Counter()
        while True:
            line = getattr(lines, "line_num", 0) + 1
            try:
                values = next(lines, None)
                if values is None:
                    return
                if values:
                    yield from self._launches(columns, values, seen)
            except csv.Error as error:
                yield BadRow(f"line {line}", f"{error}")
            except _InvalidRow as error:
                yield BadRow(f"line {line}", f"{error}")

    def _columns(self, header: Sequence[str]) -> list[str]:
        """Our name of each column; empty for ignored columns."""
        unknown = (set(self.renamed) | self.ignored) - set(header)
        if unknown:
            raise SourceError(f"{self.path}: line 1: has no column {quoted(min(unknown))}")
        columns = ["" if name in self.ignored else self.renamed.get(name, name) for name in header]
        for name, ours in zip(header, columns, strict=True):
            if ours and ours not in (*COLUMNS, _COUNT):
                allowed = f"{', '.join(COLUMNS)}, {_COUNT}"
                raise SourceError(
                    f"{self.path}: line 1: found the column {quoted(name)}; allowed: {allowed} (--column asked={name}"
                    f" renames it, --ignore {name} leaves it out)"
                )
        twice = [name for name, number in Counter(filter(None, columns)).items() if number > 1]
        if twice:
            raise SourceError(f"{self.path}: line 1: has the column {quoted(twice[0])} twice")
        if "asked" not in columns:
            raise SourceError(f"{self.path}: line 1: has no column 'asked' (--column asked=NAME names the column)")
        return columns

    def _launches(self, columns: Sequence[str], values: Sequence[str], seen: Counter[str]) -> Iterator[Launch]:
        if len(values) != len(columns):
            raise _InvalidRow(f"found {len(values)} fields; allowed: {len(columns)}, as the header has")
        row = {name: value for name, value in zip(columns, values, strict=True) if name}
        count = _count(row.pop(_COUNT, "1"))
        launch = self._launch(row)
        if problem := misordered(launch, self.now):
            raise _InvalidRow(problem)
        given = row.get("uid", "")
        # Two equal rows of an unknown user may be two launches; two equal rows of a user are the same launch.
        same = given or "\0".join((launch.asked.isoformat(), launch.profile, launch.choice, launch.user))
        if (given or launch.user) and (seen[same] or count > 1):
            raise _InvalidRow(f"found the launch {quoted(given or launch.user)} again; allowed: each launch once")
        for number in range(count):
            uid = given or "csv-" + self.names.hash(f"{same}\0{seen[same]}")
            seen[same] += 1
            asked = launch.asked + self.spread * number / count
            yield replace(launch, uid=uid, asked=asked)

    def _launch(self, row: Mapping[str, str]) -> Launch:
        def text(name: str) -> str:
            return row.get(name, "").strip()

        def moment(name: str) -> datetime | None:
            if not text(name):
                return None
            try:
                return parsed_time(text(name), self.zone)
            except ValueError as error:
                raise _InvalidRow(f"{name}: {error}") from None

        asked = moment("asked")
        if asked is None:
            raise _InvalidRow("asked: nothing found; allowed: a time")
        profile, choice = text("profile"), text("choice")
        return Launch(
            uid=text("uid"),
            asked=asked,
            profile=profile or choice.partition("/")[0] or self.profile,
            choice=choice,
            user=text("user"),
            user_is_hashed=_word("user_names", text("user_names"), UserNameMode) is UserNameMode.HASHED,
            pod=text("pod"),
            bound=moment("bound"),
            running=moment("running"),
            ended=moment("ended"),
            end_is_estimate=_truth("end_is_estimate", text("end_is_estimate")) or False,
            node=text("node"),
            warm=_truth("warm", text("warm")),
            cause=_word("cause", text("cause"), WaitCause),
            reason=text("reason"),
            ended_because=text("ended_because"),
            devices=_devices(text("devices")),
            # Not the source in the file: "service" would mean that this service has recorded the launch.
            source=TRIAL if text("source") == TRIAL else "csv",
        )


def _count(value: str) -> int:
    digits = value.strip()
    # Python refuses to make a number of thousands of digits.
    if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_COUNT and int(digits) <= _MAX_COUNT:
        return int(digits)
    raise _InvalidRow(f"{_COUNT}: found {quoted(value)}; allowed: a whole number from 0 to {_MAX_COUNT}")


def _devices(value: str) -> dict[str, float] | None:
    if not value:
        return None
    found: dict[str, float] = {}
    for part in value.split() if value != NO_DEVICES else ():
        driver, _, number = part.rpartition("=")
        with contextlib.suppress(ValueError):
            if driver and 0 <= float(number) <= _MAX_DEVICES:
                found[driver] = float(number)
                continue
        raise _InvalidRow(f"devices: found {quoted(part)}; allowed: DRIVER=NUMBER, like gpu.example.com=0.25")
    return found


def _truth(name: str, value: str) -> bool | None:
    if not value:
        return None
    if value.lower() not in _TRUTHS:
        raise _InvalidRow(f"{name}: found {quoted(value)}; allowed: true, false, or nothing")
    return _TRUTHS[value.lower()]


def _word(name: str, value: str, words: type[_Word]) -> _Word | None:
    if not value:
        return None
    try:
        return words(value)
    except ValueError:
        raise _InvalidRow(f"{name}: found {quoted(value)}; allowed: {', '.join(words)}, or nothing") from None

"""``dra-spawner history import``: check all rows, then write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.history_files.opening import CommandError, DatabaseOptions, opened
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.imports.csv_import import CsvSource
from dra_spawner.history.imports.http_source import shown_source
from dra_spawner.history.imports.imported_rows import BadRow, Rows, SourceError
from dra_spawner.history.imports.jupyterhub_import import JupyterHubSource
from dra_spawner.history.imports.prometheus_import import DEFAULT_QUERY, PrometheusSource
from dra_spawner.history.records import Launch

_BATCH: Final = 5_000
_SHOWN_BAD: Final = 20


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of the command line."""

    source: str
    format: str
    database: DatabaseOptions = DatabaseOptions()  # noqa: RUF009 (frozen)
    skip_bad: bool = False
    profile: str = ""
    time_zone: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our names of columns, by the file's names."""
    ignored: frozenset[str] = frozenset()
    token_file: str = ""
    begin: datetime | None = None
    end: datetime | None = None
    step: timedelta = timedelta(minutes=1)
    query: str = DEFAULT_QUERY


def run_import(options: ImportOptions, output: TextIO, messages: TextIO, *, now: datetime | None = None) -> int:
    """Import launches.

    Returns
    -------
    int
        0 if all launches are in the database; 1 if the database fails; 2 if the source cannot be read, or has bad rows
        that must not be skipped: nothing is written then.
    """
    progress = Progress(messages)
    try:
        with opened(options.database, is_for_import=True) as database:
            return _import(options, database, now or datetime.now(UTC), output, messages, progress)
    except CommandError as error:
        progress.clear()
        messages.write(f"dra-spawner history import: {error}\n")
        return error.code
    except SourceError as error:
        progress.clear()
        messages.write(f"dra-spawner history import: {error}\n")
        return 2
    finally:
        progress.clear()


def _import(
    options: ImportOptions,
    database: HistoryDatabase,
    now: datetime,
    output: TextIO,
    messages: TextIO,
    progress: Progress,
) -> int:
    rows, source = _source(options, database, now), shown_source(options.source)
    if not options.skip_bad and _has_bad_rows(source, rows, messages, progress):
        return 2
    until = database.service_began()
    written = known = overlapping = bad = 0
    launches: list[Launch] = []

    def write() -> None:
        nonlocal written, known
        present = database.existing([each.uid for each in launches])
        new = [each for each in launches if each.uid not in present]
        database.add(new)
        known += len(present)
        written += len(new)
        launches.clear()
        progress.show(f"{source}: {written:,} launches written")

    for row in rows():
        if isinstance(row, BadRow):
            bad += 1
            if bad <= _SHOWN_BAD:
                progress.clear()
                messages.write(f"{source}: {row} (skipped)\n")
        elif until is not None and row.asked >= until:
            overlapping += 1
        else:
            launches.append(row)
            if len(launches) >= _BATCH:
                write()
    if launches:
        write()
    progress.clear()
    output.write(f"{written:,} launches imported\n")
    for number, why in (
        (bad, "bad rows skipped"),
        (known, "launches left out, as the history has them already"),
        (overlapping, f"launches left out, as the service itself has recorded launches since {until}"),
    ):
        if number:
            output.write(f"{number:,} {why}\n")
    return 0


def _has_bad_rows(source: str, rows: Rows, messages: TextIO, progress: Progress) -> bool:
    """Whether any row is bad; the first bad rows are printed."""
    shown: list[BadRow] = []
    bad = number = 0
    for number, row in enumerate(rows(), 1):
        if isinstance(row, BadRow):
            bad += 1
            if bad <= _SHOWN_BAD:
                shown.append(row)
        progress.show(f"{source}: {number:,} rows checked")
    progress.clear()
    for each in shown:
        messages.write(f"{source}: {each}\n")
    if bad > _SHOWN_BAD:
        messages.write(f"{source}: {bad - _SHOWN_BAD:,} more bad rows\n")
    if bad:
        messages.write(
            f"dra-spawner history import: nothing is imported, as {bad:,} of {number:,} rows are bad; with"
            " --skip-bad the others are imported\n"
        )
    return bad > 0


def _source(options: ImportOptions, database: HistoryDatabase, now: datetime) -> Rows:
    match options.format:
        case "csv":
            return CsvSource(
                Path(options.source),
                database.names,
                now,
                options.columns,
                options.ignored,
                options.profile,
                _zone(options.time_zone),
            ).rows
        case "jupyterhub":
            hub = JupyterHubSource(options.source, database.names, now, options.token_file, options.profile)
            return _read_once(hub.rows)
        case _:
            end = options.end or now
            prometheus = PrometheusSource(
                options.source,
                database.names,
                options.begin or end - timedelta(days=14),
                end,
                options.step,
                options.query,
                options.token_file,
                options.profile,
            )
            return _read_once(prometheus.rows)


def _read_once(rows: Rows) -> Rows:
    """The same rows at each call: a server may give another answer the second time."""
    read: list[Launch | BadRow] = []

    def again() -> Iterator[Launch | BadRow]:
        if not read:
            read.extend(rows())
        return iter(read)

    return again


def _zone(name: str) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CommandError(f"--time-zone: found {name!r}; allowed: a name like Europe/Berlin or UTC") from None

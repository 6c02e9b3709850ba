"""``dra-spawner history export``: records as CSV, or as lines of JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TextIO

from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.history_files.opening import CommandError, DatabaseOptions, opened
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.imports.csv_import import COLUMNS, NO_DEVICES
from dra_spawner.history.records import Launch, NodeLeadTime, RecordedDecision
from dra_spawner.history.user_names import UserNameMode

_LEAD_TIME_COLUMNS: Final = ("uid", "node", "kind", "asked", "created", "ready", "slices", "images")
_DECISION_COLUMNS: Final = (
    "id",
    "at",
    "kind",
    "subject",
    "reason",
    "code",
    "node",
    "profile",
    "outcome",
    "details",
)

_Row = Mapping[str, str | bool | None]


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of the command line."""

    records: str = "launches"
    database: DatabaseOptions = DatabaseOptions()  # noqa: RUF009 (frozen)
    as_json: bool = False
    begin: datetime | None = None
    end: datetime | None = None


def run_export(options: ExportOptions, output: TextIO, messages: TextIO) -> int:
    """Print records, the oldest first.

    Returns
    -------
    int
        0 if all records are printed, 1 if the database fails, 2 if it cannot be used.
    """
    progress = Progress(messages)
    number = 0
    kinds: set[object] = set()
    try:
        with opened(options.database) as database:
            columns, rows = _rows(options, database)
            writer = csv.writer(output, lineterminator="\n")
            if not options.as_json:
                writer.writerow(columns)
            for number, row in enumerate(rows, 1):
                kinds.add(row.get("user_names"))
                if options.as_json:
                    output.write(json.dumps(row, ensure_ascii=False) + "\n")
                else:
                    writer.writerow(_field(row[name]) for name in columns)
                progress.show(f"{number:,} {options.records}")
            progress.clear()
            messages.write(f"{number:,} {options.records}. {_about_names(kinds, database)}\n")
    except CommandError as error:
        progress.clear()
        messages.write(f"dra-spawner history export: {error}\n")
        return error.code
    finally:
        progress.clear()
    return 0


def _rows(options: ExportOptions, database: HistoryDatabase) -> tuple[Sequence[str], Iterator[_Row]]:
    begin, end = options.begin, options.end
    match options.records:
        case "launches":
            return COLUMNS, map(_launch_row, database.launches(begin, end))
        case "lead-times":
            return _LEAD_TIME_COLUMNS, map(_lead_time_row, database.lead_times(None, begin, end))
        case _:
            return _DECISION_COLUMNS, map(_decision_row, database.decisions(begin, end))


def _about_names(kinds: set[object], database: HistoryDatabase) -> str:
    """A sentence on the form of the users' names in the output."""
    hashed = "keyed hashes, which cannot be turned back into names without the key of this history"
    plain = "the users' own names: treat the output as personal data"
    found = kinds & set(UserNameMode)
    if not found:
        return f"Names of users and pods in it are {hashed if database.names.is_hashed else plain}."
    if found == {UserNameMode.HASHED.value}:
        return f"The column user has {hashed}."
    if found == {UserNameMode.PLAIN.value}:
        return f"The column user has {plain}."
    return f"The column user has {hashed}, or, in rows with user_names plain, {plain}."


def _launch_row(launch: Launch) -> _Row:
    mode = UserNameMode.HASHED if launch.user_is_hashed else UserNameMode.PLAIN
    return {
        "uid": launch.uid,
        "asked": _time(launch.asked),
        "profile": launch.profile,
        "choice": launch.choice,
        "user": launch.user,
        "user_names": mode.value if launch.user or launch.pod else None,
        "pod": launch.pod,
        "bound": _time(launch.bound),
        "running": _time(launch.running),
        "ended": _time(launch.ended),
        "end_is_estimate": launch.end_is_estimate,
        "node": launch.node,
        "warm": launch.warm,
        "cause": launch.cause.value if launch.cause is not None else None,
        "reason": launch.reason,
        "source": launch.source,
        "ended_because": launch.ended_because,
        "devices": _devices(launch),
    }


def _devices(launch: Launch) -> str | None:
    """Devices by driver, like ``gpu.example.com=0.25``."""
    if launch.devices is None:
        return None
    return " ".join(f"{driver}={held:g}" for driver, held in launch.devices.items()) or NO_DEVICES


def _lead_time_row(lead_time: NodeLeadTime) -> _Row:
    return {
        "uid": lead_time.uid,
        "node": lead_time.node,
        "kind": lead_time.kind,
        **{name: _time(getattr(lead_time, name)) for name in _LEAD_TIME_COLUMNS[3:]},
    }


def _decision_row(recorded: RecordedDecision) -> _Row:
    decision = recorded.decision
    return {
        "id": recorded.id,
        "at": _time(decision.at),
        **{name: getattr(decision, name) for name in _DECISION_COLUMNS[2:-1]},
        "details": json.dumps(dict(decision.details), ensure_ascii=False),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _field(value: str | bool | None) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value

"""Traces from CSV: read rows, and the named row of a problem."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.history_files.export_command import ExportOptions, run_export
from dra_spawner.commands.history_files.opening import DatabaseOptions
from dra_spawner.commands.replaying.trace_reader import TraceRows, read_trace
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import TRIAL
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from tests.all_of_them import all_of_them
from tests.history.records import after, launch

GROUPS = {"gpu": "gpu", "small": "gpu", "cpu": "cpu"}


def read(directory: Path, text: str, **options: Any) -> TraceRows:
    path = directory / "trace.csv"
    path.write_text(text)
    return read_trace(str(path), GROUPS, **options)


def test_counts_by_the_minute(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv.gz"
    path.write_bytes(gzip.compress(b"minute_utc,launches\n2026-01-05T00:00Z,3\n2026-01-05T00:02,4\n"))
    found = read_trace(str(path), {"": "all"})
    trace = found.traces["all"]
    assert (list(trace.launches), trace.lengths, found.rows) == ([3, 0, 4], None, 2)
    assert datetime_of(trace.begin).isoformat() == "2026-01-05T00:00:00+00:00"


def test_launches_one_by_one_of_several_profiles(tmp_path: Path) -> None:
    text = (
        "time,profile,seconds,user\n"
        "2026-01-05T01:00:10+01:00,gpu,600,a\n"
        "2026-01-05T01:00:10+01:00,small,30,b\n"
        "2026-01-05T00:02:59Z,cpu,,c\n"
    )
    traces = read(tmp_path, text).traces
    assert list(traces["gpu"].launches) == [2, 0, 0]
    assert list(traces["gpu"].lengths or ()) == [10, 1]
    assert list(traces["cpu"].launches) == [0, 0, 1]
    assert traces["cpu"].lengths is None


def test_an_export_of_the_history_is_read(tmp_path: Path) -> None:
    """Two users at one time; two launches at one time that were imported, so without users; one that still runs."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    database = HistoryDatabase.open(url)
    launches = [launch("1", running=after(60), ended=after(660)), launch("2", user="bob", running=after(30))]
    launches += [launch(uid, 120, user="", pod="") for uid in ("3", "4")]
    launches += [launch("trial", 60, source=TRIAL)]  # of `dra-spawner try`
    database.add(launches)
    database.close()
    path = tmp_path / "launches.csv"
    with path.open("w") as output:
        assert run_export(ExportOptions(database=DatabaseOptions(url=url)), output, io.StringIO()) == 0
    trace = read_trace(str(path), GROUPS).traces["gpu"]
    assert list(trace.launches) == [2, 0, 2]
    assert sorted(trace.lengths or ()) == [-1, -1, -1, 10]


HEADER = "time,profile,launches,seconds,user\n"
FIRST = "2026-01-05T10:00Z,gpu,1,60,a\n"
BAD = {
    "unordered": ("2026-01-05T09:59Z,gpu,1,60,a", "before the time of line 2"),
    "duplicate": ("2026-01-05T10:00Z,gpu,1,60,a", "appears twice: gpu, a"),
    "profile": ("2026-01-05T10:01Z,tpu,1,60,a", "'tpu', which no kind of node lists; known are cpu, gpu"),
    "negative duration": ("2026-01-05T10:01Z,gpu,1,-5,a", "has -5 seconds; it must be 0 or more"),
    "no duration": ("2026-01-05T10:01Z,gpu,1,nan,a", "has nan seconds"),
    "negative count": ("2026-01-05T10:01Z,gpu,-1,60,a", "-1 launches"),
    "count": ("2026-01-05T10:01Z,gpu,one,60,a", "'one' launches"),
    "no time zone": ("2026-01-05T10:01,gpu,1,60,a", "no time zone"),
    "time": ("yesterday,gpu,1,60,a", "'yesterday'; it must be like"),
    "cells": ("2026-01-05T10:01Z,gpu,1", "has 3 cells; the first row has 5"),
}


@all_of_them("row, problem", BAD)
def test_a_bad_row_is_named_and_left_out_where_that_is_allowed(tmp_path: Path, row: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, f"{HEADER}{FIRST}{row}\n")
    assert refused.value.line == 3
    assert problem in str(refused.value)
    found = read(tmp_path, f"{HEADER}{FIRST}{row}\n2026-01-05T10:02Z,gpu,5,60,b\n", skip_bad=True)
    assert list(found.traces["gpu"].launches) == [1, 0, 5]
    assert len(found.skipped) == 1
    assert problem in found.skipped[0]


def test_a_gap_is_named(tmp_path: Path) -> None:
    text = f"{HEADER}{FIRST}2026-01-12T10:00Z,gpu,1,60,a\n"
    with pytest.raises(InputError, match=r"line 3: is 7 days, 0:00:00 after line 2, without a row between them"):
        read(tmp_path, text)
    found = read(tmp_path, text, skip_bad=True)
    assert (found.rows, len(found.skipped)) == (2, 1)
    trace = found.traces["gpu"]
    assert trace.gaps == ((trace.begin + 1, trace.end - 1),)
    assert found.skipped[0].endswith("without a row between them; this time is not judged")


@all_of_them(
    "text, problem",
    {
        "empty": ("", "is empty"),
        "no time": ("when,profile\n", "has no column time, minute, asked or minute_utc"),
        "column twice": ("time,time\n", "names the column 'time' twice"),
        "no row": (HEADER, "has no usable row"),
        "a century": (f"{HEADER}{FIRST}2126-01-05T10:00Z,gpu,1,60,a\n", "more than 20 years"),
    },
)
def test_a_file_that_is_no_trace(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(tmp_path, text, skip_bad=True)


@all_of_them("content", [b"\x1f\x8bnonsense", b"time\n\xff\xfe", b'time\n"' + b"x" * 200_000])
def test_bytes_that_are_no_trace(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_trace(str(path), GROUPS)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_trace(str(tmp_path / "none.csv"), GROUPS)

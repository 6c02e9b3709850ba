"""CSV files: rows that are launches, and names of bad rows."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.history.imports.csv_import import CsvSource
from dra_spawner.history.imports.imported_rows import BadRow, SourceError
from dra_spawner.history.records import Launch, WaitCause
from dra_spawner.history.user_names import UserNames
from tests.all_of_them import all_of_them

NAMES = UserNames(b"k" * 32)
NOW = datetime(2026, 3, 3, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


def read(path: Path, text: str, **more: Any) -> list[Launch | BadRow]:
    path.write_text(text)
    return list(CsvSource(path, NAMES, NOW, **more).rows())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "launches.csv"


def test_all_columns(path: Path) -> None:
    text = (
        "uid,asked,profile,choice,user,user_names,pod,bound,running,ended,end_is_estimate,node,warm,cause,reason,source\n"
        "u1,2026-03-02T09:00:00Z,gpu,gpu/memory=large,ada,plain,jupyter-ada,2026-03-02T10:00:01+01:00,1772442002,"
        'Mon,false,n1,true,node,"waits, long",service\n'
    ).replace("Mon", "2026-03-02T11:00:00.5Z")
    start = Launch("u1", NINE, "gpu", "gpu/memory=large", "ada", False, "jupyter-ada", node="n1", source="csv")
    bound, running, ended = (NINE + timedelta(seconds=each) for each in (1, 2, 7200.5))
    rest: Any = {"warm": True, "cause": WaitCause.NODE, "reason": "waits, long"}
    assert read(path, text) == [replace(start, bound=bound, running=running, ended=ended, **rest)]
    (trial,) = read(path, text.replace(",service", ",trial"))
    assert isinstance(trial, Launch)
    assert not trial.is_demand, "an export keeps what is nobody's demand apart"


def test_times_alone_and_rows_without_a_profile(path: Path) -> None:
    first, second = read(path, "asked\n2026-03-02T09:00Z\n\n2026-03-02T09:00Z\n", profile="cpu")
    assert isinstance(first, Launch)
    assert isinstance(second, Launch)
    assert (first.asked, first.profile, first.user) == (NINE, "cpu", "")
    assert first.uid != second.uid, "two launches of unknown users at one time are two"
    again = read(path, "asked\n2026-03-02T09:00Z\n2026-03-02T09:00Z\n", profile="cpu")
    assert again == [first, second], "the same file has the same launches"


def test_counts_are_spread_over_their_minute_and_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv.gz"
    path.write_bytes(gzip.compress(b"minute_utc,launches,notes\n2026-03-02T09:00Z,3,x\n2026-03-02T09:01Z,0,y\n"))
    source = CsvSource(path, NAMES, NOW, {"minute_utc": "asked", "launches": "count"}, frozenset({"notes"}))
    found = [each for each in source.rows() if isinstance(each, Launch)]
    assert [each.asked for each in found] == [NINE + timedelta(seconds=each) for each in (0, 20, 40)]
    assert len({each.uid for each in found}) == 3


def test_times_without_a_zone(path: Path) -> None:
    (refused,) = read(path, "asked\n2026-03-02 10:00\n")
    assert isinstance(refused, BadRow)
    assert "--time-zone" in refused.problem
    (found,) = read(path, "asked\n2026-03-02 10:00\n", zone=ZoneInfo("Europe/Berlin"))
    assert isinstance(found, Launch)
    assert found.asked == NINE


BAD_ROWS = [
    ("asked", "soon", "asked: found 'soon'; allowed: seconds since 1970, or ISO 8601 with its zone"),
    ("asked", "1e300", "asked: found '1e300'; allowed: seconds since 1970"),
    ("asked", "nan", "asked: found 'nan'; allowed: seconds since 1970"),
    ("asked,user", ",ada", "asked: nothing found; allowed: a time"),
    ("asked,user", "1772442000,ada,3", "found 3 fields; allowed: 2, as the header has"),
    ("asked", "1972442000", "asked: found 2032-07-03T04:33:20+00:00; allowed: a time in the past"),
    ("asked", "0001-01-01T00:00:00+05:00", "asked: found '0001-01-01T00:00:00+05:00'; allowed: seconds since 1970"),
    ("asked", "9999-12-31T23:59:59-05:00", "asked: found '9999-12-31T23:59:59-05:00'; allowed: seconds since 1970"),
    ("asked,running", "1772442000,4072442000", "running: found 2099-01-18T17:53:20+00:00; allowed: a time in the past"),
    ("asked,ended", "1772442000,4072442000", "ended: found 2099-01-18T17:53:20+00:00; allowed: a time in the past"),
    ("asked,bound", "1772442000,1772441990", "bound: found a time 10 s before asked; allowed: asked or later"),
    ("asked,running,ended", "1772442000,1772442010,1772442009", "ended: found a time 1 s before running"),
    ("asked,warm", "1772442000,maybe", "warm: found 'maybe'; allowed: true, false, or nothing"),
    ("asked,cause", "1772442000,luck", "cause: found 'luck'; allowed: none, node, preemption, other, or nothing"),
    ("asked,user_names", "1772442000,secret", "user_names: found 'secret'; allowed: hashed, plain, or nothing"),
    ("asked,count", "1772442000,-1", "count: found '-1'; allowed: a whole number from 0 to 100000"),
    ("asked,count", f"1772442000,{'9' * 5000}", "count: found '999"),
    ("asked,count,user", "1772442000,2,ada", "found the launch 'ada' again; allowed: each launch once"),
    ("asked", '"1772442000', "unexpected end of data"),
]


def test_a_bad_row_is_named_and_the_others_are_read(path: Path) -> None:
    @all_of_them("header, row, problem", BAD_ROWS)
    def check(header: str, row: str, problem: str) -> None:
        good = "1772442000" + "," * header.count(",")
        if "count" in header:
            good = good.replace(",", ",1", 1)
        bad, *others = reversed(read(path, f"{header}\n{good}\n\n{row}\n"))
        assert isinstance(bad, BadRow)
        assert (bad.location, bad.problem[: len(problem)]) == ("line 4", problem)
        assert [type(each) for each in others] == [Launch]

    check()


def test_a_duplicate_is_named(path: Path) -> None:
    for header in ("uid,asked", "user,asked"):
        first, second = read(path, f"{header}\nx,1772442000\nx,1772442000\n")
        assert isinstance(first, Launch), header
        assert second == BadRow("line 3", "found the launch 'x' again; allowed: each launch once"), header


def test_a_file_that_cannot_be_read(path: Path) -> None:
    @all_of_them("text, more, problem", [
        ("", {}, "line 1: has no column 'asked'"),
        ("time\n1\n", {}, "line 1: found the column 'time'; allowed: uid, asked, "),
        ("asked,asked\n1,1\n", {}, "line 1: has the column 'asked' twice"),
        ("asked\n1\n", {"renamed": {"when": "asked"}}, "line 1: has no column 'when'"),
        ("asked\n1\n", {"ignored": frozenset({"when"})}, "line 1: has no column 'when'"),
        (None, {}, "No such file or directory"),
        (b"asked\n\xff\n", {}, "is not UTF-8 text"),
    ])  # fmt: skip
    def check(text: str | bytes | None, more: Any, problem: str) -> None:
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(SourceError) as refused:
            list(CsvSource(path, NAMES, NOW, **more).rows())
        assert str(refused.value).startswith(f"{path}: {problem}")

    check()


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"asked\n")
    with pytest.raises(SourceError, match="Not a gzipped file"):
        list(CsvSource(path, NAMES, NOW).rows())

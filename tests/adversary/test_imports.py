"""Hostile files for `dra-spawner history import` and `dra-spawner replay`: one sentence, and bounded memory and time."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adversary.command_runner import CommandRunner
from tests.adversary.hostile_calendars import UNREADABLE
from tests.all_of_them import all_of_them

_BYTES = 300 * 2**20

_CLUSTER = """
nodes:
  - {name: cpu, slots: 10, lead_minutes: [5], profiles: [small]}
"""
_TRACE = "time,profile\n2026-11-27T12:00:00Z,small\n2026-11-27T13:00:00Z,small\n"


def _zipped(head: str, part: str, times: int) -> Callable[[], bytes]:
    """A small file that is large when it is unpacked: members of gzip may follow one another."""
    return lambda: gzip.compress(head.encode(), 9) + gzip.compress(part.encode() * 1_000_000, 9) * times


FILES = {
    "one endless line": _zipped("time,profile\n", "a", 700),
    "an endless header": _zipped("", "a", 700),
    "half a file": lambda: gzip.compress(_TRACE.encode())[:-9],
    "a broken file": lambda: gzip.compress(_TRACE.encode())[:20] + b"\0" * 100,
}


@pytest.fixture(scope="module")
def runner() -> Iterator[CommandRunner]:
    runner = CommandRunner()
    yield runner
    runner.close()


def assert_one_sentence(runner: CommandRunner, *command: str) -> None:
    ending = runner.run(*command)
    assert ending.code == 2, ending
    assert ending.bytes_more < _BYTES, ending
    assert re.fullmatch(r"dra-spawner .{1,500}\n", ending.messages), ending


@all_of_them("content", FILES)
def test_compressed_files(runner: CommandRunner, tmp_path: Path, content: Callable[[], bytes]) -> None:
    launches, cluster = tmp_path / "launches.csv.gz", tmp_path / "cluster.yaml"
    launches.write_bytes(content())
    cluster.write_text(_CLUSTER)
    imported = ("history", "import", "--from", "csv", "--column", "asked=time", "--url", f"sqlite:///{tmp_path}/h")
    assert_one_sentence(runner, *imported, str(launches))
    assert_one_sentence(runner, "replay", str(launches), str(cluster))


@all_of_them("text", UNREADABLE)
def test_calendars_of_a_replay(runner: CommandRunner, tmp_path: Path, text: Callable[[], str]) -> None:
    (tmp_path / "trace.csv").write_text(_TRACE)
    (tmp_path / "cluster.yaml").write_text(_CLUSTER)
    (tmp_path / "x.ics").write_text(text())
    files = (str(tmp_path / each) for each in ("trace.csv", "cluster.yaml", "x.ics"))
    trace, cluster, calendar = files
    assert_one_sentence(runner, "replay", trace, cluster, "--calendar", calendar)

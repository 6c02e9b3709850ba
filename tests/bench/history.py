"""Costs of recording for the caller, and speed of writing and reading the history.

Run ``python -m tests.bench.history [--launches 720000] [--url URL]``. It prints microseconds that a caller spends on a
record while the database works and while it hangs, side by side, and then the rates of a database with launches of 59
days: a batch at a time in, counts by minute and all launches out. Without ``--url`` it is a SQLite file.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.recorder import Recorder, RecorderLimits
from dra_spawner.history.records import Launch, WaitCause
from tests.bench.figures import options_parser

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 59
BATCH = 500
CALLS = 20_000


def launches(count: int) -> Iterator[Launch]:
    """Launches of two profiles and a thousand users, evenly over the days."""
    step = timedelta(days=DAYS) / count
    for number in range(count):
        asked = BEGIN + step * number
        user = f"user-{number % 1000}"
        yield Launch(
            f"{number:036}",
            asked,
            f"profile-{number % 2}",
            f"profile-{number % 2}/memory=large",
            user,
            pod=f"jupyter-{user}",
            bound=asked + timedelta(seconds=1),
            running=asked + timedelta(seconds=5),
            ended=asked + timedelta(hours=1),
            node=f"node-{number % 100}",
            warm=True,
            cause=WaitCause.NONE,
        )


def call_micros(recorder: Recorder) -> list[float]:
    """Of each call."""
    found = []
    for launch in launches(CALLS):
        began = time.perf_counter_ns()
        recorder.record(launch)
        found.append((time.perf_counter_ns() - began) / 1000)
    return found


def measure_calls(path: Path) -> None:
    release = threading.Event()

    def hang() -> HistoryDatabase:
        release.wait()
        raise OSError("it was away")

    def work() -> HistoryDatabase:
        return HistoryDatabase.open(f"sqlite:///{path}")

    opened: tuple[tuple[str, Callable[[], HistoryDatabase]], ...] = (("works", work), ("hangs", hang))
    for state, database in opened:
        recorder = Recorder(database, timedelta(days=3650), limits=RecorderLimits(interval=0.01))
        recorder.resume()
        micros = call_micros(recorder)
        cuts = statistics.quantiles(micros, n=100)
        print(
            f"database {state}: {statistics.median(micros):.2f} µs a record, p99 {cuts[98]:.1f}, most {max(micros):.0f}"
        )
        release.set()
        recorder.stop(60)


def batches(records: Iterable[Launch]) -> Iterator[list[Launch]]:
    iterator = iter(records)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def measure_database(url: str, count: int) -> None:
    database = HistoryDatabase.open(url)
    began = time.perf_counter()
    for batch in batches(launches(count)):
        database.add(batch)
    took = time.perf_counter() - began
    print(f"written: {count:,} launches in {took:.1f} s, {count / took:,.0f} a second")
    end = BEGIN + timedelta(days=DAYS)
    began = time.perf_counter()
    counts = database.arrivals(BEGIN, end)
    print(f"arrivals of {DAYS} days: {len(counts):,} counts in {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    counts = database.arrivals(end - timedelta(days=1), end)
    print(f"arrivals of the last day: {len(counts):,} counts in {time.perf_counter() - began:.3f} s")
    began = time.perf_counter()
    read = sum(1 for _ in database.launches())
    print(f"read: {read:,} launches in {time.perf_counter() - began:.1f} s")
    database.close()


def main() -> None:
    parser = options_parser(__doc__, launches=720_000)
    parser.add_argument("--url", default="", help="an empty database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure_calls(Path(directory) / "calls.sqlite")
        path = Path(directory) / "history.sqlite"
        measure_database(options.url or f"sqlite:///{path}", options.launches)
        if path.exists():
            print(f"file: {path.stat().st_size / 2**20:,.0f} MiB")


if __name__ == "__main__":
    main()

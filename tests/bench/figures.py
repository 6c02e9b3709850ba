"""What benchmarks share: numbers as options, and times, ratios of rounds, memory and progress as text."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Progress", "options_parser", "peak_megabytes", "quantile", "ratios", "resident_megabytes", "timed", "times"]


def options_parser(description: str | None, **numbers: float) -> argparse.ArgumentParser:
    """A parser with these numbers as options, and their defaults in the help."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help="%(default)s")
    return parser


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values is."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def times(seconds: Sequence[float], unit: str = "ms") -> str:
    """Median, 99th percentile and maximum, in milliseconds or seconds."""
    scale = 1000 if unit == "ms" else 1
    shown = {"p50": statistics.median(seconds), "p99": quantile(seconds, 0.99), "max": max(seconds)}
    return "  ".join(f"{name} {each * scale:7.2f} {unit}" for name, each in shown.items())


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Ratio of each pair of rounds, as rounds differ more than values within one: median, smallest and largest."""
    found = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    return f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f} in {len(found)} rounds)"


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Add the processor time of the block."""
    began = time.process_time()
    yield
    into.append(time.process_time() - began)


def resident_megabytes() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Progress:
    """Prints what happens, with the time since it began, beside the output."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"  {self._of}: {text} ({time.monotonic() - self._began:.0f} s)", file=sys.stderr, flush=True)

"""Answers of each release's allocator to the same scenarios, recorded: eight hexadecimal digits of each answer's hash.

``python -m tests.oracle --record`` writes them anew, with the allocators themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from dra_spawner.dra.scheduler_rules import Release
from tests.oracle.comparison import comparable
from tests.oracle.release_scenarios import as_of
from tests.oracle.scenarios import scenarios

__all__ = ["RECORDED", "fingerprint", "read_record", "record_path", "recorded_scenarios", "write_record"]

Json = dict[str, Any]

#: Number of scenarios of each release.
RECORDED: Final = 1_000
_SEED: Final = 9
_DIGITS: Final = 8
_LINE: Final = 12


def recorded_scenarios(release: Release) -> Iterator[Json]:
    """The scenarios whose answers are recorded; the same for all releases, but for what a release makes of them."""
    for scenario in scenarios(RECORDED, _SEED):
        yield as_of(scenario, release)


def fingerprint(verdicts: Iterable[Json]) -> str:
    """What is recorded of the verdicts on one scenario's nodes; ours and theirs have the same where they agree."""
    text = json.dumps([comparable(each) for each in verdicts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def record_path(release: Release) -> Path:
    return Path(__file__).parent / "recorded" / f"{release[0]}.{release[1]}.txt"


def read_record(release: Release) -> tuple[str, list[str]]:
    """The version of the allocator, and the fingerprint of each scenario's answer."""
    version, _, lines = record_path(release).read_text().partition("\n")
    return version, lines.split()


def write_record(release: Release, version: str, found: list[str]) -> None:
    lines = [" ".join(found[start : start + _LINE]) for start in range(0, len(found), _LINE)]
    record_path(release).parent.mkdir(exist_ok=True)
    record_path(release).write_text("\n".join([version, *lines]) + "\n")

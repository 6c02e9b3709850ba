"""kube-scheduler's own trackers of DeviceTaintRules, by release: ``python -m tests.oracle.trackers`` records answers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.cluster.harness_binary import built_once, cache_directory, run_go
from tests.oracle.taint_states import State, Taints, digest, states

__all__ = ["RELEASES", "tracked"]

MODULE: Final = Path(__file__).parent / "tracker"
_FLAGS: Final[Mapping[str, Sequence[str]]] = {
    "1.36": (),
    "1.37": ("-modfile=go1.37.mod", "-tags=release_1_37"),
}
RELEASES: Final[Mapping[str, SchedulerRules]] = {"1.36": RULES[1, 36], "1.37": RULES[1, 37]}
"""How the simulator decides as each release."""


def _binary(release: str) -> Path:
    sources = hashlib.sha256()
    for path in sorted(MODULE.iterdir()):
        sources.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    binary = cache_directory() / f"tracker-oracle-{release}-{sources.hexdigest()[:16]}"
    arguments = ("build", "-trimpath", "-ldflags", "-s -w", *_FLAGS[release])
    return built_once(
        binary, lambda unfinished: run_go(MODULE, *arguments, "-o", unfinished, "."), f"the tracker of {release}"
    )


def tracked(release: str, asked: Iterable[State]) -> list[Taints]:
    """The taints of devices in each state, as the tracker of a release has them; built if need be (three minutes).

    Raises
    ------
    BinaryUnavailable
        If there is neither a binary built earlier nor Go.
    """
    text = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run([_binary(release)], input=text, capture_output=True, text=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    """Print the digests of a thousand states, a column for each release: ``tests/dra/model/taint_rules.txt``."""
    asked = list(states(1_000, seed=1))
    columns = [[digest(each) for each in tracked(release, asked)] for release in RELEASES]
    sys.stdout.writelines(" ".join(line) + "\n" for line in zip(*columns, strict=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

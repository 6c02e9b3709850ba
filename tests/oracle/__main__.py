"""Compares the Python allocator with a kube-scheduler's own on random scenarios."""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from functools import partial
from random import SystemRandom
from typing import Any

from dra_spawner.dra.scheduler_rules import RULES
from tests.oracle.binary import RELEASES, ask, oracle_binary
from tests.oracle.comparison import compared
from tests.oracle.recorded import fingerprint, recorded_scenarios, write_record
from tests.oracle.release_scenarios import as_of
from tests.oracle.scenarios import FAMILIES, scenarios

_RELEASES = {".".join(map(str, release)): release for release in RELEASES}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="scenarios to compare (default: %(default)s)")
    parser.add_argument("--release", choices=sorted(_RELEASES), default=max(_RELEASES), help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="other seed, other scenarios (default: a random one)")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="", help="only this kind of scenario")
    parser.add_argument("--show", type=int, default=5, help="differences to print (default: %(default)s)")
    parser.add_argument("--write", metavar="FILE", help="write the scenarios that differ to this file, one a line")
    parser.add_argument("--record", action="store_true", help="write tests/oracle/recorded anew, of all releases")
    options = parser.parse_args()
    if options.record:
        return _record()

    release = _RELEASES[options.release]
    rules, binary = RULES[release], oracle_binary(release)
    seed = options.seed if options.seed is not None else SystemRandom().randrange(10**6)
    began = time.monotonic()
    different: collections.Counter[str] = collections.Counter()
    outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
    written: list[Any] = []
    random = 0
    total = 0
    asked = (as_of(each, release) for each in scenarios(options.count, seed, options.family))
    for scenario, answer in ask(binary, asked):
        family = scenario["name"].rpartition("-")[0]
        total += 1
        outcomes.update((family, verdict["outcome"]) for verdict in answer["verdicts"])
        found = compared(scenario, answer, rules, partial(ask, binary))
        if found.is_random:
            print(scenario["name"], "the Go allocator is not deterministic here", *found.differences, sep="\n  ")
            random += 1
        elif found.differences:
            if different.total() < options.show:
                print(scenario["name"], *found.differences, sep="\n  ")
            different[family] += 1
            written.append(scenario)
    for family in sorted({family for family, _ in outcomes}):
        counts = ", ".join(f"{count} {name}" for (of, name), count in sorted(outcomes.items()) if of == family)
        print(f"{family:20} {different[family]:5} different; verdicts: {counts}")
    print(
        f"{options.release}, seed {seed}: {different.total()} of {total} scenarios differ, {time.monotonic() - began:.0f} s"
    )
    print(f"{random} have a random answer of the Go allocator")
    if options.write:
        with open(options.write, "w") as file:  # noqa: PTH123
            file.writelines(json.dumps(scenario) + "\n" for scenario in written)
    return 1 if different else 0


def _record() -> int:
    for release, version in RELEASES.items():
        answers = ask(oracle_binary(release), recorded_scenarios(release))
        write_record(release, version, [fingerprint(answer["verdicts"]) for _, answer in answers])
        print(f"recorded {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

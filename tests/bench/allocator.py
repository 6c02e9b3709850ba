"""Costs of the allocator, next to kube-scheduler's own: run ``python -m tests.bench.allocator``.

Both start from decoded objects on the same cluster: 5,000 nodes with eight devices each, 80 % of them in use. The Go
allocator (``k8s.io/dynamic-resource-allocation`` v0.36.3, built by ``tests.oracle``) is made anew for each attempt and
asked for one node after the other, as kube-scheduler's plugin does for one pod; ours is a `DeviceState` made anew and asked
for all nodes. *Cold* is all that ours does from the decoded objects to the devices that the claim gets on each node. It is
compared with Go's loop alone (the strict ratio: what Go spends on gathering the allocated state is given to it), and with
all of Go's work. Rounds of the two alternate, and each round is a pair of medians, so that other work on the machine
cancels out.

The placing tests put one claim after the other on the first node where it fits, and record it there. Each section runs in a
process of its own, whose largest resident memory is printed. Nothing is tuned for the measurement; the garbage
collector runs as it does by default.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import RULES
from dra_spawner.simulator.devices.device_state import DeviceState
from tests.bench.figures import peak_megabytes, ratios
from tests.bench.fleet import DEVICES_A_NODE, Fleet
from tests.oracle.binary import oracle_binary

Json = dict[str, Any]

NODES = 5_000
SECTIONS = ("whole-devices", "shares", "alike-nodes", "releases", "place-4000", "place-40000", "place-40000-mixed")


class GoAllocator:
    """The Go allocator, with the fleet decoded once a round."""

    def __init__(self, fleet: Fleet, attempts: int) -> None:
        self._line = json.dumps(fleet.scenario(attempts)) + "\n"

    def round(self) -> list[Json]:
        """Timings of the attempts of one round."""
        done = subprocess.run([oracle_binary()], input=self._line, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        return list(answer["timings"])


def compare(shared: bool, rounds: int, attempts: int) -> None:
    """One claim against all nodes, cold and repeated, ours and theirs."""
    fleet = Fleet(NODES, shared=shared, busy=0.8)
    go = GoAllocator(fleet, attempts)
    decoding = time.perf_counter()
    slices, classes, nodes = decoded(fleet)
    claims = [ResourceClaim.from_json(item) for item in fleet.existing]
    wanted = [ResourceClaim.from_json(fleet.claim())]
    others = [ResourceClaim.from_json(fleet.claim(f"other-{index}")) for index in range(attempts)]
    decoding = time.perf_counter() - decoding
    # Both have decoded objects to start from, and nothing else.
    del fleet

    gather, loop, intake, answer, naming, repeat, other = (Timings() for _ in range(7))
    pairs: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        theirs = go.round()
        gather.take(theirs, "gatherSeconds")
        loop.take(theirs, "loopSeconds")
        for attempt in range(attempts):
            with intake:
                state = DeviceState(slices, classes, nodes, claims)
            with answer:
                verdicts = state.verdicts(wanted, explain=False)
            with naming:
                fitting = sum(isinstance(verdicts.on(node.name), tuple) for node in nodes)
            with repeat:
                again = state.verdicts(wanted, explain=False)
                fitting_again = sum(again.fits(node.name) for node in nodes)
            with other:
                again = state.verdicts([others[attempt]], explain=False)
                fitting_again = sum(again.fits(node.name) for node in nodes)
            assert fitting == fitting_again == theirs[0]["fits"], (fitting, fitting_again, theirs[0]["fits"])
            kinds = len(verdicts)
            # Garbage of one attempt is not collected during the next one.
            del state, verdicts, again
        cold = sum_of(intake, answer, naming).median_of_last(attempts)
        both = sum_of(gather, loop).median_of_last(attempts)
        pairs.append((cold, loop.median_of_last(attempts), both))

    colds, loops, both_parts = zip(*pairs, strict=True)
    cold, cold_best = sum_of(intake, answer, naming).median, min(sum_of(intake, answer, naming).seconds)
    kind = "a share of 15Gi" if shared else "a whole device"
    print(f"one claim for {kind}, {NODES:,} nodes x {DEVICES_A_NODE} devices, {len(claims):,} claims allocated")
    print(
        f"  nodes where it fits {fitting:,}; kinds of nodes {kinds:,}; decoding the objects took {decoding:.1f} s before"
    )
    print(f"  COLD / Go's loop alone (strict)         {ratios(colds, loops)}   at most 3")
    print(f"    of each side's best attempt           {cold_best / min(loop.seconds):.2f}")
    print(f"  COLD / all of Go's work                 {ratios(colds, both_parts)}")
    print(f"  repeated / Go's loop alone              1/{loop.median / repeat.median:,.0f}   at most 1/50")
    print(f"  repeated for another claim like it      1/{loop.median / other.median:,.0f}   at most 1/50")
    print(f"  medians of {rounds * attempts} attempts")
    print(f"    Go: gathering the allocated state     {gather.median * 1e3:7.1f} ms")
    print(f"    Go: the loop                          {loop.median * 1e3:7.1f} ms")
    print(f"    ours: slices, nodes and claims        {intake.median * 1e3:7.1f} ms")
    print(f"    ours: verdict on every node           {answer.median * 1e3:7.1f} ms")
    print(f"    ours: each node's devices named       {naming.median * 1e3:7.1f} ms")
    print(f"    ours: cold, all of this               {cold * 1e3:7.1f} ms")
    print(f"    ours: repeated                        {repeat.median * 1e3:7.1f} ms")
    print(f"  largest resident memory {peak_megabytes():,.0f} MB")


def alike_nodes() -> None:
    """A question not asked before, on few and on many nodes of one kind."""
    print("a new question on idle nodes of one kind (median of 200)")
    medians = []
    for count in (50, NODES):
        state = DeviceState(*decoded(Fleet(count, shared=True)))
        fleet = Fleet(1, shared=True)
        questions = [ResourceClaim.from_json(fleet.claim(gibibytes=size)) for size in (5, 10, 15, 20, 25)]
        state.first_fitting_node([questions.pop()])
        timings = Timings()
        for index in range(200):
            claim = ResourceClaim.from_json(fleet.claim(gibibytes=30 + index))
            with timings:
                state.first_fitting_node([claim])
        medians.append(timings.median)
        print(f"  {count:5,} nodes: {timings.median * 1e6:6.0f} µs")
    print(f"  ratio {medians[1] / medians[0]:.2f}")


def releases(rounds: int) -> None:
    """One claim against all nodes, cold, by the rules of each release; rounds of the releases alternate."""
    print(f"a share on {NODES:,} nodes by the rules of each release (processor time, best of {rounds})")
    fleet = Fleet(NODES, shared=True, busy=0.8)
    slices, classes, nodes = decoded(fleet)
    existing = [ResourceClaim.from_json(item) for item in fleet.existing]
    claim = ResourceClaim.from_json(fleet.claim())
    best = dict.fromkeys(RULES, float("inf"))
    for _ in range(rounds):
        for release, rules in RULES.items():
            began = time.process_time()
            DeviceState(slices, classes, nodes, existing, rules).verdicts([claim])
            best[release] = min(best[release], time.process_time() - began)
    for release, seconds in best.items():
        print(f"  {'.'.join(map(str, release))}: {seconds * 1e3:5.0f} ms, {seconds / best[1, 36]:.2f} of 1.36")


def place(nodes: int, count: int, limit: str, mixed: bool) -> None:
    """One claim after the other, each on the first node where it fits."""
    for shared in (True,) if mixed else (False, True):
        fleet = Fleet(nodes, shared=shared)
        slices, classes, all_nodes = decoded(fleet)
        rng = random.Random(2)
        sizes = [rng.choice((5, 10, 15, 20, 40)) if mixed else 80 for _ in range(count)]
        claims = [ResourceClaim.from_json(fleet.claim(f"claim-{at}", size)) for at, size in enumerate(sizes)]
        del fleet
        placed = 0
        began = time.perf_counter()
        state = DeviceState(slices, classes, all_nodes)
        for claim in claims:
            if mixed and rng.random() < 0.3 and state.holders:
                # Now and then one is given back, so that nodes are not simply filled one after the other.
                given_back = f"claim-{rng.randrange(placed)}"
                if ("default", given_back) in state.holders:
                    state.release(("default", given_back))
            node = state.first_fitting_node([claim])
            if node is None:
                break
            allocation = state.allocate(node, [claim])
            assert isinstance(allocation, tuple)
            state.record((claim.namespace, claim.name), allocation[0].results)
            placed += 1
        seconds = time.perf_counter() - began
        kind = "shares of 5 to 40Gi" if mixed else "shares" if shared else "whole devices"
        print(f"placing {count:,} claims on {nodes:,} nodes x {DEVICES_A_NODE}, {kind}")
        print(f"  {seconds:.2f} s ({limit}), {seconds / count * 1e6:.0f} µs a claim, {placed:,} placed")
    print(f"  largest resident memory {peak_megabytes():,.0f} MB")


class Timings:
    """Seconds of each block that was run in this context."""

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self.seconds = list(seconds)
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds.append(time.perf_counter() - self._began)

    def take(self, measured: list[Json], key: str) -> None:
        """Timings that Go made."""
        self.seconds += [item[key] for item in measured]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def median_of_last(self, count: int) -> float:
        return statistics.median(self.seconds[-count:])


def sum_of(*parts: Timings) -> Timings:
    """Of the parts of each attempt together."""
    return Timings(map(sum, zip(*(part.seconds for part in parts), strict=True)))


def decoded(fleet: Fleet) -> tuple[list[ResourceSlice], list[DeviceClass], list[Node]]:
    return (
        [ResourceSlice.from_json(item) for item in fleet.slices],
        [DeviceClass.from_json(item) for item in fleet.classes],
        [Node.from_json(item) for item in fleet.nodes],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.allocator", description=__doc__.partition("\n")[0])
    parser.add_argument("section", nargs="?", choices=SECTIONS, help="only this one")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of both allocators (%(default)s)")
    parser.add_argument("--attempts", type=int, default=3, help="attempts in each round (%(default)s)")
    options = parser.parse_args()
    if options.section is None:
        sizes = [f"--rounds={options.rounds}", f"--attempts={options.attempts}"]
        for section in SECTIONS:
            subprocess.run([sys.executable, "-m", "tests.bench.allocator", section, *sizes], check=True)
        return 0
    sections: dict[str, Callable[[], None]] = {
        "whole-devices": lambda: compare(False, options.rounds, options.attempts),
        "shares": lambda: compare(True, options.rounds, options.attempts),
        "alike-nodes": alike_nodes,
        "releases": lambda: releases(options.rounds),
        "place-4000": lambda: place(500, 4_000, "limit 1 s", mixed=False),
        "place-40000": lambda: place(NODES, 40_000, "limit 15 s", mixed=False),
        "place-40000-mixed": lambda: place(NODES, 40_000, "limit 15 s", mixed=True),
    }
    sections[options.section]()
    return 0


if __name__ == "__main__":
    sys.exit(main())

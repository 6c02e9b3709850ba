"""How long it takes from a pod's creation to its node: plain pods, handovers, claims from templates, preemptions.

Run ``python -m tests.bench.handover``. A real control plane with fake nodes and the client limits that Kubernetes gives the
scheduler and the controller manager by default (50 and 20 requests a second; bursts of 100 and 30), to which most of the
figures for many pods at once are due. All kinds of start are measured in the same run, in turn, and compared with one
another, many at once in several rounds.

The service hands placeholders over and creates new ones: a reservation is requested, then a pod that names the claim is
created; the time begins with its creation. "Beside" means that the pod fits beside its
placeholder, "full" that it does not. By hand is the least that a handover can be: a pod names an allocated claim, and
only the scheduler is involved. Aims: one by one at most 1.5 times a plain pod, 30 at once at most 2.5 times,
100 at once at most 0.6 times the template path, 95 of 100 preemptions within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.api_requests import AuditedControlPlane, breakdown
from tests.bench.figures import options_parser, quantile, ratios
from tests.bench.handover_cluster import BESIDE, FULL, ROOMY, Bench, Start, running
from tests.cluster.harness_binary import control_plane_binary

KINDS = ("plain", "by hand", "beside", "full", "template")


def ways(bench: Bench) -> dict[str, Callable[[], Awaitable[Start]]]:
    """How a start of each kind is prepared."""
    return {
        "plain": bench.plain,
        "by hand": bench.by_hand,
        "beside": lambda: bench.handover(BESIDE),
        "full": lambda: bench.handover(FULL),
        "template": bench.template,
    }


async def one_by_one(bench: Bench, times: int) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Each kind of start in turn, so that whatever else the machine does meets all of them alike; seconds, and pods."""
    found: dict[str, list[float]] = defaultdict(list)
    pods: dict[str, list[str]] = defaultdict(list)
    for wanted in (BESIDE, FULL):
        await bench.scale(wanted, 5)
    for number in range(times):
        for kind, prepare in ways(bench).items():
            start = await prepare()
            bench.reconciler.wake()
            if not bench.refills:
                await asyncio.sleep(0.3)  # the scheduler's limit of requests is not to be met
            found[kind].append(await bench.run(start))
            pods[kind].append(start.name)
            await asyncio.sleep(0.3)
        if number % 10 == 9:
            await bench.clear()
            for wanted in (BESIDE, FULL):
                await bench.scale(wanted, 5)
    await bench.clear()
    return found, pods


async def at_once(bench: Bench, count: int, rounds: int) -> dict[str, list[float]]:
    """Seconds from the first pod's creation until the last of so many has its node, round by round."""
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        for kind, prepare in ways(bench).items():
            if kind == "by hand":
                continue
            for wanted, name in ((BESIDE, "beside"), (FULL, "full")):
                await bench.scale(wanted, count if name == kind else 0)
            # The limits of clients are buckets: all kinds begin with full ones, when earlier objects are gone.
            await bench.until(lambda: not bench.left_over(), "no claims left over")
            await asyncio.sleep(5)
            starts = await asyncio.gather(*(prepare() for _ in range(count)))
            began = time.perf_counter()
            await asyncio.gather(*(bench.run(start) for start in starts))
            found[kind].append(time.perf_counter() - began)
            print(f"round {number + 1}: {count} at once, {kind}: {found[kind][-1]:.2f} s", flush=True)
            await bench.clear()
    for wanted in (BESIDE, FULL):
        await bench.scale(wanted, 0)
    return found


async def preemptions(bench: Bench, times: int, gpus: int) -> list[float]:
    """A placeholder uses every GPU; users come without a reservation, with pods of another shape."""
    bench.refills = False
    await bench.scale(BESIDE, gpus)
    found = []
    for _ in range(times):
        found.append(await bench.run(await bench.template("2")))
        await asyncio.sleep(0.2)
    await bench.clear()
    await bench.scale(BESIDE, 0)
    return found


async def measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="handover-") as directory:
        gates = {"NominatedNodeNameForExpectation": False} if options.without_nomination else None
        plane = AuditedControlPlane(
            control_plane_binary(print), Path(directory), client_qps=options.qps, feature_gates=gates
        )
        with plane:
            async with running(plane, options.nodes, options.full_nodes, refills=not options.no_refill) as bench:
                single, pods = await one_by_one(bench, options.times)
                reserved = bench.reserved
                report_one_by_one(single, reserved)
                for kind, names in pods.items():
                    print(kind, *breakdown(plane.audit_log, names), sep="\n  ", flush=True)
                for count in options.at_once:
                    report_at_once(count, await at_once(bench, count, options.rounds))
                if options.preemptions:
                    report_preemptions(await preemptions(bench, options.preemptions, options.nodes * ROOMY.gpus))
                print(f"refused by the API server: {bench.failures() or 'nothing'}")
    limits = f"{options.qps} requests a second" if options.qps else "Kubernetes' defaults"
    print(f"client limits of scheduler and controllers: {limits}; load of the machine: {os.getloadavg()[0]:.1f}")


def report_one_by_one(single: Mapping[str, Sequence[float]], reserved: Sequence[float]) -> None:
    plain, floor = (statistics.median(single[kind]) for kind in ("plain", "by hand"))
    for name, values in single.items():
        median, p95 = statistics.median(values), quantile(values, 0.95)
        print(f"one by one  {name:9} median {median * 1000:7.1f} ms  p95 {p95 * 1000:7.1f} ms  {median / plain:5.2f} x plain  "
              f"{median / floor:5.2f} x by hand", flush=True)  # fmt: skip
    median = statistics.median(reserved)
    print(f"one by one  promise   median {median * 1000:7.1f} ms  (asked for before the pod is made)")


def report_at_once(count: int, found: Mapping[str, Sequence[float]]) -> None:
    for name, values in found.items():
        print(f"{count:4} at once {name:9} median {statistics.median(values):6.2f} s  "
              f"{ratios(values, found['plain'])} x plain  {ratios(values, found['template'])} x template",
              flush=True)  # fmt: skip


def report_preemptions(found: Sequence[float]) -> None:
    print(f"preemption: {len(found)} times, median {statistics.median(found):.2f} s, p95 {quantile(found, 0.95):.2f} s")


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=60, help="with 4 GPUs and room beside placeholders")
    parser.add_argument("--full-nodes", type=int, default=130, help="that one placeholder fills")
    parser.add_argument("--times", type=int, default=30, help="of each kind, one by one")
    parser.add_argument("--at-once", type=int, nargs="*", default=[30, 100])
    parser.add_argument("--rounds", type=int, default=3, help="of all kinds, many at once")
    parser.add_argument("--preemptions", type=int, default=20)
    parser.add_argument("--no-refill", action="store_true", help="make no placeholders for those that were handed over")
    parser.add_argument("--qps", type=int, help="client limit of scheduler and controllers; Kubernetes' own by default")
    parser.add_argument("--without-nomination", action="store_true",
                        help="a scheduler that does not write where a pod is about to go, as until Kubernetes 1.34")  # fmt: skip
    asyncio.run(measure(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

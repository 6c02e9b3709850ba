"""The thought experiment of zero-to-jupyterhub#1414 over simulated days: this project's placeholders against the chart's recipe.

Run ``python -m tests.bench.thought_experiment``. Ten slots a node, five placeholders, five minutes from a node's order
to the node, three more to the image; users come and go from seven in the morning on. An autoscaler stand-in does what
cluster-autoscaler does (`tests.placeholders.planner.autoscaler`). Each day is lived twice, by either system, once without devices and once
with shares of GPUs.

The control plane is real, its nodes are not. Time jumps ahead while nothing happens and goes at its own speed otherwise, so what
controllers and schedulers take counts for what it is. Ours is the service's own reconciler, asked for placements as the
spawner does; the recipe is a StatefulSet of pods with a lower priority and a second scheduler, configured as the chart
configures it. With ``--virtual`` there is only the simulator's model of kube-scheduler, and more days in less time.

``wait: node`` are users who had no node after five seconds, ``wait: image`` those whose node had not pulled the image,
``blocked`` those for whom a ready node fitted without placeholders. Aims: no user on a node without the image, none
blocked, waits at p95 a tenth at most, no more node-hours.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench.figures import Progress, options_parser
from tests.cluster.control_plane import ControlPlane
from tests.cluster.harness_binary import control_plane_binary
from tests.placeholders.planner.day import COLUMNS, CPU_NODES, GPU_NODES, SHARE, Outcome, both, first_moment, sessions
from tests.placeholders.planner.objects import share_claim
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.cluster_day import ClusterDay
from tests.virtual_time.systems import SCHEDULER_PROFILES, System, at_work

_NAMESPACE = "default"


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--virtual", action="store_true", help="the simulator instead of a control plane")
    parser.add_argument("--days", type=int, help="8 with --virtual, else 1")
    parser.add_argument("--users", type=int, default=150, help="a day")
    parser.add_argument("--shares", action=argparse.BooleanOptionalAction, help="only with, or without, shares of GPUs")
    options = parser.parse_args()
    days = options.days or (8 if options.virtual else 1)
    live = both if options.virtual else _both_on_control_planes
    for shares in (False, True) if options.shares is None else (options.shares,):
        print("With shares of GPUs" if shares else "Without devices")
        print(_line("", COLUMNS))
        found: dict[str, list[Outcome]] = {}
        for seed in range(1, days + 1):
            for name, outcome in live(shares, options.users, seed):
                found.setdefault(name, []).append(outcome)
                print(_line(f"day {seed}, {name}", outcome.row()), flush=True)
        for name, outcomes in found.items():
            print(_line(f"all days, {name}", _together(outcomes)))
        print(_ratios(found["ours"], found["recipe"]), flush=True)
    return 0


def _both_on_control_planes(shares: bool, users: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """The same day with either system, each on a control plane of its own: nodes have no namespace."""
    for system in System:
        yield system.value, asyncio.run(_day(system, shares, users, seed))


async def _day(system: System, shares: bool, users: int, seed: int) -> Outcome:
    binary = control_plane_binary(partial(print, file=sys.stderr))
    clock = JumpingClock(first_moment())
    claims = {"gpu": share_claim(SHARE)} if shares else {}
    with tempfile.TemporaryDirectory() as directory:
        plane = ControlPlane(binary, Path(directory) / "plane", scheduler_profiles=SCHEDULER_PROFILES)
        with plane:
            async with at_work(system, plane.admin_kubeconfig, _NAMESPACE, clock, claims) as world:
                report = Progress(f"day {seed}, {system}")
                day = ClusterDay(world, GPU_NODES if shares else CPU_NODES, sessions(users, seed), report)
                outcome = await day.run()
                report(f"done; scheduled late: {world.quiet.overdue or 'none'}")
                return outcome


def _together(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        *(str(sum(len(getattr(each, name)) for each in outcomes)) for name in ("for_node", "for_image", "blocked")),
        *(f"{_wait(outcomes, percent):.2f}" for percent in (50, 95)),
        f"{max(max(each.waits.values()) for each in outcomes):.0f}",
        f"{_node_hours(outcomes):.1f}",
        str(max(each.max_nodes for each in outcomes)),
        *(str(sum(getattr(each, name) for each in outcomes)) for name in ("left_over", "evictions")),
    ]


def _ratios(ours: Sequence[Outcome], recipe: Sequence[Outcome]) -> str:
    """Of the figures that the aims are about; the mean tells more where fewer than one in twenty waits in either."""
    ratios = {
        "p95": _wait(ours, 95) / _wait(recipe, 95),
        "mean wait": statistics.fmean(_waits(ours)) / statistics.fmean(_waits(recipe)),
        "node-hours": _node_hours(ours) / _node_hours(recipe),
    }
    return f"ours/recipe: {', '.join(f'{name} {ratio:.3f}' for name, ratio in ratios.items())}\n"


def _waits(outcomes: Sequence[Outcome]) -> list[float]:
    return [wait for outcome in outcomes for wait in outcome.waits.values()]


def _wait(outcomes: Sequence[Outcome], percent: int) -> float:
    return statistics.quantiles(_waits(outcomes), n=100, method="inclusive")[percent - 1]


def _node_hours(outcomes: Sequence[Outcome]) -> float:
    return sum(each.node_hours for each in outcomes)


def _line(label: str, cells: Sequence[str]) -> str:
    return f"{label:18}" + "".join(f"{cell:>13}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())

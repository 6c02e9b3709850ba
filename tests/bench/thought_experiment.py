"""The thought experiment of zero-to-jupyterhub#1414 over simulated days: this project's placeholders against the chart's recipe.

Run ``python -m tests.bench.thought_experiment``. Ten seats a node, five placeholders, five minutes from the order of a node to
the node, three more to the image; users come and go from seven in the morning on. An autoscaler stand-in does what
cluster-autoscaler does (`tests.headroom.autoscaler`). Each day is lived twice, by either system, once without devices and once
with shares of GPUs, in virtual time: the scheduler is the simulator's model of kube-scheduler, with its scores and
its preemption, which takes no devices back.

``wait: node`` are users who had no node after five seconds, ``wait: image`` those whose node had not pulled the image,
``blocked`` those for whom a ready node had room but for placeholders. Aims: no user on a node without the image, none blocked,
waits at p95 a tenth at most, no more node-hours.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from tests.headroom.day import COLUMNS, Outcome, both


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--users", type=int, default=150, help="a day")
    options = parser.parse_args()
    for shares in (False, True):
        print("With shares of GPUs" if shares else "Without devices")
        print(_line("", COLUMNS))
        found: dict[str, list[Outcome]] = {}
        for seed in range(1, options.days + 1):
            for name, outcome in both(shares, options.users, seed):
                found.setdefault(name, []).append(outcome)
                print(_line(f"day {seed}, {name}", outcome.row()), flush=True)
        for name, outcomes in found.items():
            print(_line(f"all days, {name}", _together(outcomes)))
    return 0


def _together(outcomes: Sequence[Outcome]) -> list[str]:
    waits = sorted(wait for outcome in outcomes for wait in outcome.waits.values())
    percentiles = statistics.quantiles(waits, n=100, method="inclusive")
    return [
        *(str(sum(len(getattr(each, name)) for each in outcomes)) for name in ("for_node", "for_image", "blocked")),
        *(f"{percentiles[percent - 1]:.2f}" for percent in (50, 95)),
        f"{waits[-1]:.0f}",
        f"{sum(each.node_hours for each in outcomes):.1f}",
        str(max(each.most_nodes for each in outcomes)),
        *(str(sum(getattr(each, name) for each in outcomes)) for name in ("left_over", "evictions")),
    ]


def _line(label: str, cells: Sequence[str]) -> str:
    return f"{label:18}" + "".join(f"{cell:>13}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())

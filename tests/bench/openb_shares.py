"""Shares of GPUs of a real cluster, packed by the simulator: how many devices they need.

Run ``python -m tests.bench.openb_shares``. It needs ``openb-pods.csv.gz`` and ``openb-gpu-nodes.csv.gz`` (Alibaba's cluster trace of
2023) in `../shared/data`, or ``--data DIRECTORY``; without, it says so and stops.

All tasks with a share of one GPU come one after the other, in the order of their creation, and none leaves. Ours: the simulator, which
allocates as kube-scheduler does, on the busiest node with capacity (with the largest used part of its devices, as
placements and preferences choose it). Best fit: the fullest device with capacity, as an exact model with no nodes
and no CPU; first fit the same with the first device. The bound is the sum of the shares, which no packing can be below, as 810
and 470 thousandths do not share a device. The trace has no column that says on which device or node a task ran, so its own placement
cannot be counted.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.bench.figures import options_parser
from tests.bench.fleet import DRIVER, device_class

DATA = Path(__file__).parents[3] / "shared" / "data"
WHOLE = 1000
Json = dict[str, Any]
_API = "resource.k8s.io/v1"


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tasks", type=int, default=10_000, help="only the first of 3,078")
    options = parser.parse_args()
    files = [options.data / name for name in ("openb-pods.csv.gz", "openb-gpu-nodes.csv.gz")]
    for file in files:
        if not file.exists():
            print(f"{file} is absent, and nothing is measured without it", file=sys.stderr)
            return 2
    tasks = [row for row in _rows(files[0]) if row["num_gpu"] == "1" and int(row["gpu_milli"]) < WHOLE]
    tasks = sorted(tasks, key=lambda row: float(row["creation_time"]))[: options.tasks]
    shares = [int(row["gpu_milli"]) for row in tasks]
    began = time.process_time()
    ours, refused = packed(tasks, list(_rows(files[1])))
    seconds = time.process_time() - began
    print(f"{len(shares):,} shares, {sum(shares) / WHOLE:,.0f} devices in sum")
    print(f"  bound                        {-(-sum(shares) // WHOLE):6,}")
    print(f"  best fit, no nodes           {best_fit(shares):6,}")
    print(f"  first fit, no nodes          {first_fit(shares):6,}")
    print(f"  ours, on the trace's nodes   {ours:6,}   ({refused} fit nowhere; {seconds:.0f} s)")
    return 0


def best_fit(shares: Iterable[int]) -> int:
    """Number of devices, if each share goes to the fullest one with capacity."""
    free: list[int] = []  # free capacity of devices in use, ascending
    for share in shares:
        at = bisect_left(free, share)
        insort(free, (free.pop(at) if at < len(free) else WHOLE) - share)
    return len(free)


def first_fit(shares: Iterable[int]) -> int:
    """Number of devices, if each share goes to the first one with capacity."""
    free: list[int] = []
    for share in shares:
        at = next((index for index, capacity in enumerate(free) if capacity >= share), None)
        if at is None:
            free.append(WHOLE - share)
        else:
            free[at] -= share
    return len(free)


def packed(tasks: Sequence[dict[str, str]], nodes: Sequence[dict[str, str]]) -> tuple[int, int]:
    """Devices that the simulator uses, and tasks that fit nowhere."""
    devices = {row["sn"]: int(row["gpu"]) for row in nodes}
    snapshot = Snapshot.from_objects([device_class(), *(each for row in nodes for each in _node(row))])
    used: Counter[str] = Counter()
    refused = 0

    def busiest_first(names: Iterable[str]) -> Iterable[str]:
        return sorted(names, key=lambda name: (-used[name] / devices[name], name))

    for row in tasks:
        claim, pod = _task(row)
        snapshot.apply(claim)
        candidate = Pod.from_json(pod)
        name = snapshot.first_fitting(candidate, busiest_first)
        if not name or not snapshot.schedule(candidate, name).fits:
            refused += 1
            continue
        used[name] += int(row["gpu_milli"])
    taken = {device.id for tracked in snapshot.claims.values() for device in tracked.claim.status.devices or ()}
    return len(taken), refused


def _rows(file: Path) -> Iterable[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)


def _node(row: dict[str, str]) -> Iterable[Json]:
    name = row["sn"]
    capacity = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": capacity, "capacity": capacity},
    }
    devices = [
        {"name": f"gpu-{index}", "allowMultipleAllocations": True, "capacity": {"thousandths": {"value": str(WHOLE)}}}
        for index in range(int(row["gpu"]))
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    yield {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpu"}, "spec": spec}


def _task(row: dict[str, str]) -> tuple[Json, Json]:
    metadata = {"name": row["name"], "namespace": "default", "uid": row["name"]}
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {"thousandths": row["gpu_milli"]}}}
    claim = {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    container = {"name": "task", "image": "task", "resources": {"requests": requests, "claims": [{"name": "gpu"}]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": row["name"]}],
        },
    }
    return claim, pod


if __name__ == "__main__":
    sys.exit(main())

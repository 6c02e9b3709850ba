"""Devices that are packed, beside devices as kube-scheduler gives them: how many are needed, and what fails when few are left.

Run ``python -m tests.bench.packing``. Tasks and nodes are Alibaba's cluster trace of 2023 (``openb-pods.csv.gz`` and
``openb-gpu-nodes.csv.gz`` in `../shared/data`, or ``--data DIRECTORY``); without these files tasks and nodes are drawn from the
figures that were published with it. Each task is a server: the service's own decision finds its node and its preferred devices
(`find_placement`), and the simulator gives the devices as kube-scheduler does. Both columns are of one run.

* Shares: all tasks with a part of one GPU come one after the other, and none leaves. No packing can need fewer devices than the sum
  of the shares, nor fewer than the shares above a half with half of those that fit beside none of them.
* Nearly full: tasks come in random order until so much of all GPUs is taken, then each comes as others leave. What fails of the
  requests for whole GPUs is counted.
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dra_spawner import names
from dra_spawner.dra.preferences import with_preferences
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.bench.figures import options_parser, times
from tests.bench.fleet import DRIVER, device_class
from tests.placeholders.planner.objects import NAMESPACE, user_manifest, user_shape

DATA = Path(__file__).parents[3] / "shared" / "data"
WHOLE = 1000
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
Json = dict[str, Any]

#: Parts of a GPU in thousandths, whole GPUs, and how often each is asked for; GPUs of a node, and how many nodes have so many.
PARTS = {
    810: 1078,
    470: 750,
    320: 328,
    650: 253,
    230: 140,
    460: 128,
    590: 75,
    160: 74,
    550: 72,
    220: 62,
    370: 47,
    110: 24,
}
COUNTS = {1: 3911, 2: 30, 4: 15, 8: 30}
NODES = {(2, 96): 387, (2, 64): 131, (4, 96): 54, (8, 96): 549, (8, 128): 68, (1, 96): 24}


@dataclass(frozen=True)
class Task:
    """CPU in thousandths, memory in MiB; parts of one GPU in thousandths, or a number of whole ones."""

    cpu: int
    memory: int
    gpus: int
    part: int

    @property
    def amount(self) -> int:
        return self.gpus * self.part


@dataclass(frozen=True)
class GpuNode:
    name: str
    cpu: int
    memory: int
    gpus: int


def main() -> int:
    parser = options_parser(__doc__, seed=1)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tasks", type=int, default=10_000, help="only the first tasks with a part of a GPU")
    parser.add_argument(
        "--every", type=int, default=5, help="each so many-th node is in the cluster that is nearly full"
    )
    parser.add_argument("--level", type=float, default=0.9, help="how much of all GPUs is taken")
    parser.add_argument("--steps", type=int, default=2000, help="tasks that come while it is nearly full")
    parser.add_argument("--rounds", type=int, default=3, help="orders of tasks")
    options = parser.parse_args()
    tasks, nodes, source = trace(options.data, options.seed)
    shares = [each for each in tasks if each.part < WHOLE][: options.tasks]
    print(f"{source}: {len(shares):,} shares on {sum(each.gpus for each in nodes):,} GPUs of {len(nodes):,} nodes")
    print(f"  sum of the shares           {-(-sum(each.part for each in shares) // WHOLE):6,}")
    print(f"  fewest that is possible     {least(shares):6,} or more")
    print(f"  best fit, without nodes     {best_fit(shares):6,}")
    for name, packs in (("as the scheduler gives", False), ("packed", True)):
        cluster = Cluster(nodes, packs)
        refused = sum(not cluster.start(each) for each in shares)
        print(f"  {name:27} {cluster.used():6,}   ({refused} fit nowhere; a placement takes {times(cluster.seconds)})")
    few = nodes[:: options.every]
    print(
        f"{options.level:.0%} of {sum(each.gpus for each in few):,} GPUs of {len(few)} nodes taken, {options.rounds} orders"
    )
    for name, packs in (("as the scheduler gives", False), ("packed", True)):
        found = Counter[str]()
        for number in range(options.rounds):
            found += nearly_full(Cluster(few, packs), tasks, options.level, options.steps, options.seed + number)
        print(
            f"  {name:27} {found['failed whole']:4} of {found['whole']:,} requests for whole GPUs fail, "
            f"{found['failed part']} of {found['part']:,} for parts"
        )
    return 0


def trace(data: Path, seed: int) -> tuple[list[Task], list[GpuNode], str]:
    """Tasks with GPUs in the order of their creation, the nodes, and where both are from."""
    pods, nodes = data / "openb-pods.csv.gz", data / "openb-gpu-nodes.csv.gz"
    if not (pods.exists() and nodes.exists()):
        return *generated(seed), "drawn from published figures"
    rows = sorted((row for row in _rows(pods) if row["num_gpu"] != "0"), key=lambda row: float(row["creation_time"]))
    tasks = [
        Task(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"])) for row in rows
    ]
    found = [GpuNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"])) for row in _rows(nodes)]
    return tasks, found, "Alibaba's trace of 2023"


def generated(seed: int) -> tuple[list[Task], list[GpuNode]]:
    """Tasks and nodes of the published kinds, in random order."""
    chance = random.Random(seed)
    kinds = [(1, part, number) for part, number in PARTS.items()] + [
        (gpus, WHOLE, number) for gpus, number in COUNTS.items()
    ]
    tasks = []
    for gpus, part, number in kinds:
        for _ in range(number):
            cpu = round(gpus * part * chance.uniform(4, 16))
            tasks.append(Task(cpu, round(cpu * chance.uniform(2, 6)), gpus, part))
    chance.shuffle(tasks)
    nodes = [(gpus, cpu) for (gpus, cpu), number in NODES.items() for _ in range(number)]
    chance.shuffle(nodes)
    return tasks, [GpuNode(f"node-{place:04}", cpu * 1000, cpu * 4096, gpus) for place, (gpus, cpu) in enumerate(nodes)]


def least(shares: Sequence[Task]) -> int:
    """Devices that no packing can be below."""
    large = [each.part for each in shares if 2 * each.part > WHOLE]
    free_part = WHOLE - min(large, default=WHOLE)
    middle = sum(1 for each in shares if free_part < each.part and 3 * each.part > WHOLE and 2 * each.part <= WHOLE)
    return max(-(-sum(each.part for each in shares) // WHOLE), len(large) + -(-middle // 2))


def best_fit(shares: Iterable[Task]) -> int:
    """Devices, if each share goes to the fullest one with capacity, on whatever node that is."""
    free: list[int] = []  # free capacity of devices in use, ascending
    for each in shares:
        at = bisect_left(free, each.part)
        insort(free, (free.pop(at) if at < len(free) else WHOLE) - each.part)
    return len(free)


def nearly_full(cluster: Cluster, tasks: Sequence[Task], level: float, steps: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    while cluster.taken < level * cluster.total:
        cluster.start(chance.choice(tasks))
    found = Counter[str]()
    for _ in range(steps):
        task = chance.choice(tasks)
        while cluster.taken + task.amount > level * cluster.total:
            cluster.end(chance.randrange(len(cluster.running)))
        kind = "whole" if task.part == WHOLE else "part"
        found[kind] += 1
        found[f"failed {kind}"] += not cluster.start(task)
    return found


@dataclass
class Cluster:
    """Nodes with GPUs, and servers that start as a hub starts them."""

    nodes: Sequence[GpuNode]
    packs: bool
    taken: int = 0
    running: list[tuple[str, Task]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = WHOLE * sum(each.gpus for each in self.nodes)
        self.policy = Policy(packs_devices=self.packs)
        self._snapshot = Snapshot.from_objects(
            [device_class(), *(each for node in self.nodes for each in objects_of(node))]
        )
        self._index = ClusterIndex()
        self._shapes: dict[Task, Shape] = {}
        self._number = 0

    def used(self) -> int:
        """Devices in use."""
        claims = self._snapshot.claims.values()
        return len({device.id for each in claims for device in each.claim.status.devices or ()})

    def start(self, task: Task) -> bool:
        shape = self._shapes.get(task)
        if shape is None:
            shape = self._shapes[task] = user_shape({"gpu": spec_of(task)}, f"{task.cpu}m", memory=f"{task.memory}Mi")
        began = time.process_time()
        view = View(self._snapshot, NOW, namespaces={NAMESPACE}, index=self._index)
        placement = find_placement(view, self.policy, shape, NAMESPACE)
        self.seconds.append(time.process_time() - began)
        if placement.state is not AvailabilityState.FREE:
            return False
        self._number += 1
        name = f"server-{self._number}"
        spec = with_preferences(shape.claims["gpu"], placement.preferences.of_claims.get("gpu", {}))
        pod = self._create(name, task, spec)
        if not self._snapshot.schedule(pod, placement.node).fits:
            raise AssertionError(f"{name} does not fit on {placement.node}")
        self.running.append((name, task))
        self.taken += task.amount
        return True

    def _create(self, name: str, task: Task, spec: Mapping[str, Any]) -> Pod:
        metadata = {"name": name, "namespace": NAMESPACE, "uid": name}
        claim = {"apiVersion": names.RESOURCE_API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
        self._snapshot.apply(claim)
        manifest = user_manifest(name, ("gpu",), f"{task.cpu}m", memory=f"{task.memory}Mi")
        manifest["metadata"]["uid"] = name
        manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        return Pod.from_json(manifest)

    def end(self, place: int) -> None:
        name, task = self.running.pop(place)
        self.taken -= task.amount
        key = ObjectKey(NAMESPACE, name)
        self._snapshot.remove_pod(key)
        self._snapshot.remove_claim(key)


def spec_of(task: Task) -> Json:
    part = {"capacity": {"requests": {"thousandths": str(task.part)}}} if task.part < WHOLE else {"count": task.gpus}
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, **part}}]}}


def objects_of(row: GpuNode) -> Iterable[Json]:
    """A node that is ready for users, and the slice of its GPUs."""
    capacity = {"cpu": f"{row.cpu}m", "memory": f"{row.memory}Mi", "pods": "110"}
    labels = {"kubernetes.io/hostname": row.name, names.IMAGES_READY: names.TRUE}
    metadata = {"name": row.name, "labels": labels, "creationTimestamp": "2026-03-01T09:00:00Z"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"allocatable": capacity, "capacity": capacity},
    }
    devices = [
        {
            "name": f"gpu-{index}",
            "allowMultipleAllocations": True,
            "attributes": {"uuid": {"string": f"GPU-{row.name}-{index}"}},
            "capacity": {"thousandths": {"value": str(WHOLE)}},
        }
        for index in range(row.gpus)
    ]
    pool = {"name": row.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": row.name, "pool": pool, "devices": devices}
    yield {
        "apiVersion": names.RESOURCE_API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{row.name}-gpu"},
        "spec": spec,
    }


def _rows(file: Path) -> Iterable[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)


if __name__ == "__main__":
    sys.exit(main())

"""Costs of a rehearsal: ``python -m tests.bench.rehearsal``.

The cluster has nodes with eight GPUs, whose shares are partly in use. Shown are the time of a rehearsal, the time of
the first look at the cluster, the same through the service with its longest pause of the event loop, and the steps.
"""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import timedelta

from kubernetes_asyncio.client import ApiClient

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import supplies_of_known_kinds
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.snapshot import Snapshot
from tests.bench.figures import options_parser, peak_megabytes
from tests.bench.fleet import held
from tests.placeholders.planner.objects import NAMESPACE, SHARE, Json, node_objects, user_manifest
from tests.placeholders.planner.simulated_cluster import START
from tests.service.unstarted_watch import UnstartedWatch

IN_AN_HOUR = START + timedelta(hours=1)
#: Shares of 10Gi on a node with eight GPUs of 40Gi.
SLOTS = 32


def cluster(nodes: int, used: int) -> list[Json]:
    """Nodes of two kinds, on each of which so many servers run."""
    objects: list[Json] = [{"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}}]
    for number in range(nodes):
        name = f"node-{number:04}"
        labels = {names.INSTANCE_TYPE: f"a100-{number % 2}"}
        objects += node_objects(name, "64", 8, "40Gi", SHARE.images, START.isoformat(), labels)
        for server in range(used):
            objects += _server(name, server)
    return objects


def _server(node: str, number: int) -> list[Json]:
    pod = user_manifest(f"{node}-{number}", ("gpu",))
    claim = f"{node}-{number}-gpu"
    pod["metadata"] |= {"uid": f"uid-{node}-{number}", "creationTimestamp": START.isoformat()}
    pod["spec"] |= {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}
    status = held(node, f"gpu-{number % 8}", pod["metadata"], "10Gi", number)
    metadata = {"name": claim, "namespace": NAMESPACE, "uid": claim}
    return [
        {"kind": "ResourceClaim", "metadata": metadata, "spec": SHARE.claims["gpu"], "status": status},
        {**pod, "kind": "Pod"},
    ]


def rehearse_once(objects: list[Json], users: int) -> None:
    began = time.process_time()
    snapshot = Snapshot.from_objects(objects)
    assert not snapshot.broken, snapshot.broken[0]
    read = time.process_time()
    view = View(snapshot, START, namespaces={NAMESPACE})
    supplies = supplies_of_known_kinds(view, names.INSTANCE_TYPE, timedelta(minutes=10))
    expected = ExpectedUsers("gpu-slice", SHARE, users, IN_AN_HOUR)
    for turn in ("first", "second"):
        before = time.process_time()
        found = rehearse(expected, view, NAMESPACE, supplies)
        spent = time.process_time() - before
        on_new = sum(each.servers for each in found.orders)
        print(
            f"  {turn} rehearsal: {spent * 1000:7.0f} ms of processor time ({found.free} on present nodes, {on_new} on "
            f"{sum(each.nodes for each in found.orders)} new ones); decoding the objects took {(read - began) * 1000:.0f} ms"
        )


async def through_the_service(objects: list[Json], users: int) -> None:
    watch = UnstartedWatch()
    for obj in objects:
        watch.put(Kind(obj["kind"]), obj)
    settings = ControllerSettings(
        NAMESPACE, {"gpu-slice": ReplicaRange(0, 10_000)}, placeholders=PlaceholderSettings(NAMESPACE)
    )
    api = KubernetesApi(ApiClient.__new__(ApiClient))
    controller = ScaleAheadController(api, watch, DecisionLog(), settings, now=lambda: START)
    controller.shapes.put(published_config_map(PublishedShapes({"gpu-slice": SHARE}), NAMESPACE, {}))
    gc.collect()
    gc.freeze()  # as `dra-spawner service` does once everything was seen
    occurrence = Occurrence("class", "gpu-slice", IN_AN_HOUR, IN_AN_HOUR + timedelta(hours=1), users)
    pauses: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            pauses.append(time.perf_counter() - before - 0.001)

    task = asyncio.create_task(beat())
    await asyncio.sleep(0.2)
    quiet = max(pauses)
    pauses.clear()
    began = time.perf_counter()
    await Rehearsals(controller).of_day([occurrence])
    spent = time.perf_counter() - began
    task.cancel()
    pauses.sort()
    print(
        f"  by the service: {spent * 1000:.0f} ms; the event loop paused for {pauses[-1] * 1000:.0f} ms at most, "
        f"{pauses[len(pauses) // 2] * 1000:.1f} ms in the median ({quiet * 1000:.1f} ms at most without a rehearsal)"
    )


def main() -> None:
    parser = options_parser(__doc__, nodes=500)
    parser.add_argument("--used", type=int, nargs="*", default=[0, 24, SLOTS], help="servers that run on each node")
    parser.add_argument("--users", type=int, nargs="*", default=[350])
    options = parser.parse_args()
    for used in options.used:
        objects = cluster(options.nodes, used)
        for users in options.users:
            print(f"{users} users, {options.nodes} nodes with {used} of {SLOTS} slots in use:")
            rehearse_once(objects, users)
            asyncio.run(through_the_service(objects, users))
    print(f"{peak_megabytes():.0f} MB at most")


if __name__ == "__main__":
    main()

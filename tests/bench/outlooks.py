"""Costs of users' outlooks in `GET api/profiles`: ``python -m tests.bench.outlooks``.

A cluster of 5,000 nodes with 2 GPUs each, half of them or all in use by servers of a few shapes. After a change of the cluster the
placement of each shape is computed, then its outlook. Figures are milliseconds of CPU time for all shapes together.
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Outlook, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.snapshot import Snapshot
from tests.bench.figures import options_parser
from tests.bench.fleet import held
from tests.placeholders.planner.objects import (
    GPU,
    IMAGE,
    NAMESPACE,
    PLAIN,
    gpu_claim,
    node_objects,
    user_manifest,
    user_shape,
)
from tests.placeholders.planner.simulated_cluster import START

SHAPES: dict[str, Shape] = {
    each.id: each
    for each in (
        PLAIN,
        GPU,
        *(user_shape({"gpu": gpu_claim()}, cpu=str(cpu)) for cpu in range(2, 6)),
        *(user_shape({"gpu": gpu_claim(count=2)}, cpu=str(cpu)) for cpu in range(1, 5)),
    )
}
KINDS = ("a100", "h100")


def cluster(nodes: int, used: float) -> Snapshot:
    """Nodes of two kinds, and servers that use this part of their GPUs."""
    snapshot = Snapshot()
    snapshot.apply({"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}})
    created = START.isoformat().replace("+00:00", "Z")
    shapes = [
        each
        for each in SHAPES.values()
        if each.id != PLAIN.id and "count" not in str(each.claims).replace("'count': 1", "")
    ]
    for number in range(nodes):
        name = f"node-{number:04}"
        labels = {"node.kubernetes.io/instance-type": KINDS[number % 2], names.IMAGES_READY: names.TRUE}
        for obj in node_objects(name, "16", 2, "", (IMAGE,), created, labels):
            assert snapshot.apply(obj) is None
        for gpu in range(2 if number < used * nodes else 0):
            for obj in server(name, gpu, shapes[number % len(shapes)], created):
                assert snapshot.apply(obj) is None
    return snapshot


def server(node: str, gpu: int, shape: Shape, created: str) -> list[dict[str, Any]]:
    """A server that has a GPU of a node."""
    name = f"user-{node}-{gpu}"
    pod = user_manifest(name, ("gpu",))
    pod["metadata"] |= {"uid": name, "creationTimestamp": created}
    pod["metadata"]["labels"][names.SHAPE] = shape.id
    pod["spec"] |= {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    pod["status"] = {"phase": "Running"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    metadata = {"name": f"{name}-gpu", "namespace": NAMESPACE, "uid": f"{name}-gpu", "ownerReferences": [owner]}
    status = held(node, f"gpu-{gpu}", owner)
    return [{"kind": "ResourceClaim", "metadata": metadata, "spec": gpu_claim(), "status": status}, pod]


def measure(snapshot: Snapshot, rounds: int) -> tuple[list[float], list[float], list[Outlook]]:
    """Milliseconds for all placements, and for all outlooks, of each round."""
    policy, index = Policy(shapes=SHAPES, drivers_prepare_for=drivers_prepare_for()), ClusterIndex()
    placement_ms, outlook_ms, outlooks = [], [], []
    for number in range(rounds):
        # A change of one node, after which nothing is known any more.
        state = snapshot.nodes[f"node-{number:04}"]
        snapshot.put(state.node)
        view = View(snapshot, START + timedelta(hours=1, seconds=number), namespaces={NAMESPACE}, index=index)
        began = time.process_time()
        placements: dict[str, Placement] = {
            shape.id: find_placement(view, policy, shape, NAMESPACE) for shape in SHAPES.values()
        }
        middle = time.process_time()
        known: list[BusyServers] = []

        def busy(view: View = view, known: list[BusyServers] = known) -> BusyServers:
            if not known:
                known.append(BusyServers(view))
            return known[0]

        outlooks = [
            find_outlook(view, policy, shape, NAMESPACE, placements[shape.id], Supply(), busy)
            for shape in SHAPES.values()
        ]
        outlook_ms.append((time.process_time() - middle) * 1000)
        placement_ms.append((middle - began) * 1000)
    return placement_ms[1:], outlook_ms[1:], outlooks


def main() -> int:
    options = options_parser(__doc__, nodes=5000, rounds=10).parse_args()
    for used in (0.5, 1.0):
        placement_ms, outlook_ms, outlooks = measure(cluster(options.nodes, used), options.rounds)
        states = sorted({each.state.value for each in outlooks})
        print(
            f"{options.nodes} nodes, {used:.0%} in use, {len(SHAPES)} shapes ({', '.join(states)}): "
            f"placements {statistics.median(placement_ms):.1f} ms, outlooks {statistics.median(outlook_ms):.1f} ms"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

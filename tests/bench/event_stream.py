"""Costs of following a big cluster: time for each event of a watch, and memory.

Run ``python -m tests.bench.event_stream``. 5,000 nodes with 40,000 devices and 10,000 pods are generated, in the size in which
kubelets, schedulers and controllers write them, managed fields and all. They are first taken in as a list, then a stream of
events comes over them: heartbeats, pods that come, are placed, run and go, with their claims. Each event is a line of JSON
as the API server sends it, and the time is that from this line to the changed snapshot.

``--decide`` takes, besides, the time of a question to the snapshot after each event that decides: does a pod with a
claim fit anywhere, and where first.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from kubernetes_asyncio.client import ApiClient

from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from tests.bench.figures import options_parser, peak_megabytes, resident_megabytes, times
from tests.bench.fleet import Fleet, held

Json = dict[str, Any]

NAMESPACE = "jupyterhub"
_TIME = "2026-11-21T10:00:00Z"


def managed_fields(count: int) -> list[Json]:
    """As large as they are in practice, which is about half of each object."""
    fields: Json = {f"f:field{number}": {"f:nested": {}, "f:other": {"f:deep": {}}} for number in range(18)}
    return [
        {"manager": f"manager-{number}", "operation": "Update", "apiVersion": "v1", "time": _TIME,
         "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": fields, "f:status": fields}}
        for number in range(count)
    ]  # fmt: skip


class Cluster:
    """Generates the objects and their events."""

    def __init__(self, nodes: int, pods: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = 1
        fleet = Fleet(nodes, shared=True, busy=0.0, seed=seed)
        self.classes, self.slices = fleet.classes, fleet.slices
        self.fleet = fleet
        self.names = [node["metadata"]["name"] for node in fleet.nodes]
        self.pods: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}
        self.used: dict[tuple[str, int], int] = defaultdict(int)
        for number in range(pods):
            self.new_pod(self.names[number % len(self.names)])

    def complete(self, obj: Json) -> Json:
        self.version += 1
        metadata = {
            "uid": str(uuid.UUID(int=self.random.getrandbits(128))),
            "creationTimestamp": _TIME,
            **obj["metadata"],
        }
        metadata |= {"resourceVersion": str(self.version), "managedFields": managed_fields(2)}
        return {**obj, "metadata": metadata}

    def node(self, name: str) -> Json:
        amounts = {
            "cpu": "64",
            "memory": "263856412Ki",
            "pods": "110",
            "ephemeral-storage": "1Ti",
            "hugepages-2Mi": "0",
        }
        images = [
            {"names": [f"registry.example.org/image-{number}@sha256:{number:064x}", f"registry.example.org/image-{number}:1"],
             "sizeBytes": 10**8 + number}
            for number in range(30)
        ]  # fmt: skip
        conditions = [
            {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"Kubelet{kind}", "message": "fine",
             "lastHeartbeatTime": f"2026-11-21T10:{self.version % 60:02}:00Z", "lastTransitionTime": _TIME}
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
        ]  # fmt: skip
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= {f"example.com/label-{number}": f"value-{number}" for number in range(15)}
        return self.complete({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "labels": labels},
            "spec": {"providerID": f"example://{name}", "podCIDR": "10.0.0.0/24"},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images,
                       "nodeInfo": {f"key{number}": "value" for number in range(12)}},
        })  # fmt: skip

    def new_pod(self, node: str = "") -> str:
        name = f"jupyter-user-{self.random.getrandbits(48):012x}"
        self.pods[name] = self.pod(name, node)
        self.claims[name] = self.claim(name, node)
        return name

    def pod(self, name: str, node: str, phase: str = "Pending") -> Json:
        known = self.pods.get(name)
        uid = known["metadata"]["uid"] if known else str(uuid.UUID(int=self.random.getrandbits(128)))
        environment = [{"name": f"JUPYTERHUB_VARIABLE_{number}", "value": "x" * 40} for number in range(25)]
        requests = {"cpu": "500m", "memory": "2Gi"}
        container = {
            "name": "notebook", "image": "registry.example.org/image-1:1", "env": environment,
            "resources": {"requests": requests, "limits": requests, "claims": [{"name": "gpu"}]},
            "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(5)],
        }  # fmt: skip
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in ("PodScheduled", "Ready")
        ]
        spec: Json = {
            "containers": [container], "schedulerName": "default-scheduler", "priority": 0,
            "tolerations": [{"key": f"key-{number}", "operator": "Exists", "effect": "NoSchedule"} for number in range(4)],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"template-{name}"}],
            "volumes": [{"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}
                        for number in range(5)],
        }  # fmt: skip
        if node:
            spec["nodeName"] = node
        statuses = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
        labels = {"app": "jupyterhub", "component": "singleuser-server", "hub.jupyter.org/username": name[8:]}
        return self.complete({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": labels,
                         "annotations": {"hub.jupyter.org/username": name[8:], "example.com/large": "x" * 500}},
            "spec": spec,
            "status": {"phase": phase, "conditions": conditions, "resourceClaimStatuses": statuses,
                       "containerStatuses": [{"name": "notebook", "state": {}, "image": "x" * 80}]},
        })  # fmt: skip

    def claim(self, name: str, node: str) -> Json:
        wanted = self.fleet.claim(f"{name}-gpu", 5)
        pod = self.pods[name]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"], "controller": True}
        metadata = {**wanted["metadata"], "namespace": NAMESPACE, "ownerReferences": [owner]}
        metadata["uid"] = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
        metadata["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        if not node:
            return self.complete({**wanted, "metadata": metadata, "status": {}})
        status = held(node, f"gpu-{self.random.randrange(8)}", owner, "5Gi", self.random.getrandbits(128))
        return self.complete({**wanted, "metadata": metadata, "status": status})

    def lists(self) -> Iterator[tuple[Kind, Json]]:
        for name in self.names:
            yield Kind.NODE, self.node(name)
        for item in self.slices:
            yield Kind.RESOURCE_SLICE, self.complete(item)
        for item in self.classes:
            yield Kind.DEVICE_CLASS, self.complete(item)
        for obj in self.pods.values():
            yield Kind.POD, obj
        for obj in self.claims.values():
            yield Kind.RESOURCE_CLAIM, obj

    def events(self, count: int) -> Iterator[tuple[str, Kind, str, Json]]:
        """The events: label, kind, type of the event and the object."""
        made = 0
        while made < count:
            if self.random.random() < 0.4:
                yield "node heartbeat", Kind.NODE, "MODIFIED", self.node(self.random.choice(self.names))
                made += 1
            elif self.random.random() < 0.05:
                item = self.random.choice(self.slices)
                yield "slice published anew", Kind.RESOURCE_SLICE, "MODIFIED", self.complete(item)
                made += 1
            else:
                for event in self.spawn():
                    yield event
                    made += 1

    def spawn(self) -> Iterator[tuple[str, Kind, str, Json]]:
        """A pod comes and another goes."""
        name, node = self.new_pod(), self.random.choice(self.names)
        yield "pod created", Kind.POD, "ADDED", self.pods[name]
        yield "claim created", Kind.RESOURCE_CLAIM, "ADDED", self.claims[name]
        self.claims[name] = self.claim(name, node)
        yield "claim allocated", Kind.RESOURCE_CLAIM, "MODIFIED", self.claims[name]
        self.pods[name] = self.pod(name, node)
        yield "pod bound", Kind.POD, "MODIFIED", self.pods[name]
        self.pods[name] = self.pod(name, node, "Running")
        yield "pod runs", Kind.POD, "MODIFIED", self.pods[name]
        gone = self.random.choice(list(self.pods))
        yield "pod gone", Kind.POD, "DELETED", self.pods.pop(gone)
        yield "claim gone", Kind.RESOURCE_CLAIM, "DELETED", self.claims.pop(gone)


def idle_watch() -> ClusterWatch:
    """A watch of no API server: a benchmark puts the objects."""
    return ClusterWatch(KubernetesApi(ApiClient.__new__(ApiClient)))


def take_in(watch: ClusterWatch, kind: Kind, line: bytes) -> None:
    """Take in one line of a watch, as an API server sends it."""
    event = json.loads(line)
    metadata = event["object"]["metadata"]
    if event["type"] == "DELETED":
        watch.remove(kind, ObjectKey(metadata.get("namespace", ""), metadata["name"]))
    else:
        watch.put(kind, event["object"])


def main() -> int:
    parser = options_parser(__doc__, nodes=5000, pods=10000, events=20000, seed=1)
    parser.add_argument("--decide", action="store_true")
    options = parser.parse_args()

    before = resident_megabytes()
    watch = idle_watch()
    # Generated and encoded one by one, instead of by another process: only objects of the watch stay in memory.
    cluster = Cluster(options.nodes, options.pods, options.seed)
    generated = resident_megabytes()
    began = time.perf_counter()
    spent, listed = 0.0, 0
    for kind, obj in cluster.lists():
        line = json.dumps(obj).encode()
        started = time.perf_counter()
        watch.put(kind, json.loads(line))
        spent += time.perf_counter() - started
        listed += 1
    gc.collect()
    held = resident_megabytes() - generated
    print(f"{options.nodes} nodes, {8 * options.nodes} devices, {options.pods} pods and as many claims")
    print(f"list: {listed} objects taken in within {spent:.1f} s ({spent / listed * 1000:.2f} ms each)")
    print(f"memory: {held:.0f} MB for what is known, {before:.0f} MB for the program itself")

    changes: list[Change] = []
    watch.on_change(changes.append)
    wanted = Pod.from_json(
        {**cluster.pod("wanted", ""), "metadata": {"name": "wanted", "namespace": NAMESPACE, "uid": "w"}}
    )
    watch.put(Kind.RESOURCE_CLAIM, {**cluster.fleet.claim("wanted-gpu", 15), "metadata": {
        "name": "wanted-gpu", "namespace": NAMESPACE, "uid": "c",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "wanted", "uid": "w", "controller": True}],
    }})  # fmt: skip
    spent_on: dict[str, list[float]] = defaultdict(list)
    decisions: list[float] = []
    gc.collect()
    gc.freeze()
    for label, kind, event_type, obj in cluster.events(options.events):
        line = json.dumps({"type": event_type, "object": obj}).encode()
        changes.clear()
        started = time.perf_counter()
        take_in(watch, kind, line)
        spent_on[label].append(time.perf_counter() - started)
        if options.decide and any(change.decides for change in changes):
            started = time.perf_counter()
            with watch.snapshot.trial():
                watch.snapshot.place(wanted)
            decisions.append(time.perf_counter() - started)
    everything = [each for values in spent_on.values() for each in values]
    for label, values in [*sorted(spent_on.items()), ("all", everything), ("question after that", decisions)]:
        if values:
            print(f"{label:22} {len(values):6} times  {times(values)}")
    print(f"peak of the whole process, generator included: {peak_megabytes():.0f} MB")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())

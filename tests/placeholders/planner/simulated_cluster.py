"""A cluster in virtual time without an API server: nodes and users come and go, the scheduler is the simulator.

The tests' steps act as autoscaler, kubelet and image puller. The decisions of services are in
`tests.placeholders.planner.world`, which names the words of all worlds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.view import reservation_of
from dra_spawner.placeholders.planner.targets.shapes import shape_of
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_score import best_nodes
from dra_spawner.simulator.snapshot import Snapshot
from tests.placeholders.planner.objects import (
    EXTENDED_RESOURCE,
    IMAGE,
    NAMESPACE,
    Json,
    gpu_slice,
    node_objects,
    user_manifest,
)
from tests.simulator.changes import take_down_node
from tests.simulator.preempting import place_by_preemption

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class SimulatedCluster:
    """See the module.

    Attributes
    ----------
    refused
        Pods that the scheduler does not place, whatever the simulator finds, each with the scheduler's message.
    slow
        Pods whose containers do not run yet, although they have a node.
    broken_nodes
        Nodes whose kubelets start no container.
    kubelets_start
        Whether kubelets do anything.
    preempted
        Names of pods that the scheduler preempted.
    grace
        Time for which ended pods are terminating.
    """

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.snapshot = Snapshot()
        self.snapshot.apply(
            {
                "kind": "DeviceClass",
                "metadata": {"name": "gpu.example.com"},
                "spec": {"selectors": [], "extendedResourceName": EXTENDED_RESOURCE},
            }
        )
        self.objects: dict[tuple[str, ObjectKey], Json] = {}
        self.refused: dict[str, str] = {}
        self.slow: set[str] = set()
        self.broken_nodes: frozenset[str] = frozenset()
        self.kubelets_start = True
        self.preempted: list[str] = []
        self.grace = timedelta(0)
        self._terminating: list[tuple[datetime, ObjectKey]] = []
        self._numbers = itertools.count(1)

    # --- time and objects ----------------------------------------------------------------------------------------------

    def pass_time(self, **time: float) -> None:
        self.now += timedelta(**time)
        for key in [key for end, key in self._terminating if end <= self.now]:
            self.remove_pod(key)
        self._terminating = [each for each in self._terminating if each[0] > self.now]

    def next_number(self) -> int:
        return next(self._numbers)

    def stamp(self) -> str:
        """Now, as the API writes it."""
        return self.now.isoformat().replace("+00:00", "Z")

    def create(self, manifest: Json, **metadata: Any) -> None:
        """An object is created now."""
        stamp = {"uid": f"uid-{manifest['metadata']['name']}", "creationTimestamp": self.stamp()}
        manifest["metadata"] |= {**stamp, **metadata}
        self.apply(manifest)

    def apply(self, obj: Json) -> None:
        """An object is created, or changed."""
        broken = self.snapshot.apply(obj)
        assert broken is None, broken
        metadata = obj["metadata"]
        self.objects[obj["kind"], ObjectKey(metadata.get("namespace", ""), metadata["name"])] = obj

    def relabel(self, kind: str, key: ObjectKey, changes: Mapping[str, str | None]) -> None:
        """Labels of a pod or a claim change; labels with ``None`` are removed."""
        # In the simulator's own objects pods have nodes and claims have devices; only labels change here.
        table: Any = self.snapshot.pods if kind == "Pod" else self.snapshot.claims
        item = table[key]
        merged = {name: value for name, value in {**item.labels, **changes}.items() if value is not None}
        self.snapshot.put(replace(item, labels=merged))

    def end_pod(self, key: ObjectKey) -> None:
        """A pod is deleted, after its grace."""
        if not self.grace:
            self.remove_pod(key)
            return
        self.snapshot.put(replace(self.snapshot.pods[key], is_deleted=True))
        self._terminating.append((self.now + self.grace, key))

    def fail(self, key: ObjectKey) -> None:
        """The kubelet ends a pod, and leaves it as an object."""
        self.snapshot.put(replace(self.snapshot.pods[key], phase="Failed"))

    def remove_pod(self, key: ObjectKey) -> None:
        """A pod is deleted, with its claims that no other pod uses and that are not reserved."""
        self.snapshot.remove_pod(key)
        obj = self.objects.pop(("Pod", key), None)
        # Claims of placeholders are owned by them and by the pods that got them in a handover.
        for entry in (obj or {}).get("spec", {}).get("resourceClaims", ()):
            name = ObjectKey(key.namespace, entry.get("resourceClaimName", ""))
            claim = self.snapshot.claims.get(name)
            users = [pod for pod in self.snapshot.pods.values() if any(each.claim == name.name for each in pod.claims)]
            if claim is not None and not users and reservation_of(claim) is None:
                self.snapshot.remove_claim(name)

    # --- nodes -----------------------------------------------------------------------------------------------------------

    def node(
        self,
        name: str,
        cpu: str = "10",
        gpus: int = 0,
        memory: str = "",
        images: Iterable[str] = (IMAGE,),
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """A node comes; with ``memory`` its GPUs can be shared."""
        for obj in self.node_objects(name, cpu, gpus, memory, images, labels):
            self.apply(obj)

    def node_objects(
        self,
        name: str,
        cpu: str = "10",
        gpus: int = 0,
        memory: str = "",
        images: Iterable[str] = (IMAGE,),
        labels: Mapping[str, str] | None = None,
    ) -> list[Json]:
        """A node and the slice of its driver."""
        return node_objects(name, cpu, gpus, memory, images, created=self.stamp(), labels=labels)

    def slice(self, node: str, gpus: int, memory: str = "") -> None:
        """A driver publishes a node's GPUs."""
        self.apply(gpu_slice(node, gpus, memory))

    def pull(self, node: str, *, images: Iterable[str] = (IMAGE,)) -> None:
        """A node has all images, or just these."""
        obj = self.objects["Node", ObjectKey("", node)]
        obj["status"]["images"] = [{"names": [each], "sizeBytes": 1} for each in images]
        self.apply(obj)

    def lose_slice(self, node: str) -> None:
        """A node's devices are gone, as while the driver restarts."""
        self.snapshot.forget(Kind.RESOURCE_SLICE, ObjectKey("", f"{node}-gpus"))

    def labelled(self, label: str) -> list[str]:
        return sorted(name for name, state in self.snapshot.nodes.items() if label in state.node.labels)

    def is_ready(self, node: str) -> bool:
        return names.IMAGES_READY in self.snapshot.nodes[node].node.labels

    def remove_node(self, name: str) -> None:
        for pod in take_down_node(self.snapshot, name):
            self.objects.pop(("Pod", ObjectKey.of(pod)))
        self.objects.pop(("Node", ObjectKey("", name)))

    # --- users -----------------------------------------------------------------------------------------------------------

    def user(
        self,
        name: str,
        claims: Mapping[str, Json] | None = None,
        claim_names: Mapping[str, str] | None = None,
        *,
        namespace: str = NAMESPACE,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **kind: Any,
    ) -> None:
        """A user's pod is created: with its own claims, or with existing claims (by entry)."""
        manifest = user_manifest(name, (*(claims or ()), *(claim_names or ())), **kind)
        entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in (claim_names or {}).items()]
        for entry, spec in (claims or {}).items():
            template = {"metadata": {"name": f"{name}-{entry}", "namespace": namespace}, "spec": {"spec": spec}}
            self.apply({"kind": "ResourceClaimTemplate", **template})
            entries.append({"name": entry, "resourceClaimTemplateName": f"{name}-{entry}"})
        shape = shape_of(manifest, claims or {}, frozenset((names.IMAGES_READY,)))
        manifest["metadata"]["labels"] |= {names.SHAPE: shape.id, **(labels or {})}
        manifest["metadata"]["annotations"] = dict(annotations or {})
        manifest["spec"]["priority"] = 0
        if entries:
            manifest["spec"]["resourceClaims"] = entries
        self.create(manifest, uid=f"uid-{name}-{next(self._numbers)}", namespace=namespace)

    def leave(self, name: str) -> None:
        """A user's server ends."""
        self.remove_pod(ObjectKey(NAMESPACE, name))

    def users(self, users: int | Iterable[str], claims: Mapping[str, Json] | None = None, **kind: Any) -> None:
        """Several users' pods are created, of a number or with names."""
        for name in (f"user-{number}" for number in range(users)) if isinstance(users, int) else users:
            self.user(name, claims, **kind)

    def node_of(self, name: str, namespace: str = NAMESPACE) -> str:
        """The node of a pod."""
        return self.snapshot.pods[ObjectKey(namespace, name)].node_name

    # --- the scheduler and the kubelets -----------------------------------------------------------------------------------

    def schedule(self, kind_of: Callable[[Pod], Hashable] = lambda pod: pod.name) -> None:
        """Place all pods that fit: by the scheduler's scores, with preemption for CPU and memory, never for devices.

        Parameters
        ----------
        kind_of
            Equal for pods of which none fits if one does not: the others are not tried.
        """
        failed = set()
        for pod in sorted(self.pending_pods(), key=lambda pod: (-pod.priority, pod.created, pod.name)):
            if pod.name in self.refused or kind_of(pod) in failed:
                continue
            where = self.snapshot.place(pod, partial(self._best, pod))
            if isinstance(where, str):
                continue
            found = place_by_preemption(self.snapshot, pod)
            if isinstance(found, tuple):
                for victim in found[1]:
                    self.preempted.append(victim.name)
                    self.objects.pop(("Pod", ObjectKey.of(victim)), None)
            else:
                failed.add(kind_of(pod))
        if self.kubelets_start:
            self._start()

    def pending_pods(self) -> list[Pod]:
        """Pods that have no node."""
        return [pod for pod in self.snapshot.pods.values() if not pod.node_name and not pod.is_finished]

    @property
    def pending(self) -> list[str]:
        return sorted(pod.name for pod in self.pending_pods())

    def _best(self, pod: Any, names: Iterable[str]) -> str:
        states: list[NodeState] = [self.snapshot.nodes[name] for name in names]
        best = best_nodes(pod, list(self.snapshot.nodes.values()), states, {})
        return min(state.node.name for state in best)

    def _start(self) -> None:
        """Kubelets start the pods that have come to their nodes."""
        for pod in list(self.snapshot.pods.values()):
            if not pod.node_name or pod.phase != "Pending":
                continue
            if pod.name not in self.slow and pod.node_name not in self.broken_nodes:
                self.snapshot.put(replace(pod, phase="Running"))
            elif not pod.start_time:
                self.snapshot.put(replace(pod, start_time=self.stamp()))

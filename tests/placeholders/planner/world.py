"""A cluster in virtual time: nodes come and go, the scheduler is the simulator, decisions are carried out at once.

It has no API server: the planner's decisions are tested on a snapshot, thousands of rounds in a second. What an API server
adds is tested in `tests.placeholders.controller.world`.

What an autoscaler, a kubelet and an image puller would do is done by the tests' steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    CreatePlaceholder,
    DeleteClaim,
    DeletePlaceholder,
    LabelNode,
    LabelPod,
)
from dra_spawner.placeholders.planner.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.decide import Decisions, decide
from dra_spawner.placeholders.planner.hypothetical_pods import requiring_readiness, simulated_placeholder
from dra_spawner.placeholders.planner.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.placement import Placement
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.quotas import Quota
from dra_spawner.placeholders.planner.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.shapes import Shape, shape_of
from dra_spawner.placeholders.planner.view import Reservation, View, reservation_of
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.node_score import best_nodes
from dra_spawner.simulator.nodes import NodeState
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.presence import present
from tests.simulator.changes import reserve, take_down_node
from tests.simulator.preempting import place_by_preemption

NAMESPACE = "hub"
IMAGE = "quay.io/jupyter/scipy-notebook:2026"
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
SETTINGS = PlaceholderSettings(namespace=NAMESPACE)
#: Longest a test's round may take to come to rest.
MOST_ROUNDS = 60

#: What `gpu.example.com` stands for, too.
EXTENDED_RESOURCE = "example.com/gpu"

Json = dict[str, Any]


def gpu_claim(**devices: Any) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1, **devices}}
    return {"devices": {"requests": [request]}}


def share_claim(memory: str) -> Json:
    return gpu_claim(capacity={"requests": {"memory": memory}})


def user_manifest(
    name: str, claims: Iterable[str] = (), cpu: str = "1", requires_ready: bool = True, extended: int = 0, **spec: Any
) -> Json:
    """A user's pod as the spawner makes it; with devices as an extended resource, if so many are wanted."""
    resources: Json = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    if extended:
        resources["limits"] = {EXTENDED_RESOURCE: str(extended)}
        resources["requests"] |= resources["limits"]
    if claims:
        resources["claims"] = [{"name": each} for each in claims]
    container = {"name": "notebook", "image": IMAGE, "resources": resources}
    if requires_ready:
        spec["affinity"] = requiring_readiness(spec.get("affinity", {}))
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {names.COMPONENT: names.USER_SERVER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def user_shape(claims: Mapping[str, Json] | None = None, cpu: str = "1", **spec: Any) -> Shape:
    """The shape of such a pod."""
    return shape_of(user_manifest("anybody", claims or (), cpu, **spec), claims or {}, frozenset((names.IMAGES_READY,)))


def node_objects(
    name: str,
    cpu: str,
    gpus: int,
    memory: str,
    images: Iterable[str],
    created: str,
    labels: Mapping[str, str] | None = None,
) -> list[Json]:
    """A node and what its driver publishes; with ``memory`` its GPUs can be shared."""
    named = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": f"g{gpus}", **(labels or {})}
    node = {
        "kind": "Node",
        "metadata": {"name": name, "labels": named, "creationTimestamp": created},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "100Gi", "pods": "110"},
            "images": [{"names": [each], "sizeBytes": 1} for each in images],
        },
    }
    return [node, *([gpu_slice(name, gpus, memory)] if gpus else [])]


def gpu_slice(node: str, gpus: int, memory: str) -> Json:
    """What the driver publishes."""
    shared: Json = {"allowMultipleAllocations": True} if memory else {}
    if memory:
        policy = {"default": memory, "validRange": {"min": "5Gi", "step": "5Gi"}}
        shared["capacity"] = {"memory": {"value": memory, "requestPolicy": policy}}
    devices = [{"name": f"gpu-{index}", **shared} for index in range(gpus)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}


PLAIN = user_shape()
GPU = user_shape({"gpu": gpu_claim()})
SHARE = user_shape({"gpu": share_claim("10Gi")})


class World:
    """See the module."""

    def __init__(self, policy: Policy, now: datetime = START) -> None:
        self.policy = policy
        self.now = now
        self.snapshot = Snapshot()
        self.snapshot.apply(
            {
                "kind": "DeviceClass",
                "metadata": {"name": "gpu.example.com"},
                "spec": {"selectors": [], "extendedResourceName": EXTENDED_RESOURCE},
            }
        )
        self.planner_state = PlannerState.fresh(now)
        self.index = ClusterIndex()
        self.searches = SearchLedger()
        self.objects: dict[tuple[str, ObjectKey], Json] = {}
        self.log: list[tuple[datetime, Action]] = []
        self.preempted: list[str] = []
        self._last: Decisions | None = None
        self.pending_records: set[ObjectKey] = set()
        """Users' pods that waited when it was last decided."""
        self.problem = ""
        self.reserved: dict[ObjectKey, Reservation] = {}
        self.stale = timedelta(0)
        self.refused: dict[str, str] = {}
        """Pods that the scheduler does not place, whatever the simulator thinks of them, with what it says."""
        self.quotas: Callable[[], tuple[Quota, ...]] = lambda: ()
        """What is left of the namespace's quotas."""
        self.no_node: dict[str, str] = {}
        """What the autoscaler says of pods that stay pending, by uid."""
        self.slow: set[str] = set()
        """Pods whose containers do not run yet, although they have a node."""
        self.kubelets_start = True
        """Whether kubelets start what has come to their nodes."""
        self._numbers = itertools.count(1)

    # --- what happens in the cluster -------------------------------------------------------------------------------

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
        """A node and what its driver publishes."""
        return node_objects(name, cpu, gpus, memory, images, created=self.stamp(), labels=labels)

    def slice(self, node: str, gpus: int, memory: str = "") -> None:
        """A driver publishes a node's GPUs."""
        self.apply(gpu_slice(node, gpus, memory))

    def pull(self, node: str) -> None:
        """A node has all images."""
        obj = self.objects["Node", ObjectKey("", node)]
        obj["status"]["images"] = [{"names": [IMAGE], "sizeBytes": 1}]
        self.apply(obj)

    def remove_node(self, name: str) -> None:
        for pod in take_down_node(self.snapshot, name):
            self.objects.pop(("Pod", ObjectKey.of(pod)))
        self.objects.pop(("Node", ObjectKey("", name)))

    def user(
        self,
        name: str,
        claims: Mapping[str, Json] | None = None,
        claim_names: Mapping[str, str] | None = None,
        **kind: Any,
    ) -> None:
        """A user's pod is created: with claims of its own, or with claims that are there (by entry)."""
        manifest = user_manifest(name, (*(claims or ()), *(claim_names or ())), **kind)
        manifest["metadata"] |= {"uid": f"uid-{name}-{next(self._numbers)}", "creationTimestamp": self.stamp()}
        shape = shape_of(manifest, claims or {}, frozenset((names.IMAGES_READY,)))
        manifest["metadata"]["labels"][names.SHAPE] = shape.id
        manifest["spec"]["priority"] = 0
        entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in (claim_names or {}).items()]
        for entry, spec in (claims or {}).items():
            template = f"{name}-{entry}"
            self.apply(
                {
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": template, "namespace": NAMESPACE},
                    "spec": {"spec": spec},
                }
            )
            entries.append({"name": entry, "resourceClaimTemplateName": template})
        if entries:
            manifest["spec"]["resourceClaims"] = entries
        self.apply(manifest)

    def leave(self, name: str) -> None:
        """A user's server ends."""
        self.remove_pod(ObjectKey(NAMESPACE, name))

    def schedule(self) -> None:
        """The scheduler places what fits: by its scores, preempting for CPU and memory, never for devices."""
        for pod in sorted(self.waiting(), key=lambda pod: (-pod.priority, pod.created, pod.name)):
            if pod.name in self.refused:
                continue
            where = self.snapshot.place(pod, partial(self._best, pod))
            if isinstance(where, str):
                continue
            found = place_by_preemption(self.snapshot, pod)
            if isinstance(found, tuple):
                for victim in found[1]:
                    self.preempted.append(victim.name)
                    self.objects.pop(("Pod", ObjectKey.of(victim)), None)
        if self.kubelets_start:
            self._start()

    def pass_time(self, **time: float) -> None:
        self.now += timedelta(**time)

    # --- decisions -------------------------------------------------------------------------------------------------

    def view(self, index: ClusterIndex | None = None) -> View:
        return View(
            self.snapshot,
            self.now,
            namespaces={NAMESPACE},
            stale=self.stale,
            problem=self.problem,
            reserved=self.reserved,
            index=index or self.index,
            scheduler_says=lambda pod: self.refused.get(pod.name, ""),
            no_scale_up=lambda pod: self.no_node.get(pod.uid, ""),
            quotas=self.quotas(),
            searches=self.searches,
        )

    def decide(self) -> Decisions:
        """One round, carried out."""
        view = self.view()
        self.pending_records = {ObjectKey.of(pod) for pod in view.pending_users}
        self._last = decided = decide(view, self.policy, self.planner_state)
        self.planner_state = decided.planner_state
        for action in decided.actions:
            self.log.append((self.now, action))
            self.carry_out(action)
        return decided

    def settle(self, seconds: float = 1.0) -> None:
        """Scheduler and decisions take turns until nothing is to be done any more."""
        for _ in range(MOST_ROUNDS):
            self.schedule()
            done = self.decide()
            self.schedule()
            self.pass_time(seconds=seconds)
            if not done.actions:
                return
        raise AssertionError(f"did not come to rest: {self.log[-5:]}")

    def run(self, minutes: float, every_seconds: float = 5) -> None:
        """Time passes, with a round every few seconds."""
        end = self.now + timedelta(minutes=minutes)
        while self.now < end:
            self.schedule()
            self.decide()
            self.schedule()
            self.pass_time(seconds=every_seconds)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        """The pod, and its claims, that would be made if a placeholder went."""
        shape = self.policy.shapes[placeholder.labels[names.SHAPE]]
        return simulated_placeholder(shape, NAMESPACE, f"{placeholder.name}-again")

    @property
    def last(self) -> Decisions:
        """Decisions of the newest round."""
        return present(self._last)

    # --- what can be seen ------------------------------------------------------------------------------------------

    def where(self, name: str) -> str:
        """The node of a pod."""
        return self.snapshot.pods[ObjectKey(NAMESPACE, name)].node_name

    def users_on(self, node: str) -> int:
        return len(self.view().users_of_node.get(node, ()))

    def placeholders_on(self, node: str) -> int:
        return len(self.view().placeholders_of_node.get(node, ()))

    def picture(self, *nodes: str) -> str:
        """``UUP+`` for each node: users, placeholders, room for more (by CPU)."""
        drawn = []
        for name in nodes:
            state = self.snapshot.nodes[name]
            free = (state.node.allocatable["cpu"] - state.requested.get("cpu", 0)) // 1000
            drawn.append("U" * self.users_on(name) + "P" * self.placeholders_on(name) + "+" * free)
        return " ".join(drawn)

    @property
    def pending(self) -> list[str]:
        return sorted(pod.name for pod in self.waiting())

    def actions(self, kind: type[Action]) -> list[Any]:
        return [action for _, action in self.log if isinstance(action, kind)]

    def is_ready(self, node: str) -> bool:
        return names.IMAGES_READY in self.snapshot.nodes[node].node.labels

    # --- inside ----------------------------------------------------------------------------------------------------

    def waiting(self) -> list[Pod]:
        """Pods that have no place."""
        return [pod for pod in self.snapshot.pods.values() if not pod.node_name and not pod.is_finished]

    def _best(self, pod: Any, names: Iterable[str]) -> str:
        states: list[NodeState] = [self.snapshot.nodes[name] for name in names]
        best = best_nodes(pod, list(self.snapshot.nodes.values()), states, {})
        return min(state.node.name for state in best)

    def _start(self) -> None:
        """Kubelets start what has come to their nodes."""
        for pod in list(self.snapshot.pods.values()):
            if pod.node_name and pod.phase == "Pending" and pod.name not in self.slow:
                self.snapshot.put(replace(pod, phase="Running"))

    def carry_out(self, action: Action) -> None:
        """Do what the executor would do."""
        match action:
            case CreatePlaceholder():
                self.create_placeholder(self.policy.shapes[action.shape], action.avoid)
            case DeletePlaceholder():
                assert self.snapshot.pods[action.key].uid == action.uid
                assert self.snapshot.pods[action.key].labels[names.COMPONENT] == names.PLACEHOLDER
                self.remove_pod(action.key)
            case LabelNode():
                obj = self.objects["Node", ObjectKey("", action.node)]
                obj["metadata"]["labels"].pop(action.label, None)
                if action.value is not None:
                    obj["metadata"]["labels"][action.label] = action.value
                self.apply(obj)
            case LabelPod():
                self.relabel("Pod", action.key, {action.label: action.value})
            case AddConsumer():
                claim = self.snapshot.claims[action.claim]
                if action.owner:
                    self.snapshot.put(replace(claim, owner_uids=(*claim.owner_uids, action.pod_uid)))
                if action.consumer and claim.claim.is_allocated:
                    reserve(self.snapshot, action.claim, self.snapshot.pods[action.pod])
            case DeleteClaim():
                assert self.snapshot.claims[action.claim].claim.uid == action.uid
                self.snapshot.remove_claim(action.claim)

    def create_placeholder(self, shape: Shape, avoid: Collection[str] = ()) -> None:
        """A placeholder is created, with its claims."""
        name = f"placeholder-{next(self._numbers)}"
        stamp = {"creationTimestamp": self.stamp()}
        for manifest in placeholder_claims(shape, name, SETTINGS):
            manifest["metadata"] |= {"uid": f"uid-{manifest['metadata']['name']}", **stamp}
            self.apply(manifest)
        pod = placeholder_pod(shape, name, SETTINGS, avoid)
        pod["metadata"] |= {"uid": f"uid-{name}", **stamp}
        pod["spec"]["priority"] = -10
        self.apply(pod)

    def reserve(self, claim: ObjectKey, pod: str, until: datetime) -> None:
        """A user is promised a warm claim."""
        since, end = (str(int(each.timestamp())) for each in (self.now, until))
        written = {names.RESERVED_FOR: pod, names.RESERVED_SINCE: since, names.RESERVED_UNTIL: end}
        self.relabel("ResourceClaim", claim, written)

    def reservation(self, placement: Placement, pod: str) -> str:
        """What `placeholders.placements` does: the warm claim is kept for a user.

        Returns
        -------
        str
            Name of its claim, of the first if there are more.
        """
        kept = placement.placeholder
        assert kept is not None
        for key in kept.claims:
            self.reserve(key, pod, self.now + timedelta(seconds=30))
            self.snapshot.put(replace(self.snapshot.claims[key], owner_uids=()))
        return kept.claims[0].name

    def relabel(self, kind: str, key: ObjectKey, changes: Mapping[str, str | None]) -> None:
        """Labels of a pod or a claim change; those with ``None`` go."""
        # The simulator's own objects say where a pod is and what a claim holds; only labels change.
        table: Any = self.snapshot.pods if kind == "Pod" else self.snapshot.claims
        item = table[key]
        merged = {name: value for name, value in {**item.labels, **changes}.items() if value is not None}
        self.snapshot.put(replace(item, labels=merged))

    def remove_pod(self, key: ObjectKey) -> None:
        """A pod goes, and with it the claims that it alone used and that are not reserved."""
        self.snapshot.remove_pod(key)
        obj = self.objects.pop(("Pod", key), None)
        # Claims of placeholders are owned by them and by those who took them over.
        for entry in (obj or {}).get("spec", {}).get("resourceClaims", ()):
            name = ObjectKey(key.namespace, entry.get("resourceClaimName", ""))
            claim = self.snapshot.claims.get(name)
            users = [pod for pod in self.snapshot.pods.values() if any(each.claim == name.name for each in pod.claims)]
            if claim is not None and not users and reservation_of(claim) is None:
                self.snapshot.remove_claim(name)

    def apply(self, obj: Json) -> None:
        """An object is created, or changed."""
        broken = self.snapshot.apply(obj)
        assert broken is None, broken
        metadata = obj["metadata"]
        self.objects[obj["kind"], ObjectKey(metadata.get("namespace", ""), metadata["name"])] = obj

    def stamp(self) -> str:
        """Now, as the API writes it."""
        return self.now.isoformat().replace("+00:00", "Z")

"""The two systems that keep placeholders, on a real control plane: what the autoscaler stand-in and the users meet.

Nodes are objects that nobody runs, but their leases are renewed. Decisions are made on what a `ClusterWatch` shows;
whatever is done is written to the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dra_spawner.cluster.api import KubernetesApi, resource_path
from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.cluster.start_objects import owner_reference
from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.kubelet.node_agent import NodeAgent
from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import Cause
from dra_spawner.headroom.placeholder_objects import PlaceholderSettings
from dra_spawner.headroom.policy import Headroom, Policy
from dra_spawner.headroom.shapes import Shape
from dra_spawner.headroom.simulated import simulated_placeholder
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.placeholders.carry_out import CarryOut
from dra_spawner.placeholders.placements import Promises
from dra_spawner.placeholders.reconciler import Reconciler
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.headroom.world import IMAGE, Json, gpu_slice, node_objects, user_manifest
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.quiet import Quiet, Rounds, waiting

PRIORITY_CLASS = "placeholders"
USER_SCHEDULER = "user-scheduler"
_DRA = "resource.k8s.io/v1"
#: Of a notebook's image: the scheduler prefers nodes that have it already.
_IMAGE_BYTES = 3 * 2**30

USER_SCHEDULER_PROFILE: Json = {
    "schedulerName": USER_SCHEDULER,
    "plugins": {
        "score": {
            "disabled": [
                {"name": name}
                for name in (
                    "NodeResourcesBalancedAllocation",
                    "NodeAffinity",
                    "InterPodAffinity",
                    "NodeResourcesFit",
                    "ImageLocality",
                )
            ],
            "enabled": [
                {"name": "NodeAffinity", "weight": 14631},
                {"name": "InterPodAffinity", "weight": 1331},
                {"name": "NodeResourcesFit", "weight": 121},
                {"name": "ImageLocality", "weight": 11},
            ],
        }
    },
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                }
            },
        }
    ],
}
"""As zero-to-jupyterhub configures its scheduler: it fills the fullest node, whoever fills it."""


class ClusterWorld:
    """What both systems have in common.

    Attributes
    ----------
    clock
        Everybody's time.
    claims
        Of each user's pod, by entry.
    """

    def __init__(
        self, api: KubernetesApi, watch: ClusterWatch, clock: JumpingClock, namespace: str, claims: Mapping[str, Json]
    ) -> None:
        self.api = api
        self.watch = watch
        self.clock = clock
        self.namespace = namespace
        self.claims = claims
        self.quiet = Quiet(watch)
        self._agent = NodeAgent(api, ScaledClock())
        self._to_do: list[Callable[[], Awaitable[None]]] = []

    evictions = 0
    """Placeholders that the system itself moved."""

    # --- what the autoscaler sees and does ----------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def snapshot(self) -> Snapshot:
        return self.watch.snapshot

    def waiting(self) -> list[Pod]:
        """Pods that the scheduler found no place for, as it says itself."""
        return [pod for pod in waiting(self.watch) if self._is_refused(ObjectKey.of(pod))]

    def _is_refused(self, key: ObjectKey) -> bool:
        seen = self.watch.observed(Kind.POD, key)
        scheduled = seen.conditions.get("PodScheduled") if seen is not None else None
        return scheduled is not None and scheduled.status == "False"

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        raise NotImplementedError

    def node_objects(self, name: str, cpu: str, gpus: int, memory: str, images: Iterable[str] = ()) -> list[Json]:
        return node_objects(name, cpu, gpus, memory, images, created="")

    def node(
        self, name: str, cpu: str = "10", gpus: int = 0, memory: str = "", images: Iterable[str] = (IMAGE,)
    ) -> None:
        self._to_do.append(lambda: self._make_node(self.node_objects(name, cpu, gpus, memory, images)))

    def slice(self, node: str, gpus: int, memory: str = "") -> None:
        self._to_do.append(
            lambda: self._create(_DRA, "resourceslices", gpu_slice(node, gpus, memory), namespaced=False)
        )

    def pull(self, node: str) -> None:
        path = resource_path("v1", "nodes", name=node, subresource="status")

        async def report() -> None:
            await self.api.patch(path, {"status": {"images": [_image(IMAGE)]}})

        self._to_do.append(report)

    def remove_node(self, name: str) -> None:
        self._to_do.append(lambda: self._drain(name))

    async def flush(self) -> None:
        """Write what is to be done, and see it."""
        to_do, self._to_do = self._to_do, []
        for each in to_do:
            await each()
            self.quiet.stir()

    async def _make_node(self, objects: list[Json]) -> None:
        node, *slices = objects
        status = node["status"]
        status["capacity"] = status["allocatable"]
        status["images"] = [_image(each["names"][0]) for each in status["images"]]
        node["metadata"].pop("creationTimestamp")
        await self._agent.register(node)
        await self._agent.wait_schedulable()
        for each in slices:
            await self._create(_DRA, "resourceslices", each, namespaced=False)
        name = node["metadata"]["name"]
        await self.until(lambda: name in self.snapshot.nodes, f"node {name}")

    async def _drain(self, name: str) -> None:
        """Nothing new comes to a node, then its pods go, then itself."""
        await self.api.patch(resource_path("v1", "nodes", name=name), {"spec": {"unschedulable": True}})
        await self.until(lambda: self.snapshot.nodes[name].node.is_unschedulable, f"node {name} cordoned")
        for pod in list(self.snapshot.nodes[name].pods):
            assert pod.labels[labels.COMPONENT] == labels.PLACEHOLDER, f"{pod.name} is no placeholder"
            await self._delete_pod(pod.namespace, pod.name)
        await self._agent.remove(name)
        if f"{name}-gpus" in self.snapshot.slices:
            await self.api.delete(resource_path(_DRA, "resourceslices", name=f"{name}-gpus"))
        await self.until(lambda: name not in self.snapshot.nodes, f"node {name} gone")

    # --- users ----------------------------------------------------------------------------------------------------------

    async def arrive(self, name: str) -> None:
        """A user starts a server."""
        raise NotImplementedError

    async def leave(self, name: str) -> None:
        """A user's server ends, and with it what it owns."""
        await self._delete_pod(self.namespace, name)
        self.quiet.stir()

    async def settle(self) -> None:
        """Whoever decides by time looks at it anew."""

    async def _user(self, name: str, given: Mapping[str, str], **spec: Any) -> None:
        """A user's pod, with claims that are there (by entry) or of its own, whose templates go with it."""
        entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in given.items()]
        templates = [] if given else [self._template(f"{name}-{entry}", entry) for entry in self.claims]
        for entry, template in zip(self.claims, templates, strict=False):
            await self._create(_DRA, "resourceclaimtemplates", template)
            entries.append({"name": entry, "resourceClaimTemplateName": template["metadata"]["name"]})
        manifest = user_manifest(name, self.claims, terminationGracePeriodSeconds=0, **spec)
        manifest["metadata"]["namespace"] = self.namespace
        if entries:
            manifest["spec"]["resourceClaims"] = entries
        self.label_user(manifest)
        pod = await self.api.create(resource_path("v1", "pods", self.namespace), manifest)
        for template in templates:
            path = resource_path(_DRA, "resourceclaimtemplates", self.namespace, template["metadata"]["name"])
            owners = [owner_reference(name, pod["metadata"]["uid"])]
            await self.api.patch(path, {"metadata": {"ownerReferences": owners}})
        self.quiet.stir()

    def label_user(self, manifest: Json) -> None:
        """What the system wants to know of a user's pod."""

    def _template(self, name: str, entry: str) -> Json:
        return {"metadata": {"name": name}, "spec": {"spec": self.claims[entry]}}

    # --- inside ---------------------------------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Nodes that are not heard of get a taint."""
        await self._agent.heartbeat_forever()

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 (what is looked at is not always a change)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pods = {pod.name: (pod.node_name, pod.is_gated) for pod in self.snapshot.pods.values()}
            raise AssertionError(f"not seen within {seconds:g} s: {what}; pods: {pods}") from None

    async def _delete_pod(self, namespace: str, name: str) -> None:
        path = resource_path("v1", "pods", namespace, name)
        await self.api.delete(path, grace_period_seconds=0, missing_ok=True)

    async def _create(self, group: str, plural: str, obj: Json, namespaced: bool = True) -> None:
        await self.api.create(
            resource_path(group, plural, self.namespace if namespaced else None), {"apiVersion": group, **obj}
        )


class Ours(ClusterWorld):
    """Placeholders by the service's own reconciler, placements by its promises."""

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        clock: JumpingClock,
        namespace: str,
        claims: Mapping[str, Json],
        shape: Shape,
        headroom: Headroom,
    ) -> None:
        super().__init__(api, watch, clock, namespace, claims)
        self.shape = shape
        self.policy = Policy(shapes={shape.id: shape}, headroom={shape.id: headroom})
        self.decisions = DecisionLog(limit=100_000)
        carry_out = CarryOut(
            api,
            PlaceholderSettings(namespace=namespace, priority_class=PRIORITY_CLASS),
            may_act=lambda: None,
            new_name=lambda each: f"placeholder-{each.id[:6]}-{secrets.token_hex(3)}",
        )
        self.reconciler = Reconciler(
            watch, lambda: self.policy, carry_out, self.decisions, frozenset((namespace,)), now=clock.now
        )
        self.promises = Promises(api, self.reconciler, lambda: None)
        self.rounds = Rounds(self.reconciler)
        self.quiet.is_busy = self.rounds.has_work

    @property
    def evictions(self) -> int:  # type: ignore[override]
        codes = {cause.value for cause in Cause if cause.is_eviction}
        made = self.decisions.newest(self.decisions.count, matches=lambda each: each.kind == "end-placeholder")
        return sum(each.decision.code in codes for each in made)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        return simulated_placeholder(self.shape, self.namespace, f"{placeholder.name}-again")

    async def arrive(self, name: str) -> None:
        """As the spawner does: ask where, then make the pod as the answer says."""
        promise = await self.promises.place(self.shape, self.namespace, name)
        spec: Json = {"schedulingGates": [{"name": gate} for gate in promise.gates]} if promise.gates else {}
        if promise.placement.node:
            here = [{"key": "metadata.name", "operator": "In", "values": [promise.placement.node]}]
            preferred = [{"weight": 100, "preference": {"matchFields": here}}]
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        await self._user(name, promise.claims, **spec)

    def label_user(self, manifest: Json) -> None:
        manifest["metadata"]["labels"][labels.SHAPE] = self.shape.id

    async def settle(self) -> None:
        await self.rounds.another()


class Recipe(ClusterWorld):
    """Placeholders as in zero-to-jupyterhub's chart: one StatefulSet, whose pods its scheduler preempts for users."""

    async def install(self, placeholders: int) -> None:
        """What the chart installs."""
        for entry in self.claims:
            await self._create(_DRA, "resourceclaimtemplates", self._template(self._template_name(entry), entry))
        stateful_set = {
            "kind": "StatefulSet",
            "metadata": {"name": labels.PLACEHOLDER},
            "spec": {
                "replicas": placeholders,
                "podManagementPolicy": "Parallel",
                "serviceName": labels.PLACEHOLDER,
                "selector": {"matchLabels": {labels.COMPONENT: labels.PLACEHOLDER}},
                "template": self._placeholder(),
            },
        }
        await self._create("apps/v1", "statefulsets", stateful_set)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        manifest = self._placeholder()
        name = f"{placeholder.name}-again"
        manifest["metadata"] |= {"name": name, "namespace": self.namespace, "uid": name}
        manifest["spec"]["priority"] = placeholder.priority
        return Pod.from_json(manifest), ()

    async def arrive(self, name: str) -> None:
        await self._user(name, {}, requires_ready=False, schedulerName=USER_SCHEDULER)

    def _placeholder(self) -> Json:
        manifest = user_manifest("", self.claims, requires_ready=False, terminationGracePeriodSeconds=0)
        entries = [{"name": entry, "resourceClaimTemplateName": self._template_name(entry)} for entry in self.claims]
        return {
            "metadata": {"labels": {labels.COMPONENT: labels.PLACEHOLDER}},
            "spec": {
                **manifest["spec"],
                **({"resourceClaims": entries} if entries else {}),
                "schedulerName": USER_SCHEDULER,
                "priorityClassName": PRIORITY_CLASS,
            },
        }

    @staticmethod
    def _template_name(entry: str) -> str:
        return f"{labels.PLACEHOLDER}-{entry}"


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path, clock: JumpingClock) -> AsyncIterator[tuple[VirtualTimeApi, ClusterWatch]]:
    """A cluster in the clock's time."""
    async with await VirtualTimeApi.connect(kubeconfig, Stamps(clock)) as api, ClusterWatch(api) as watch:
        await watch.wait_synced()
        yield api, watch


async def prepare(api: KubernetesApi) -> None:
    """What is there before any node is."""
    device_class = {"apiVersion": _DRA, "metadata": {"name": "gpu.example.com"}, "spec": {}}
    await api.create(resource_path(_DRA, "deviceclasses"), device_class)
    group = "scheduling.k8s.io/v1"
    await api.create(
        resource_path(group, "priorityclasses"),
        {"apiVersion": group, "metadata": {"name": PRIORITY_CLASS}, "value": -10},
    )


@contextlib.asynccontextmanager
async def at_work(world: ClusterWorld) -> AsyncIterator[None]:
    """The nodes' leases are renewed, and our reconciler is at work."""
    work = [world.beat()]
    if isinstance(world, Ours):
        work.append(world.reconciler.run())
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
        assert not any(task.done() for task in tasks), tasks
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _image(name: str) -> Json:
    return {"names": [name], "sizeBytes": _IMAGE_BYTES}

"""A cluster as the autoscaler stand-in and the users see it, on a real control plane.

Time jumps as in `tests.placeholders.planner.simulated_cluster`, but the scheduler, the API server and the watches are real.
Nodes are objects without machines, but their leases are renewed. Decisions are made on the objects of a
`ClusterWatch`; all changes are written to the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from dra_spawner import names
from dra_spawner.devcluster.clock import ScaledClock, timestamp
from dra_spawner.devcluster.kubelet.node_agent import NodeAgent
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.owner_references import owner_reference
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.cluster.instant_kubelet import InstantKubelet
from tests.placeholders.planner.objects import IMAGE, Json, gpu_slice, node_objects, user_manifest
from tests.polling import PATIENCE_SECONDS, eventually
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.quiet import Quiet, waiting

DRA = "resource.k8s.io/v1"
#: The size of a notebook's image: the scheduler prefers nodes that have the image.
_IMAGE_BYTES = 3 * 2**30


class ClusterWorld:
    """The common parts of both systems.

    Attributes
    ----------
    clock
        The time of all parts.
    claims
        The claims of each user's pod, by entry.
    pod_address
        The address of every pod, for a hub that checks its servers.
    """

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        clock: JumpingClock,
        namespace: str,
        claims: Mapping[str, Json],
        pod_address: str = "",
    ) -> None:
        self.api = api
        self.watch = watch
        self.clock = clock
        self.namespace = namespace
        self.claims = claims
        self.quiet = Quiet(watch)
        self._agent = NodeAgent(api, ScaledClock())
        self._to_do: list[Callable[[], Awaitable[None]]] = []
        # A scheduler that preempts prefers victims that began recently.
        self._kubelet = InstantKubelet(api, watch, lambda: timestamp(clock.real_now()), pod_address)

    @property
    def evictions(self) -> int:
        """Placeholders that the system itself evicted."""
        return 0

    # --- what the autoscaler sees and does ----------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def snapshot(self) -> Snapshot:
        return self.watch.snapshot

    def pending_pods(self) -> list[Pod]:
        """Pods that are unschedulable by the scheduler's own report."""
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
        self._to_do.append(lambda: self._publish(gpu_slice(node, gpus, memory)))

    def pull(self, node: str) -> None:
        self._to_do.append(lambda: self._report_image(node))

    def remove_node(self, name: str) -> None:
        self._to_do.append(lambda: self._drain(name))

    async def flush(self) -> None:
        """Write all pending changes, and wait until the watch shows them."""
        to_do, self._to_do = self._to_do, []
        for each in to_do:
            await each()

    async def _make_node(self, objects: list[Json]) -> None:
        node, *slices = objects
        status = node["status"]
        status["capacity"] = status["allocatable"]
        status["images"] = [_image(each["names"][0]) for each in status["images"]]
        node["metadata"].pop("creationTimestamp")
        await self._agent.register(node)
        for each in slices:
            await self._publish(each)
        name = node["metadata"]["name"]
        # The autoscaler decides by this view. A new node is tainted until the control plane has seen that it is ready;
        # for pods that do not fit on a tainted node, the autoscaler would order a second one.
        await self.until(lambda: self._is_untainted(name), f"node {name} without taints")

    def _is_untainted(self, name: str) -> bool:
        state = self.snapshot.nodes.get(name)
        return state is not None and not state.node.taints

    async def _publish(self, devices: Json) -> None:
        await self.create(DRA, "resourceslices", devices, namespaced=False)
        name = devices["metadata"]["name"]
        await self.until(lambda: name in self.snapshot.slices, f"slice {name}")

    async def _report_image(self, node: str) -> None:
        path = resource_path("v1", "nodes", name=node, subresource="status")
        await self.api.patch(path, {"status": {"images": [_image(IMAGE)]}})
        await self.until(lambda: IMAGE in self.snapshot.nodes[node].node.images, f"image on node {node}")

    async def _drain(self, name: str) -> None:
        """Cordon a node, delete its pods, then the node; it stays if a user's pod was faster."""
        path = resource_path("v1", "nodes", name=name)
        await self.api.patch(path, {"spec": {"unschedulable": True}})
        await self.until(lambda: self.snapshot.nodes[name].node.is_unschedulable, f"node {name} cordoned")
        pods = list(self.snapshot.nodes[name].pods)
        if any(pod.labels[names.COMPONENT] != names.PLACEHOLDER for pod in pods):
            await self.api.patch(path, {"spec": {"unschedulable": None}})
            await self.until(lambda: not self.snapshot.nodes[name].node.is_unschedulable, f"node {name} uncordoned")
            return
        for pod in pods:
            await self._delete_pod(pod.namespace, pod.name)
        await self._agent.remove(name)
        if f"{name}-gpus" in self.snapshot.slices:
            await self.api.delete(resource_path(DRA, "resourceslices", name=f"{name}-gpus"))
        await self.until(lambda: name not in self.snapshot.nodes, f"node {name} gone")

    # --- users ----------------------------------------------------------------------------------------------------------

    async def arrive(self, name: str) -> None:
        """A user starts a server."""
        raise NotImplementedError

    async def leave(self, name: str) -> None:
        """A user's server ends, and its objects with it."""
        await self._delete_pod(self.namespace, name)
        await self.until(lambda: ObjectKey(self.namespace, name) not in self.snapshot.pods, f"pod {name} gone")

    async def settle(self) -> None:
        """Let all parts that decide by the time decide again."""

    async def install(self) -> None:
        """Objects that the system needs before it begins."""

    async def work(self) -> None:
        """Run the system, until cancelled."""

    async def user(self, name: str, given: Mapping[str, str], **spec: Any) -> None:
        """A user's pod, with existing claims (by entry) or its own, whose templates are deleted with it."""
        entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in given.items()]
        templates = [] if given else [self.template(f"{name}-{entry}", entry) for entry in self.claims]
        for entry, template in zip(self.claims, templates, strict=False):
            await self.create(DRA, "resourceclaimtemplates", template)
            entries.append({"name": entry, "resourceClaimTemplateName": template["metadata"]["name"]})
        manifest = user_manifest(name, self.claims, terminationGracePeriodSeconds=0, **spec)
        manifest["metadata"]["namespace"] = self.namespace
        if entries:
            manifest["spec"]["resourceClaims"] = entries
        self.label_user(manifest)
        pod = await self.api.create(resource_path("v1", "pods", self.namespace), manifest)
        for template in templates:
            path = resource_path(DRA, "resourceclaimtemplates", self.namespace, template["metadata"]["name"])
            owners = [owner_reference(name, pod["metadata"]["uid"])]
            await self.api.patch(path, {"metadata": {"ownerReferences": owners}})
        await self.until(lambda: ObjectKey(self.namespace, name) in self.snapshot.pods, f"pod {name}")

    def label_user(self, manifest: Json) -> None:
        """Add the labels that the system needs on a user's pod."""

    def template(self, name: str, entry: str) -> Json:
        return {"metadata": {"name": name}, "spec": {"spec": self.claims[entry]}}

    # --- inside ---------------------------------------------------------------------------------------------------------

    async def run_nodes(self) -> None:
        """Report nodes to the control plane: their leases (otherwise they get a taint), and the status of pods."""
        await asyncio.gather(self._agent.heartbeat_forever(), self._kubelet.run())

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        def pods() -> dict[str, tuple[str, bool]]:
            return {pod.name: (pod.node_name, pod.is_gated) for pod in self.snapshot.pods.values()}

        await eventually(condition, what, seconds, shows=pods, pause_seconds=0.005)

    async def _delete_pod(self, namespace: str, name: str) -> None:
        path = resource_path("v1", "pods", namespace, name)
        await self.api.delete(path, grace_period_seconds=0, missing_ok=True)

    async def create(self, group: str, plural: str, obj: Json, namespaced: bool = True) -> None:
        await self.api.create(
            resource_path(group, plural, self.namespace if namespaced else None), {"apiVersion": group, **obj}
        )


def _image(name: str) -> Json:
    return {"names": [name], "sizeBytes": _IMAGE_BYTES}

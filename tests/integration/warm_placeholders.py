"""A hub's side with placeholders: its service is a reconciler in this process, at the address that the hub asks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.policy import Grace, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.service.http.api.placement_handler import reservation_json
from dra_spawner.spawner.placement.pod import manifest_of, shape_of_pod
from dra_spawner.spawner.server_context import parts_of
from tests.cluster.fault_proxy import FaultProxy, Request
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, priority_class, whole
from tests.integration.faulty_hub import LEFT_BEHIND, TEMPLATES, Faulty, hub_behind_proxy
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.polling import eventually
from tests.presence import present
from tests.spawner.hub_side import HubSide
from tests.spawner.service_stand_in import ServiceStandIn, service_of_the_hub

IMAGE = "example/notebook:1"
#: As test profiles ask for it.
WHOLE = {"gpu": {"device_class": "gpu.example.com"}}
SHARE = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}


class WarmPlaceholders(Faulty):
    """A hub's side, and placeholders for its servers; the reconciler's requests do not go through the proxy.

    Attributes
    ----------
    world
        The reconciler and its view of the cluster; None before `with_placeholders`.
    reserved
        Warm claims that were reserved, by the name of a pod.
    """

    def __init__(self, cluster: ClusterUnderTest, proxy: FaultProxy, side: HubSide, service: ServiceStandIn) -> None:
        super().__init__(cluster, proxy, side)
        self.service = service
        self.world: PlaceholderWorld | None = None
        self.reserved: dict[str, set[str]] = {}
        self._shape: Shape | None = None

    @property
    def shape(self) -> Shape:
        """Shape of the servers that have placeholders; there is none before `with_placeholders`."""
        return present(self._shape)

    async def shape_of_servers(self) -> Shape:
        """Return the shape of a server that a user would start now."""
        spawner = self.side.user("somebody").spawner
        await spawner.load_user_options()
        pod = await spawner.get_pod_manifest()
        specs = {
            each["metadata"]["name"]: each["spec"]["spec"]
            for each in parts_of(spawner).start.attempt.objects.templates.values()
        }
        found = shape_of_pod(manifest_of(pod, spawner.api.api_client), specs)
        assert found is not None
        return found

    @contextlib.asynccontextmanager
    async def with_placeholders(
        self,
        number: int,
        most: int | None = None,
        kubeconfig: Path | None = None,
        reservation_seconds: float = 30,
        gpus: int = 0,
    ) -> AsyncIterator[PlaceholderWorld]:
        """Run the service with a number of warm placeholders for the current configuration; it answers the hub.

        Parameters
        ----------
        gpus
            Whole GPUs of a node that is added.
        kubeconfig
            Kubeconfig of the reconciler; by default the administrator's, without the proxy.
        reservation_seconds
            Length of a reservation; short where a test waits for its end.
        """
        if gpus:
            await self.cluster.publish(*node("node-a", *(whole(f"gpu-{each}") for each in range(gpus))))
        shape = self._shape = await self.shape_of_servers()
        replicas = ReplicaRange(number, most or number + 20)
        async with at_work(self.cluster, (shape, replicas), kubeconfig=kubeconfig) as world:
            self.world = world
            grace = Grace(orphan=timedelta(seconds=3), reservation=timedelta(seconds=reservation_seconds))
            world.policy = replace(world.policy, grace=grace)
            self.service.answer = self._answer
            # Without placeholders there is nothing else to wait for, and the hub may ask before anything is known.
            await world.until(lambda: world.watch.synced and len(world.warm(shape)) == number)
            yield world

    async def _answer(self, question: dict[str, Any]) -> Any:
        assert self.world is not None
        if question["shape"] != self.shape.id:
            return web.json_response({"kind": "unknown", "message": "not published"}, status=404)
        return await self.reserve_for(question["pod"], question["namespace"])

    async def reserve_for(self, pod: str, namespace: str = "") -> dict[str, Any]:
        """Reserve a placeholder for a pod; the answer of the service."""
        assert self.world is not None
        reservation = await self.world.reservations.place(self.shape, namespace or self.cluster.namespace, pod)
        self.world.reconciler.wake()
        self.reserved.setdefault(pod, set()).update(reservation.claims.values())
        return reservation_json(reservation)

    def is_about(self, user: str, request: Request) -> bool:
        return super().is_about(user, request) or request.name in self.reserved.get(f"jupyter-{user}", ())

    def said(self, user: str = "ada") -> list[str]:
        """The messages of this project on the progress page."""
        spawner = self.user(user).spawner
        return [
            event["message"]
            for event in parts_of(spawner).page.progress.messages.with_events([])
            if event.get("reason") == "WaitingForDevices"
        ]

    async def claim_of(self, user: str = "ada") -> dict[str, Any]:
        """The claim that the only entry of a pod names, or that was made for it."""
        pod = await self.pod(user)
        (entry,) = pod["spec"]["resourceClaims"]
        name = entry.get("resourceClaimName")
        if name is None:
            (status,) = pod["status"]["resourceClaimStatuses"]
            name = status["resourceClaimName"]
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", name))

    async def only_the_pod_uses_it(self, user: str = "ada") -> dict[str, Any]:
        """Wait until the pod is the only consumer of its claim; the claim."""
        claim: dict[str, Any] = {}

        async def is_only_its() -> bool:
            claim.clear()
            claim.update(await self.claim_of(user))
            consumers = [(each["resource"], each["name"]) for each in claim["status"].get("reservedFor", ())]
            return consumers == [("pods", f"jupyter-{user}")]

        await eventually(is_only_its, f"only jupyter-{user} uses its claim", shows=lambda: claim)
        return claim

    async def stop_last(self) -> None:
        await self.stop()
        await self.only_placeholders_are_left()

    async def only_placeholders_are_left(self) -> None:
        """Wait until there is no user's pod, no template, and no claim except the warm claims that are not reserved."""

        found: list[str] = []

        async def are_gone() -> bool:
            found.clear()
            lists = {plural: await self.items(plural) for plural in LEFT_BEHIND}
            found.extend(f"template {each['metadata']['name']}" for each in lists[TEMPLATES])
            warm_claims = set()
            for pod in lists["pods"]:
                if pod["metadata"]["labels"].get(names.COMPONENT) == names.PLACEHOLDER:
                    warm_claims |= {entry["resourceClaimName"] for entry in pod["spec"].get("resourceClaims", ())}
                else:
                    found.append(f"pod {pod['metadata']['name']}")
            for claim in lists["resourceclaims"]:
                marks = claim["metadata"]["labels"]
                if claim["metadata"]["name"] not in warm_claims or names.RESERVED_FOR in marks:
                    found.append(f"claim {claim['metadata']['name']} {marks}")
            return not found

        await eventually(are_gone, "nothing but placeholders is left", shows=lambda: found)


def pods_of(claim: dict[str, Any]) -> list[str]:
    """Names of the pods that a claim is reserved for."""
    return [each["name"] for each in claim["status"].get("reservedFor", ()) if each["resource"] == "pods"]


def node(name: str, *devices: dict[str, Any]) -> list[dict[str, Any]]:
    """A node that has the image of users' servers."""
    return node_with(name, *devices, images=[IMAGE])


@contextlib.asynccontextmanager
async def warm_placeholders(
    cluster: ClusterUnderTest, proxy_class: Callable[..., FaultProxy] = FaultProxy, **kubelet_options: Any
) -> AsyncIterator[WarmPlaceholders]:
    """A hub's side on a cluster that has classes and no nodes yet."""
    async with (
        hub_behind_proxy(cluster, proxy_class, **kubelet_options) as (proxy, side),
        ServiceStandIn().listening() as service,
    ):
        await cluster.publish(*classes(), priority_class())
        with service_of_the_hub(service.url):
            config = side.spawner_config
            config.image = IMAGE
            # A second is little on a busy machine.
            config.placement_wait_seconds = 30
            config.device_claims = WHOLE
            yield WarmPlaceholders(cluster, proxy, side, service)

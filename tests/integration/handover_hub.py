"""A hub with a service that keeps placeholders warm, both as processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from dra_spawner import names
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, image_list, node_with, priority_class, shareable
from tests.integration.hub_process import HubProcess
from tests.integration.hub_with_service import CONFIG
from tests.integration.service_process import free_url
from tests.polling import eventually

IMAGE = "this-machine/quick-server:1"
#: The shipped profile of this name: 10Gi of a GPU's memory.
PROFILE = {"profile": "gpu-slice"}
WANTED = 3
Json = dict[str, Any]


class Hub(HubProcess):
    """A hub that manages the service as the shipped configuration says, with more configuration and settings of it."""

    def __init__(
        self,
        cluster: ClusterUnderTest,
        kubeconfig: Path,
        more: str = "",
        lease_seconds: int = 15,
        settings: str = "",
    ) -> None:
        directory = cluster.directory / "hub"
        directory.mkdir()
        service_config = directory / "service_config.py"
        service_config.write_text(
            f"c.DRASpawnerService.placeholders = {{'gpu-slice': {{'min': {WANTED}, 'max': 20}}}}\n"
            f"c.DRASpawnerService.lease_seconds = {lease_seconds}\n"
            "c.DRASpawnerService.reservation_seconds = 30\n"
            f"{settings}"
        )
        self.service_url = free_url()
        text = f"""
load_subconfig({str(CONFIG)!r})
c.JupyterHub.services[-1]["url"] = {self.service_url!r}
c.JupyterHub.services[-1]["command"] += ["--config", {str(service_config)!r}]
c.JupyterHub.services[-1]["environment"] |= {{"KUBECONFIG": {str(kubeconfig)!r}, "POD_NAMESPACE": {cluster.namespace!r}}}
c.Authenticator.admin_users = {{"admin"}}
# This machine may be busy with other things.
c.DRASpawner.placement_wait_seconds = 20
c.DRASpawner.k8s_api_request_timeout = 20
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
"""
        super().__init__(directory, cluster.hub_kubeconfig, cluster.namespace, text + more)
        self.cluster = cluster

    async def items(self, plural: str) -> list[Json]:
        return await items(self.cluster, plural)

    async def placeholders(self) -> list[Json]:
        return await placeholders_of(self.cluster)

    async def until_service_ready(self) -> None:
        """Wait until the service has read the cluster and knows its leader."""
        async with aiohttp.ClientSession() as session:

            async def is_ready() -> bool:
                async with session.get(f"{self.url}/services/dra-spawner/readyz") as answer:
                    return answer.status == 200

            await eventually(is_ready, "the service is ready", pause_seconds=0.1)

    async def until_warm(self, count: int = WANTED) -> None:
        """Wait until so many placeholders are warm for the service."""
        await self.until_service_ready()
        headers = await self.administrator_headers()

        async def all_warm() -> bool:
            url = f"{self.url}/services/dra-spawner/api/placeholders"
            async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
                items = (await answer.json())["items"] if answer.status == 200 else []
                return sum(each["state"] == "warm" for each in items) == count

        await eventually(all_warm, "placeholders are warm", pause_seconds=0.1)

    async def claim_of(self, user: str) -> Json:
        pod = await self.cluster.admin.get(self.cluster.path("pods", f"jupyter-{user}"))
        (entry,) = pod["spec"]["resourceClaims"]
        name = entry.get("resourceClaimName") or pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", name))

    async def decisions(self) -> list[Json]:
        """Return the decisions of the service, as an administrator reads them."""
        headers = await self.administrator_headers()
        url = f"{self.url}/services/dra-spawner/api/decisions?limit=1000"
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            assert answer.status == 200, await answer.text()
            return (await answer.json())["items"]

    async def administrator_headers(self) -> dict[str, str]:
        await self.add_user("admin")
        status, body = await self.request("POST", "/users/admin/tokens", {})
        assert status == 201, body
        return {"Authorization": f"token {body['token']}"}

    async def reserve(self, user: str, pod: str) -> Json:
        """Reserve a warm placeholder for a pod, with the token of a user that may do so."""
        status, body = await self.request("POST", f"/users/{user}/tokens", {})
        assert status == 201, body
        placeholder = next(each for each in await self.placeholders() if each["spec"].get("nodeName"))
        question = {
            "shape": placeholder["metadata"]["labels"][names.SHAPE],
            "pod": pod,
            "namespace": self.cluster.namespace,
        }
        headers = {"Authorization": f"token {body['token']}"}
        url = f"{self.url}/services/dra-spawner/api/placements"
        async with aiohttp.ClientSession(headers=headers) as session, session.post(url, json=question) as answer:
            found: Json = await answer.json()
            assert (answer.status, bool(found["claims"])) == (200, True), found
            return found

    async def service_process(self) -> int:
        """Wait until the hub has started the service; the process id of the service."""

        async def find() -> int:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                    command = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                if parent == self.process.pid and b"dra_spawner.service" in command:
                    return int(process.name)
            return 0

        return await eventually(find, "the hub has started the service")

    async def only_placeholders_are_left(self) -> None:
        async def none() -> bool:
            placeholders = await self.placeholders()
            warm_claims = {
                entry["resourceClaimName"] for pod in placeholders for entry in pod["spec"]["resourceClaims"]
            }
            claims = {claim["metadata"]["name"] for claim in await self.items("resourceclaims")}
            pods = await self.items("pods")
            return (
                not await self.items("resourceclaimtemplates")
                and claims <= warm_claims
                and len(pods) == len(placeholders)
            )

        await eventually(none, "nothing but placeholders is left", within_seconds=120)


async def items(cluster: ClusterUnderTest, plural: str) -> list[Json]:
    """All objects of a kind in a test's namespace."""
    found: list[Json] = (await cluster.admin.list(cluster.path(plural)))["items"]
    return found


async def placeholders_of(cluster: ClusterUnderTest) -> list[Json]:
    """Pods of placeholders that are not being deleted."""
    return [
        pod
        for pod in await items(cluster, "pods")
        if pod["metadata"]["labels"].get(names.COMPONENT) == names.PLACEHOLDER
        and "deletionTimestamp" not in pod["metadata"]
    ]


async def prepare(cluster: ClusterUnderTest, *more: Json) -> None:
    """Two nodes with twelve shares of 10Gi, and more nodes and slices; all have the image. And the shipped priority."""
    objects = [*node_with("node-a", shareable("gpu-0"), shareable("gpu-1")), *node_with("node-b", shareable("gpu-0"))]
    objects += more
    for each in objects:
        if each["kind"] == "Node":
            each["status"]["images"] = image_list([IMAGE])
    await cluster.publish(*classes(), priority_class(), *objects)


def messages(events: list[Json]) -> list[str]:
    return [event["message"] for event in events]

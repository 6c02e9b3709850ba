"""A hub with the values that the notes print, and the service with the chart's environment, settings and account.

Both are processes, below another base URL than `/`, on a real control plane.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from dra_spawner.json_types import JsonObject
from tests.chart.applied import kubeconfig_of
from tests.chart.installed import installed
from tests.chart.rendering import IMAGE, hub_values, of_kind
from tests.cluster.policy import until_in_force
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import PROFILE, placeholders_of, prepare
from tests.integration.hub_process import HubProcess
from tests.integration.service_process import ServiceProcess
from tests.polling import eventually

NAME = "gpus"
TOKEN = "5" * 32
VALUES: JsonObject = {
    **IMAGE,
    "hub": {"baseUrl": "/jupyter", "serviceName": NAME},
    "placeholders": {"enabled": True, "targets": {"gpu-slice": {"min": 1, "max": 2}}},
    "service": {"config": {"lease_seconds": 60}},
}


class HubBelow(HubProcess):
    """A hub whose base URL is ``/jupyter/``."""

    @property
    def url(self) -> str:
        return f"{super().url}/jupyter"


def as_configuration(printed: JsonObject, service_url: str) -> str:
    """The configuration that zero-to-jupyterhub makes of these values."""
    hub = printed["hub"]
    services = [{"name": name, "api_token": TOKEN, **each} for name, each in hub["services"].items()]
    roles = [{"name": name, **role} for name, role in hub["loadRoles"].items()]
    return f"""
c.JupyterHub.services += {services!r}
c.JupyterHub.services[-1]["url"] = {service_url!r}
c.JupyterHub.load_roles += {roles!r}
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
c.JupyterHub.custom_scopes = {hub["config"]["JupyterHub"]["custom_scopes"]!r}
c.Authenticator.admin_users = {{"admin"}}
c.DRASpawner.placement_wait_seconds = 20
c.DRASpawner.k8s_api_request_timeout = 20
{"".join(hub["extraConfig"].values())}
"""


async def test_page_and_placements_below_a_base_url(real_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    cluster = real_cluster
    await prepare(cluster)
    async with installed(cluster, VALUES, release=NAME) as objects:
        account = of_kind(objects, "ServiceAccount")["metadata"]["name"]
        policy = of_kind(objects, "ValidatingAdmissionPolicy", "-makes-leases")["metadata"]["name"]
        await until_in_force(cluster.admin, cluster.namespace, account, policy)
        for name, text in of_kind(objects, "ConfigMap", "-service")["data"].items():
            (tmp_path / name).write_text(text)
        (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        service = ServiceProcess(
            tmp_path,
            **environment,
            JUPYTERHUB_API_TOKEN=TOKEN,
            KUBECONFIG=str(await kubeconfig_of(cluster, account)),
            POD_NAMESPACE=cluster.namespace,
        )
        printed = hub_values(VALUES, release=NAME, namespace=cluster.namespace)
        more = as_configuration(printed, service.url)
        hub = HubBelow(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more)
        # The hub is another process of this machine, not a Service.
        service.environment["JUPYTERHUB_API_URL"] = hub.api_url + urlsplit(environment["JUPYTERHUB_API_URL"]).path
        # The hub waits for a service that does not answer.
        async with service, hub:
            await hub.add_user("admin")
            status, body = await hub.request("POST", "/users/admin/tokens", {})
            headers = {"Authorization": f"token {body['token']}"}

            async def is_warm() -> bool:
                address = f"{hub.url}/services/{NAME}/api/placeholders"
                async with aiohttp.ClientSession(headers=headers) as session, session.get(address) as answer:
                    if answer.status != 200:
                        return False
                    return any(each["state"] == "warm" for each in (await answer.json())["items"])

            await eventually(is_warm, "a placeholder is warm")
            warm_claims = {
                entry["resourceClaimName"]
                for pod in await placeholders_of(cluster)
                for entry in pod["spec"]["resourceClaims"]
            }
            # The hub's question reached the service, and the answer was a warm claim.
            status, body = await hub.spawn("ada", PROFILE)
            assert status in (201, 202), body
            await hub.until_ready("ada")
            pod = await cluster.admin.get(cluster.path("pods", "jupyter-ada"))
            assert pod["spec"]["resourceClaims"][0].get("resourceClaimName") in warm_claims
            # A browser's request did, too, through the proxy; the service asked the hub for the user.
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{hub.url}/services/{NAME}/api/status") as answer,
            ):
                assert answer.status == 200, await answer.text()
                # It may also say that the hub did not answer yet, as it started first.
                assert "lacks" not in str((await answer.json())["problems"])
            await hub.stop_server("ada")

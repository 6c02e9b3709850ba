"""The service as a process: beside a real hub, and alone with the rights that are shipped."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import aiohttp
import pytest

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.cluster.access import service_token
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_with_service import TOKEN, Service, hub_with_service, log_in
from tests.integration.service_process import ServiceProcess
from tests.polling import eventually
from tests.slow_service import slow_service


async def programs_are_let_in_by_scope(service: Service) -> None:
    expected = {"admin": 200, "watcher": 200, "operator": 200, "user": 403}
    for user, status in expected.items():
        token = await service.token(user)
        for path in (
            "api/nodes",
            "api/decisions",
            "api/placeholders",
            "api/pending-servers",
            "api/profiles",
            "api/status",
            "metrics",
            "",
        ):
            found, headers, body = await service.get(path, token)
            # All users are led to the page that they may open.
            assert found == (302 if (user, path) == ("user", "") else status), (user, path, body)
            assert "Access-Control-Allow-Origin" not in headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
    refused = (await service.get("api/nodes", await service.token("user")))[2]
    assert refused == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "user user has none of the scopes that this address needs: admin-ui, admin:servers, "
        "custom:dra-spawner:admin, custom:dra-spawner:operate, custom:dra-spawner:read.",
    }
    for token in ("", "wrong"):
        status, _, body = await service.get("api/nodes", token)
        assert (status, body["status"]) == (401, 401)
        assert "Send a valid JupyterHub API token" in body["detail"]
    assert (await service.get("metrics", TOKEN + "prometheus"))[0] == 200
    assert (await service.get("api/nodes", TOKEN + "prometheus"))[0] == 403
    assert (await service.get("metrics"))[0] == 401
    assert (await service.get("healthz"))[2] == {"alive": True}


async def the_hub_and_managers_may_ask_for_placements(service: Service) -> None:
    """There are no placeholders here, so the service answers that the shape is not known."""
    question = json.dumps({"shape": "0" * 16, "pod": "jupyter-ada", "namespace": "hub"})
    tokens = {TOKEN + "service": 404, TOKEN + "prometheus": 403, "wrong": 401, "": 401}
    tokens |= {await service.token(user): 404 for user in ("admin", "operator")}
    tokens |= {await service.token(user): 403 for user in ("watcher", "user")}
    for token, status in tokens.items():
        found, _, body = await service.get("api/placements", token, "POST", question)
        assert found == status, body
    assert (await service.get("api/placements", TOKEN + "service"))[0] == 405
    # The service's own token opens nothing else: the hub knows its rights.
    assert (await service.get("api/nodes", TOKEN + "service"))[0] == 403


async def it_answers(service: Service) -> None:
    token = await service.token("watcher")
    _, _, answer = await service.get("api/nodes", token)
    (node,) = answer["items"]
    assert (answer["continue"], answer["total"], answer["broken"]) == ("", 1, [])
    assert (node["name"], node["node_pool"], node["ready"], node["pods"]) == ("n1", "gpus", True, 1)
    # A share of a quarter: the autoscaler counts the whole device.
    assert node["utilization"]["autoscaler"] == {"value": 1.0, "unknown_because": ""}
    assert node["utilization"]["weighted"] == {"value": 0.25, "unknown_because": ""}
    (device,) = node["devices"]
    assert (device["name"], device["use"], device["classes"]) == ("gpu-0", 0.25, ["gpu.example.com"])
    (claim,) = device["claims"]
    assert (claim["pods"], claim["consumed"]) == (["p"], {"memory": "10Gi"})

    _, _, metrics = await service.get("metrics", token)
    ratio = 'dra_spawner_device_utilization_ratio{class="gpu.example.com",kind="%s",pool="gpus"} %s'
    assert ratio % ("share", 0.25) in metrics
    assert ratio % ("device", 1.0) in metrics
    assert "dra_spawner_leader 1.0" in metrics
    assert re.search(r"^dra_spawner_staleness_seconds \d", metrics, re.M)
    _, _, decisions = await service.get("api/decisions", token)
    assert decisions == {"items": [], "continue": "", "total": 0, "incomplete_because": ""}
    _, _, status = await service.get("api/status", token)
    assert (status["ready"], status["role"], status["problems"]) == (True, "leader", [])
    assert {each["resource"] for each in status["resources"]} >= {"nodes", "pods", "resourceslices.resource.k8s.io"}
    for path, code in (
        ("api/nodes?limit=-1", 400),
        ("api/nodes?limit=100000", 400),
        ("api/nodes?name=missing", 404),
        ("api/nothing", 404),
    ):
        found, _, body = await service.get(path, token)
        assert (found, body["status"]) == (code, code)
        assert body["detail"].endswith(".")
    assert (await service.get("api/nodes", token, "DELETE"))[2]["status"] == 405


async def people_log_in_by_the_hub(service: Service) -> None:
    for user in ("admin", "watcher", "user"):
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            await log_in(session, service.hub.url, user)
            # To the hub and back, with a code that becomes a token that becomes a cookie.
            async with session.get(service.url, headers={"Sec-Fetch-Mode": "navigate"}) as page:
                text = await page.text()
                assert page.status == 200, text
            if user == "user":
                assert page.url.path == "/services/dra-spawner/classes"
                assert "gpu-0" not in text
                async with session.get(service.url + "placeholders", headers={"Sec-Fetch-Mode": "navigate"}) as refused:
                    assert refused.status == 403
            else:
                assert page.url.path == "/services/dra-spawner/"
                assert "What is wrong" in text
                async with session.get(service.url + "nodes", headers={"Sec-Fetch-Mode": "navigate"}) as page:
                    text = await page.text()
                assert "gpu-0" in text
                assert "25 %" in text
                cookies = {cookie.key: cookie for cookie in jar if "dra-spawner" in cookie["path"]}
                assert cookies["service-dra-spawner"]["httponly"]
                # A script of another site may not read, whichever user is logged in.
                headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}
                async with session.get(service.url + "api/nodes", headers=headers) as refused:
                    assert refused.status == 401


async def hub_and_service_end_together(service: Service) -> None:
    await service.hub.stop()
    async with await KubernetesApi.from_kubeconfig(service.hub.kubeconfig) as api:
        leases = (await api.list(resource_path("coordination.k8s.io/v1", "leases")))["items"]
    (lease,) = (each for each in leases if each["metadata"]["name"] == "dra-spawner")
    assert lease["spec"]["holderIdentity"] == "", "it gave the Lease away on its way out"
    assert "Stopping." in service.hub.log.read_text()


#: The last one ends the hub.
BESIDE_A_HUB = (
    programs_are_let_in_by_scope,
    the_hub_and_managers_may_ask_for_placements,
    it_answers,
    people_log_in_by_the_hub,
    hub_and_service_end_together,
)


@pytest.mark.promise("The service runs beside a hub, with its pages in the hub's menu.")
async def test_beside_a_hub(embedded_cluster: ClusterUnderTest):
    problems = []
    may_import = embedded_cluster.directory / "may import"
    slowly = f'c.JupyterHub.services[-2]["command"] = {slow_service(may_import)!r}'
    async with hub_with_service(embedded_cluster, hub_settings=slowly) as service:
        # The hub would end if its service did not answer it in time.
        may_import.touch()
        await service.ready()
        for check in BESIDE_A_HUB:
            try:
                await check(service)
            except AssertionError as error:
                problems.append(f"{check.__name__}: {error}")
    assert not problems, "\n".join(problems)


@pytest.mark.promise("When a leader ends, the other replica leads, with the rights that are shipped.")
async def test_with_the_rights_that_are_shipped_two_replicas_lead_one_after_the_other(real_cluster: ClusterUnderTest):
    cluster = real_cluster
    token_file = cluster.directory / "token"
    token_file.write_text(await service_token(cluster.admin, cluster.namespace))
    arguments = [
        f"--DRASpawnerService.{name}={value}"
        for name, value in {
            "kube_server": cluster.url,
            "kube_token_file": token_file,
            "kube_certificate_authority": cluster.certificate_authority,
            "namespace": cluster.namespace,
            "lease_seconds": 30,
        }.items()
    ]
    async with ServiceProcess(cluster.directory, *arguments) as first:
        await first.until(200, "leader")
        async with ServiceProcess(cluster.directory, *arguments) as second:
            await second.until(200, "standby")
            assert await first.stop() == 0
            await second.until(200, "leader")
            assert await second.stop() == 0
        logs = first.log.read_text() + second.log.read_text()
    assert "lacks" not in logs
    assert "Traceback" not in logs
    lease = await cluster.admin.get(resource_path("coordination.k8s.io/v1", "leases", cluster.namespace, "dra-spawner"))
    assert lease["spec"].get("holderIdentity", "") == ""


async def test_the_service_listens_before_the_cluster_answers_and_stops_at_once(tmp_path: Path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        token = tmp_path / "token"
        token.write_text("x")
        certificate = tmp_path / "ca.crt"
        certificate.write_text("x")
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = [
            f"--DRASpawnerService.kube_{name}={value}"
            for name, value in (("server", server), ("token_file", token), ("certificate_authority", certificate))
        ]
        async with ServiceProcess(tmp_path, *arguments) as service:

            async def is_alive() -> bool:
                return (await service.answer("/healthz"))[0] == 200

            await eventually(is_alive, "it listens")
            status, body = await service.answer("/readyz")
            assert (status, body["ready"], body["role"]) == (503, False, "unknown")
            assert body["reasons"]
            assert (await service.answer("/api/nodes"))[0] == 503
            assert await service.stop() == 0


async def test_a_cluster_that_is_not_found_is_logged_and_tried_again(tmp_path: Path):
    """Without a kubeconfig on the command line: an account may be mounted later."""
    async with ServiceProcess(tmp_path, KUBECONFIG="/nonexistent") as service:
        await eventually(lambda: "The cluster cannot be found: " in service.log.read_text(), "it is logged")
        await service.until(503, "unknown")
        assert await service.stop() == 0

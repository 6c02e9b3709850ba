"""The whole command against a real API server and the embedded one; it changes nothing."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.commands.doctor_command import DoctorOptions, addresses_in_pod, run_doctor
from dra_spawner.doctor.examination import examine
from dra_spawner.doctor.facts import Account, ServiceSettings
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.all_of_them import all_of_them
from tests.cluster.access import (
    HUB_ACCOUNT,
    NODE_EVENT_RULES,
    PLACEHOLDER_RULES,
    RBAC_API,
    SERVICE_ACCOUNT,
    shipped_objects,
)
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.local_server import serving
from tests.polling import eventually

REVIEWS = {"selfsubjectreviews", "selfsubjectaccessreviews", "subjectaccessreviews"}
RULES = (PLACEHOLDER_RULES, NODE_EVENT_RULES)
BINDING = "resources: [resourceclaims/binding], verbs: [patch]"


async def doctor(kubeconfig: Path, **options: Any) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    output, messages = io.StringIO(), io.StringIO()
    asked = DoctorOptions(kubeconfig=str(kubeconfig), **options)
    code = await asyncio.to_thread(run_doctor, asked, output, messages, {})
    return code, output.getvalue(), messages.getvalue()


async def findings(kubeconfig: Path, namespace: str, **options: Any) -> list[dict[str, str]]:
    _, output, messages = await doctor(kubeconfig, namespace=namespace, as_json=True, **options)
    assert messages == ""
    found: list[dict[str, str]] = json.loads(output)["findings"]
    return found


ACCOUNTS = {"as_hub": HUB_ACCOUNT, "as_service": SERVICE_ACCOUNT}


async def missing(kubeconfig: Path, namespace: str) -> list[str]:
    return missing_in(await findings(kubeconfig, namespace, **ACCOUNTS))


async def own_findings(kubeconfig: Path, namespace: str) -> list[dict[str, str]]:
    """Of the service, which knows its settings."""
    questions = Questions(namespace, accounts={Account.SERVICE: SERVICE_ACCOUNT}, settings=ServiceSettings())
    async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
        return [each.to_json() for each in examine(await DoctorReader(api, questions).read())]


def missing_in(found: list[dict[str, str]]) -> list[str]:
    """Fixes for missing rights."""
    return [each["fix"] for each in found if each["code"] == "missing-right"]


async def test_a_right_that_is_taken_away_is_the_only_one_that_is_named(real_cluster: ClusterUnderTest) -> None:
    """For an administrator, about both accounts, and for the service itself."""
    cluster = real_cluster
    async with cluster.fault_proxy() as proxy:
        admin, own = (
            cluster.admin_kubeconfig_for(proxy.url),
            await service_kubeconfig(cluster, rules=RULES, server=proxy.url),
        )
        assert await missing(admin, cluster.namespace) == []
        await take_away_binding(cluster)
        # The authorizer follows the roles by watching.
        await eventually(lambda: missing(admin, cluster.namespace), "the right is missing")
        found = await own_findings(own, cluster.namespace)
        for fixes in (await missing(admin, cluster.namespace), missing_in(found)):
            (fix,) = fixes
            assert fix.endswith(f'{{apiGroups: ["resource.k8s.io"], {BINDING}}}')
        # Without its settings, whether it needs this right is not known.
        assert await missing(own, cluster.namespace) == []
    # Read-only.
    assert {each.resource for each in proxy.requests if each.verb not in ("get", "list")} == REVIEWS
    # The service may not ask about the hub's account.
    unseen = [each["where"] for each in found if each["code"] == "not-seen"]
    assert "The rights of the hub's account" in unseen
    assert f"The pods of namespace {cluster.namespace}" not in unseen


async def take_away_binding(cluster: ClusterUnderTest) -> None:
    """Remove one right of the service's account."""
    roles = [each for each in shipped_objects(cluster.namespace, PLACEHOLDER_RULES) if each["kind"] == "ClusterRole"]
    path = resource_path(RBAC_API, "clusterroles", name=roles[0]["metadata"]["name"])
    obj = await cluster.admin.get(path)
    obj["rules"] = [rule for rule in obj["rules"] if rule["resources"] != ["resourceclaims/binding"]]
    await cluster.admin.replace(path, obj)


async def test_an_account_of_another_name(real_cluster: ClusterUnderTest) -> None:
    found = await findings(
        real_cluster.admin_kubeconfig, real_cluster.namespace, as_hub="somebody", as_service=SERVICE_ACCOUNT
    )
    users = {each["where"] for each in found if each["code"] == "missing-right"}
    prefix = f"account system:serviceaccount:{real_cluster.namespace}"
    assert users == {f"{prefix}:somebody", f"{prefix}:{SERVICE_ACCOUNT}"}


@pytest.mark.promise("`dra-spawner doctor` examines a cluster, and says what it could not examine.")
async def test_the_embedded_cluster_has_no_reviews(embedded_cluster: ClusterUnderTest) -> None:
    namespace = embedded_cluster.namespace
    code, output, _ = await doctor(embedded_cluster.admin_kubeconfig, namespace=namespace, **ACCOUNTS)
    assert code == 1
    assert "error    The cluster has no DeviceClass" in output
    assert "The rights of the hub's account could not be seen" in output
    assert output.count("could not be seen: ") == len({line for line in output.splitlines() if "could not be" in line})


async def test_hostile_texts_do_not_reach_the_terminal(embedded_cluster: ClusterUnderTest) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "readyz" in request.path:
            return web.json_response({"ready": False, "reasons": ["\x1b[2J\x07\u202e"]}, status=503)
        return web.json_response({"version": "4.1\x1b]0;owned\x07"})

    async with serving(answer) as url:
        options = {"namespace": embedded_cluster.namespace, "hub_url": url, "service_url": f"{url}/services/x/"}
        code, text, _ = await doctor(embedded_cluster.admin_kubeconfig, **options)
        _, document, _ = await doctor(embedded_cluster.admin_kubeconfig, **options, as_json=True)
    assert code == 1
    assert "JupyterHub 4.1\\x1b]0;owned\\x07 is not supported" in text
    assert all(line.isprintable() for line in (*text.splitlines(), *document.splitlines()))
    assert f"{url}/services/x/readyz is not ready" in text


@pytest.mark.promise("`dra-spawner doctor` reports wrong input in a sentence.")
@all_of_them(
    "options, message",
    {
        "address": ({"hub_url": "hub:8081"}, "--hub-url: 'hub:8081' is no address"),
        "broken address": ({"service_url": "http://[x"}, "--service-url"),
        "namespace": ({"namespace": "a/../b"}, "--namespace: 'a/../b' is no name"),
        "account": ({"as_hub": "a:b"}, "--as-hub: 'a:b' is no name"),
        "kubeconfig": ({}, "the cluster cannot be read: The cluster cannot be found by"),
    },
)
async def test_wrong_input_is_reported(tmp_path: Path, options: dict[str, str], message: str) -> None:
    code, output, messages = await doctor(tmp_path / "none", **options)
    assert (code, output) == (2, "")
    assert message in messages
    assert messages.count("\n") == 1


async def test_a_cluster_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:9"}, "t", "default")
    code, output, messages = await doctor(tmp_path / "config")
    assert (code, output) == (2, "")
    assert "the cluster cannot be read: get /version" in messages


def test_addresses_in_a_pod() -> None:
    service = {
        "JUPYTERHUB_API_URL": "http://hub:8081/jupyter/hub/api",
        "JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:8181",
        "JUPYTERHUB_SERVICE_PREFIX": "/jupyter/services/dra-spawner/",
    }
    found = ("http://hub:8081/jupyter/", "http://127.0.0.1:8181/jupyter/services/dra-spawner/")
    assert addresses_in_pod(service) == found
    assert addresses_in_pod({}) == ("", "")


async def test_a_bundle_is_one_private_file(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    """It is written beside the report, and replaces no file."""
    file = tmp_path / "report.json"
    code, output, messages = await doctor(embedded_cluster.admin_kubeconfig, namespace="hub", bundle=str(file))
    assert messages == f"Written: {file}. Read it before you attach it to an issue.\n"
    assert output.endswith("\n")
    assert file.stat().st_mode & 0o777 == 0o600
    found = json.loads(file.read_text())
    assert found["report"]["errors"] == sum(each["severity"] == "error" for each in found["report"]["findings"])
    assert (code, found["report"]["namespace"]) == (int(found["report"]["errors"] > 0), "hub")
    code, output, messages = await doctor(embedded_cluster.admin_kubeconfig, namespace="hub", bundle=str(file))
    assert (code, output) == (2, "")
    assert "File exists" in messages

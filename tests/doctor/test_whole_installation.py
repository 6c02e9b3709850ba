"""Findings of `dra-spawner doctor` about both running charts, with an administrator's rights: only true ones."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from dra_spawner.commands.doctor_command import DoctorOptions, run_doctor
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.objects import environment_of, hub_deployment, is_ours, service_deployment
from dra_spawner.kube.client.api import resource_path
from tests.chart.hub_release import HubRelease
from tests.chart.whole_cluster import WholeCluster, whole_cluster
from tests.cluster.background import BackgroundLoop
from tests.integration.fork_server import fork_program
from tests.polling import PATIENCE_SECONDS, eventually

_NAMESPACE = "teaching"
#: No pod of this control plane shows its flags.
_LIMITS: Final = ("limits-not-shown", "info")
_NOT_SEEN: Final = ("not-seen", "info")
_EXPECTED: Final = {"administrator": {_LIMITS}, "hub": {_NOT_SEEN}, "service": {_NOT_SEEN, _LIMITS}}
_PROGRAM = "import sys; from dra_spawner.cli import main; sys.exit(main(['doctor', '--format', 'json', *{more}]))"


@pytest.fixture(scope="module")
def cluster(
    control_plane_path: Path, background_loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WholeCluster]:
    with whole_cluster(control_plane_path, background_loop, tmp_path_factory.mktemp("doctor")) as found:
        yield found


async def as_administrator(cluster: WholeCluster) -> JsonObject:
    with (cluster.directory / "report").open("w+") as output, (cluster.directory / "messages").open("w") as messages:
        options = DoctorOptions(str(cluster.plane.admin_kubeconfig), namespace=_NAMESPACE, as_json=True)
        await asyncio.to_thread(run_doctor, options, output, messages, {})
        output.seek(0)
        found: JsonObject = json.load(output)
        return found


async def in_pod(hub: HubRelease, deployment: JsonObject) -> JsonObject:
    """The report of the command that `kubectl exec` runs."""
    cluster = hub.cluster
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    pods = await cluster.api.list(resource_path("v1", "pods", _NAMESPACE), label_selector=selector)
    pod = pods["items"][0]
    name, directory, more = pod["metadata"]["name"], cluster.directory / "in-pod", list[str]()
    log = directory / f"{name}.report"
    directory.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)  # the report of an earlier run; a program prints after what is there
    if is_ours(deployment):
        # The service's working directory; and it reaches itself, which this machine's address does not.
        configured = next(each for each in hub.objects if "config.json" in each.get("data", {}))
        (directory / "config.json").write_text(configured["data"]["config.json"])
        more = ["--service-url", f"http://{pod['status']['podIP']}:8181/jupyter/services/{hub.service_name}/"]
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **environment_of(deployment),
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBECONFIG": str(cluster.directory / f"{_NAMESPACE}-{name}.kubeconfig"),
        "POD_IP": pod["status"]["podIP"],
        "POD_NAMESPACE": _NAMESPACE,
        "SERVICE_NAMES": str(cluster.network.names_file(_NAMESPACE)),
    }
    arguments = ["-c", _PROGRAM.format(more=more)]
    process = await asyncio.to_thread(
        fork_program, "tests.chart.in_pod", arguments, directory=directory, log=log, environment=environment
    )
    await asyncio.to_thread(process.wait, PATIENCE_SECONDS)
    found: JsonObject = json.loads(log.read_text())
    return found


async def page_of(hub: HubRelease) -> str:
    """The service's page, once the hub's proxy has its route: pods of this cluster are ready as soon as they run."""
    seen: list[object] = []
    async with await hub.browser("admin") as admin:

        async def page() -> str:
            status, text = await admin.ask(f"/services/{hub.service_name}/doctor")
            assert status in (200, 404, 502, 503), text[:2000]
            seen[:] = [status, text[:2000]]
            # A report is kept for a minute.
            return text if status == 200 and "0 errors, 0 warnings" in text else ""

        return await eventually(page, "the page shows a report without errors", shows=lambda: seen)


def test_only_true_findings_appear(cluster: WholeCluster, tmp_path: Path) -> None:
    """With a base URL and a release of another name, which addresses must follow."""
    values: dict[str, Any] = {"hub": {"baseUrl": "/jupyter/"}}
    hub = HubRelease(cluster, _NAMESPACE, "gpus", values=values)
    reports: dict[str, JsonObject] = {}
    pages: list[str] = []

    async def ask_until(name: str, ask: Callable[[], Awaitable[JsonObject]]) -> None:
        """Ask until the report has only what is expected: hub or service may be busy for some seconds."""

        async def is_as_expected() -> bool:
            reports[name] = await ask()
            return {(each["code"], each["severity"]) for each in reports[name]["findings"]} == _EXPECTED[name]

        await eventually(is_as_expected, f"the report of {name} has no other findings", shows=lambda: reports[name])

    async def install_and_ask() -> None:
        await cluster.api.create(resource_path("v1", "namespaces"), {"metadata": {"name": _NAMESPACE}})
        await hub.install()

        async def is_installed() -> bool:
            pods = await cluster.items("pods", _NAMESPACE)
            ready = [
                any(
                    each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ())
                )
                for pod in pods
            ]
            return bool(await hub.placeholders()) and all(ready)

        await eventually(is_installed, "a placeholder is warm, and all pods are ready", shows=cluster.logs)
        deployments = (await cluster.api.list(resource_path("apps/v1", "deployments", _NAMESPACE)))["items"]
        await ask_until("administrator", partial(as_administrator, cluster))
        for name, found in (("hub", hub_deployment(deployments)), ("service", service_deployment(deployments))):
            assert found is not None
            await ask_until(name, partial(in_pod, hub, found))
        pages.append(await page_of(hub))

    cluster.run(install_and_ask)
    for name, other in (("hub", "service"), ("service", "hub")):
        unseen = {each["where"] for each in reports[name]["findings"]}
        assert {each for each in unseen if each.startswith("The rights")} == {f"The rights of the {other}'s account"}
    assert "The rights of" not in pages[0]

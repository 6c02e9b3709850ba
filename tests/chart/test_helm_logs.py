"""Helm's own ``helm test --logs`` prints what `dra-spawner try` has found."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.demo import demo
from dra_spawner.devcluster.demo.profiles import profiles_for_classes
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.chart.rendering import CHART, IMAGE
from tests.cluster.certificates import write_certificates
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.tried_demo import BROKEN
from tests.integration.try_scopes import token_of_the_chart

_TRIAL: Final = "dra-spawner-try"


def chart_of_the_trial(directory: Path) -> Path:
    """The chart with its trial alone, whose pod runs as this user: another one may not read this checkout."""
    chart = shutil.copytree(CHART, directory / "chart")
    for each in chart.rglob("templates/**/*.yaml"):
        if each.name != "try.yaml":
            each.unlink()
    pod = chart / "templates" / "tests" / "try.yaml"
    text, user = pod.read_text(), "    runAsNonRoot: true\n    runAsUser: 1000\n"
    assert user in text
    pod.write_text(text.replace(user, ""))
    return chart


@contextlib.asynccontextmanager
async def kubelets_logs(cluster: ClusterUnderTest, directory: Path) -> AsyncIterator[int]:
    """The port at which the API server asks the kubelet of the test's node for logs."""

    async def log(request: web.Request) -> web.Response:
        assert cluster.kubelet is not None
        pod = await cluster.admin.get(cluster.path("pods", request.match_info["pod"]))
        found = cluster.kubelet.read_log(pod, request.match_info["container"])
        return web.Response(status=404) if found is None else web.Response(text=found)

    certificates = write_certificates(directory)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    application = web.Application()
    application.router.add_get(f"/containerLogs/{cluster.namespace}/{{pod}}/{{container}}", log)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_helm_prints_what_was_tried(
    real_cluster: ClusterUnderTest, helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, chart = real_cluster, chart_of_the_trial(tmp_path)
    monkeypatch.setattr(demo, "profiles_for_classes", lambda names: [*profiles_for_classes(names), BROKEN])

    async def run_helm(*words: str, values: JsonObject | None = None) -> tuple[int | None, str]:
        where = ("--namespace", cluster.namespace, "--kubeconfig", str(cluster.admin_kubeconfig))
        process = await asyncio.create_subprocess_exec(
            helm,
            *words,
            *where,
            *(() if values is None else ("--values", "-")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(json.dumps(values or {}).encode())
        return process.returncode, output.decode()

    async with (
        kubelets_logs(cluster, tmp_path / "pki") as port,
        demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running,
    ):
        node = node_manifest("node-a")
        node["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
        node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        await cluster.publish_nodes(node)
        token = await token_of_the_chart(running, _TRIAL)
        data = {f"hub.services.{_TRIAL}.apiToken": base64.b64encode(token.encode()).decode()}
        await cluster.admin.create(cluster.path("secrets"), {"metadata": {"name": "hub"}, "data": data})
        for verb, profiles, code, said in (
            ("install", ["cpu"], 0, "works   cpu: It has no device, as it asks for none."),
            # The pod of the test before goes, and its output with it.
            ("upgrade", ["broken"], 1, "fails   broken: "),
        ):
            values = {**IMAGE, "try": {"enabled": True, "hubUrl": running.address, "profiles": profiles}}
            done = await run_helm(verb, "dra-spawner", str(chart), values=values)
            assert done[0] == 0, done[1]
            found, output = await run_helm("test", "dra-spawner", "--logs", "--timeout", "10m")
            assert found == code, output
            _, _, log = output.partition(f"POD LOGS: {_TRIAL}")
            assert said in log, output
            assert log.count("choice works") == 1, output

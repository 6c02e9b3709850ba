"""The program of `helm test`, and the files that the chart includes if they are there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_spawner.cli import command_parser
from dra_spawner.devcluster.demo import demo
from dra_spawner.devcluster.demo.profiles import profiles_for_classes
from tests.chart.rendering import (
    CHART,
    EVERYTHING,
    IMAGE,
    RenderingFailed,
    hub_values,
    objects_of,
    of_kind,
    rendered,
    run_helm,
)
from tests.integration.tried_demo import BROKEN, NOTHING, left
from tests.integration.try_scopes import SCOPES, token_of_the_chart


class Answers(BaseHTTPRequestHandler):
    """Answers 200 at ``/ready``, at ``/hub`` to the right token only, else 503."""

    def do_GET(self) -> None:
        is_hub = self.path == "/hub" and self.headers["Authorization"] == "token secret"
        self.send_response(200 if is_hub or self.path == "/ready" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    """The program as the pod of `helm test` has it."""
    text = run_helm(
        "template", "dra-spawner", str(CHART), "--show-only", "templates/tests/reachable.yaml", values=IMAGE
    )
    (container,) = yaml.safe_load(text)["spec"]["containers"]
    assert {each["name"] for each in container["env"]} == {"REPLICAS", "STATUS", "HUB", "TOKEN"}
    command = [sys.executable, *container["command"][1:], *container["args"]]
    more = {"DEADLINE_SECONDS": "0", "PATH": os.environ["PATH"], "NO_PROXY": "*"}
    return subprocess.run(command, env={**more, **environment}, capture_output=True, text=True, timeout=240)


def test_a_working_installation(url: str) -> None:
    done = run(REPLICAS=f"{url}/ready", STATUS=f"{url}/ready", HUB=f"{url}/hub", TOKEN="secret")
    assert done.stdout.splitlines() == [
        "The service is ready: yes",
        "The Service finds the leader: yes",
        "The hub knows the service: yes",
    ]
    assert done.returncode == 0


def test_problems_are_reported_with_a_remedy(url: str) -> None:
    done = run(REPLICAS=f"{url}/no", STATUS="http://127.0.0.1:1/", HUB=f"{url}/hub", TOKEN="wrong")
    ready, leader, hub = done.stdout.splitlines()
    assert f"The service is ready: no. {url}/no: HTTP Error 503" in ready
    assert "Connection refused>. No replica leads, or it cannot label its pod" in leader
    assert "hub.baseUrl must be the same in both charts" in hub
    assert done.returncode == 1


def test_choices_are_tried_with_a_token_of_their_own() -> None:
    """The command is one that the program takes, and the hub's values have what its token needs."""
    assert [each["metadata"]["name"] for each in rendered(IMAGE, with_tests=True) if each["kind"] == "Pod"] == [
        "dra-spawner-test"
    ]
    trying = {"enabled": True, "profiles": ["gpu-slice", "gpu-slice/memory=5Gi"], "timeoutSeconds": 90}
    values = {**IMAGE, "hub": {"baseUrl": "/jupyter/", "serviceName": "gpus"}, "try": trying}
    pod = of_kind(rendered(values, with_tests=True), "Pod", "-try")
    (container,) = pod["spec"]["containers"]
    options = command_parser().parse_args([*container["command"][1:], *container["args"]])
    assert (options.hub_url, options.user, options.service_name, options.timeout, options.profiles) == (
        "http://proxy-public/jupyter/",
        "dra-spawner-try",
        "gpus",
        90.0,
        trying["profiles"],
    )
    (token,) = container["env"]
    assert token["valueFrom"]["secretKeyRef"]["key"] == "hub.services.dra-spawner-try.apiToken"
    hub = hub_values(values)["hub"]
    assert "dra-spawner-try" in hub["services"]
    expected = [each.format("dra-spawner-try").replace("service=dra-spawner", "service=gpus") for each in SCOPES]
    assert hub["loadRoles"]["dra-spawner-try"] == {"scopes": expected, "services": ["dra-spawner-try"]}
    assert "dra-spawner-try" not in str(hub_values(IMAGE))
    for name in ("gpus", "dra-spawner-metrics"):
        with pytest.raises(RenderingFailed, match=r"try\.hubServiceName is the name of another service"):
            rendered({**values, "try": {**trying, "hubServiceName": name}})


def test_what_the_pods_have_printed_stays() -> None:
    """Helm deletes what has succeeded before `--logs` asks for its output: it would say that there is no such pod, and fail."""
    values = {**IMAGE, "try": {"enabled": True}}
    for pod in (each for each in rendered(values, with_tests=True) if each["kind"] == "Pod"):
        assert pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation", pod["metadata"]


async def test_the_pod_tries_the_choices_of_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line, the environment and the memory that the chart gives it, at the demo's hub."""
    trying = {"enabled": True, "profiles": ["cpu", "gpu-slice/memory=5Gi", "broken"], "timeoutSeconds": 300}
    (container,) = of_kind(rendered({**IMAGE, "try": trying}, with_tests=True), "Pod", "-try")["spec"]["containers"]
    given: list[str] = [*container["command"], *container["args"]]
    program = given.pop(0)
    assert container["resources"]["limits"] == {"memory": "256Mi"}
    (variable,) = container["env"]
    monkeypatch.setattr(demo, "profiles_for_classes", lambda names: [*profiles_for_classes(names), BROKEN])
    async with demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running:
        token = await token_of_the_chart(running, "dra-spawner-try")

        async def tried(*words: str) -> tuple[int | None, str, str]:
            process = await asyncio.create_subprocess_exec(
                *(str(Path(sys.executable).with_name(program)), *words),
                # What the image has: Python, and its own programs.
                env={"PATH": f"{Path(sys.executable).parent}:{os.defpath}", variable["name"]: token},
                cwd="/",
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate()
            return process.returncode, output.decode(), errors.decode()

        words = [each.replace("http://proxy-public", running.address) for each in given]
        code, output, errors = await tried(*words)
        assert (code, errors) == (1, ""), output
        assert re.findall(r"^(works|fails) +(\S+):", output, re.MULTILINE) == [
            ("works", "cpu"),
            ("works", "gpu-slice/memory=5Gi"),
            ("fails", "broken"),
        ], output
        assert "5 GiB of 40 GiB memory" in output
        assert output.endswith("2 of 3 choices work\n")
        code, output, errors = await tried(*words[:-2])
        assert (code, errors) == (0, ""), output
        assert output.endswith("1 of 1 choice works\n"), output
        assert await left(running) == NOTHING
        code, output, errors = await tried(*(each.replace(running.address, "http://127.0.0.1:1") for each in words))
        assert (code, output) == (2, "")
        assert errors.startswith("dra-spawner try: http://127.0.0.1:1/ cannot be reached"), errors


def test_rules_and_dashboard_are_included_where_they_are(tmp_path: Path) -> None:
    assert {"PrometheusRule"}.isdisjoint(
        {each["kind"] for each in rendered(EVERYTHING)} if not (CHART / "files" / "rules.yaml").exists() else ()
    )
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    rule = {"alert": "Stale", "expr": "up == 0", "annotations": {"summary": "{{ $labels.pod }} is stale"}}
    (chart / "files" / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dra-spawner", "rules": [rule]}]}))
    panels = {"title": "dra-spawner", "panels": [{"legendFormat": "{{profile}}"}]}
    (chart / "files" / "dashboard.json").write_text(json.dumps(panels, indent=2))
    text = run_helm("template", "dra-spawner", str(chart), "--namespace", "hub", "--skip-tests", values=EVERYTHING)
    objects = objects_of(text)
    assert of_kind(objects, "PrometheusRule")["spec"]["groups"][0]["rules"] == [rule]
    dashboard = of_kind(objects, "ConfigMap", "-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["dra-spawner.json"]) == panels


def test_the_dashboard_leads_to_the_pages_of_the_hub() -> None:
    def address(values: dict[str, Any]) -> str:
        text = run_helm("template", "dra-spawner", str(CHART), "--namespace", "hub", values={**EVERYTHING, **values})
        dashboard = json.loads(of_kind(objects_of(text), "ConfigMap", "-dashboard")["data"]["dra-spawner.json"])
        return str(next(each["query"] for each in dashboard["templating"]["list"] if each["name"] == "pages"))

    own = "https://gpus.example.edu/jupyter/services/dra-spawner"
    assert address({"dashboard": {"enabled": True, "pages": own}}) == own
    assert address({}) == "https://hub.example.org/services/dra-spawner"


def test_runbooks_are_an_address_where_one_is_known(tmp_path: Path) -> None:
    def urls(values: dict[str, Any], chart: Path = CHART) -> set[str]:
        text = run_helm("template", "dra-spawner", str(chart), "--namespace", "hub", values={**EVERYTHING, **values})
        groups = of_kind(objects_of(text), "PrometheusRule")["spec"]["groups"]
        found = [each["annotations"]["runbook_url"] for group in groups for each in group["rules"] if "alert" in each]
        return {each.partition("#")[0] for each in found}

    assert urls({}) == {"docs/how-to/paged-at-night.md"}, "a checkout has no address"
    own = "https://wiki.example.org/paged"
    assert urls({"prometheusRule": {"enabled": True, "runbooks": own}}) == {own}
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    with (chart / "Chart.yaml").open("a") as file:
        file.write("home: https://example.org/dra-spawner\n")
    (found,) = urls({}, chart)
    assert re.fullmatch(r"https://example.org/dra-spawner/blob/v[0-9][^/]*/docs/how-to/paged-at-night.md", found)


def test_metrics_are_read_with_a_token_that_may_only_do_that() -> None:
    objects = rendered({**IMAGE, "serviceMonitor": {"enabled": True}, "hub": {"baseUrl": "/jupyter/"}})
    # The hub's own metrics count failed starts.
    hub = of_kind(objects, "ServiceMonitor", "-hub")["spec"]
    (endpoint,) = hub["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("hub", "/jupyter/hub/metrics")
    spec = of_kind(objects, "ServiceMonitor", "dra-spawner")["spec"]
    assert hub["endpoints"][0]["authorization"] == spec["endpoints"][0]["authorization"]
    (endpoint,) = spec["endpoints"]
    assert endpoint["path"] == "/jupyter/services/dra-spawner/metrics"
    assert endpoint["authorization"]["credentials"] == {
        "name": "hub",
        "key": "hub.services.dra-spawner-metrics.apiToken",
    }
    service = of_kind(objects, "Service", "-replicas")
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (
        not spec["selector"]["matchLabels"].items()
        <= of_kind(objects, "Service", "dra-spawner")["metadata"]["labels"].items()
    )

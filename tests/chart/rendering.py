"""The chart as Helm renders it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_spawner.common.json_types import JsonObject
from tests.chart.helm_binary import BinaryUnavailable, helm_binary
from tests.cluster.policy import YAML_LOADER

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm-values" / "chart"
#: The charts of zero-to-jupyterhub, which are not part of this repository.
Z2JH_CHARTS = ROOT.parent / "shared" / "data" / "z2jh-charts"
IMAGE: JsonObject = {"image": {"name": "registry.example.org/hub-with-dra-spawner", "tag": "1"}}
#: Every part that has a switch.
EVERYTHING: JsonObject = {
    **IMAGE,
    "placeholders": {"enabled": True, "targets": {"gpu-slice": {"min": 2, "max": 20}}},
    "userNamespaces": True,
    "rbac": {"hub": {"networkAttachments": True, "webhooks": True, "allPods": True, "userSecrets": True}},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "try": {"enabled": True},
}


class RenderingFailed(Exception):
    """Helm refused; the message is its output."""


def helm_or_skip() -> Path:
    """Helm for a test, which is skipped where it cannot be built."""
    try:
        return helm_binary()
    except BinaryUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, built before a test's time begins."""
    return helm_or_skip()


def run_helm(*arguments: str, values: JsonObject | None = None) -> str:
    """The output of a command of Helm, with values that it reads from its input.

    Raises
    ------
    RenderingFailed
        If it ends with an error.
    """
    more = () if values is None else ("--values", "-")
    done = subprocess.run(
        [helm_or_skip(), *arguments, *more], input=json.dumps(values or {}), capture_output=True, text=True, timeout=240
    )
    if done.returncode:
        raise RenderingFailed(done.stderr + done.stdout)
    return done.stdout


def rendered(
    values: JsonObject, *, release: str = "dra-spawner", namespace: str = "jupyterhub", with_tests: bool = False
) -> list[JsonObject]:
    """The objects of the chart; those of `helm test` only if asked for."""
    more = () if with_tests else ("--skip-tests",)
    return objects_of(run_helm("template", release, str(CHART), "--namespace", namespace, *more, values=values))


def objects_of(text: str) -> list[JsonObject]:
    """The objects in the output of ``helm template``."""
    return [each for each in yaml.load_all(text, YAML_LOADER) if each]


def parent_chart(directory: Path) -> Path:
    """A chart in `directory` that has this chart as a part with a switch."""
    shutil.copytree(CHART, directory / "charts" / "dra-spawner")
    dependency = {"name": "dra-spawner", "version": "*", "condition": "dra-spawner.enabled"}
    chart = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]}
    (directory / "Chart.yaml").write_text(yaml.safe_dump(chart))
    return directory


def of_kind(objects: list[JsonObject], kind: str, ending: str = "") -> Any:
    """The only object of a kind, among those whose name ends so."""
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(ending)]
    return found


def hub_values(values: JsonObject, *, release: str = "dra-spawner", namespace: str = "hub") -> JsonObject:
    """The values of zero-to-jupyterhub that the chart's notes print."""
    with tempfile.TemporaryDirectory() as directory:
        # A copy of the chart renders them alone.
        chart = Path(directory, "chart")
        shutil.copytree(CHART, chart)
        (chart / "templates" / "hub-values.yaml").write_text('{{ include "dra-spawner.hubValues" . }}\n')
        alone = ("--namespace", namespace, "--show-only", "templates/hub-values.yaml")
        found: JsonObject = yaml.safe_load(run_helm("template", release, str(chart), *alone, values=values))
        return found

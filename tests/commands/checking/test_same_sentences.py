"""`dra-spawner check` and the hub's log report a wrong value in the same words."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from traitlets.config import Config

from dra_spawner.commands.checking.check_command import CheckOptions, run_check
from dra_spawner.hub import settings_spawner
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.server_context import parts_of
from tests.all_of_them import all_of_them
from tests.cluster.control_plane import write_kubeconfig
from tests.spawner.hub_side import kubernetes_of

VALUES = Path(__file__).parents[3] / "helm-values" / "minimal.yaml"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path) -> Iterator[None]:
    """A cluster that nobody asks."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "none", "default")
    with kubernetes_of(kubeconfig):
        yield


def checked(values: Any, directory: Path) -> set[str]:
    """Text after the path of each error."""
    path = directory / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    output = io.StringIO()
    code = run_check(CheckOptions((str(path),), as_json=True), io.BytesIO(), output, io.StringIO())
    answer = json.loads(output.getvalue())
    findings = [*answer["general"], *(each for choice in answer["choices"] for each in choice["findings"])]
    found = {each["message"] for each in findings if each["level"] == "error"}
    assert code == (1 if found else 0)
    return found


def problems_of_the_hub(values: Any) -> set[str]:
    """Problems that the hub logs at its start, before it ends."""
    settings = {"profile_list": values["singleuser"]["profileList"]}
    hub: Any = SimpleNamespace(config=Config(DRASpawner=settings), base_url="/", spawner_class=DRASpawner)
    return {each.message for each in configuration_problems(parts_of(settings_spawner(hub)).server)}


@all_of_them(
    "claim, named",
    {
        "a-key": ({"device_class": "gpu.example.com", "capcity": {"memory": "10Gi"}}, "capacity"),
        "the-only-key": ({"device_clas": "gpu.example.com"}, "device_class"),
        "a-number": ({"device_class": "gpu.example.com", "count": "two"}, "whole number"),
        "a-quantity": ({"device_class": "gpu.example.com", "capacity": {"memory": "10 GB"}}, "quantity"),
        "a-name": ({"device_class": "GPU!"}, "DeviceClass"),
    },
)
async def test_a_wrong_claim(claim: Any, named: str, tmp_path: Path) -> None:
    values = yaml.safe_load(VALUES.read_text())
    assert checked(values, tmp_path) == problems_of_the_hub(values) == set()
    values["singleuser"]["profileList"][1]["kubespawner_override"]["device_claims"]["gpu"] = claim
    found = checked(values, tmp_path)
    assert found == problems_of_the_hub(values) != set()
    assert named in " ".join(found)


async def test_a_wrong_trait(tmp_path: Path) -> None:
    values = yaml.safe_load(VALUES.read_text())
    values["singleuser"]["profileList"][0]["kubespawner_override"]["device_claim"] = {}
    found = checked(values, tmp_path)
    assert found == problems_of_the_hub(values) != set()
    assert "device_claims" in " ".join(found)

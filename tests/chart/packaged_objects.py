"""Makes ``dra_spawner/doctor/chart_objects.yaml`` from the chart: ``python -m tests.chart.packaged_objects``."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import dra_spawner.doctor
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.needed_rights import BASE_URL_WORD, HUB_WORD, IMAGE_WORD, NAMESPACE_WORD
from tests.chart.rendering import CHART, run_helm

OBJECTS = Path(str(resources.files(dra_spawner.doctor))) / "chart_objects.yaml"
_HEADER = "# What the Helm chart of dra-spawner installs; `dra-spawner doctor` compares the accounts' rights with it.\n"
# Of Helm: it installs nothing here.
_OF_HELM = re.compile(
    r"^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart|checksum/\w+): .*\n|^# Source: .*\n", re.MULTILINE
)


def packaged() -> str:
    """The text of the file."""
    name, tag = IMAGE_WORD.split(":")
    values: JsonObject = {
        "image": {"name": name, "tag": tag},
        "hub": {"fullname": HUB_WORD, "baseUrl": BASE_URL_WORD},
        "placeholders": {"enabled": True},
        "userNamespaces": True,
    }
    arguments = ("template", "dra-spawner", str(CHART), "--namespace", NAMESPACE_WORD, "--skip-tests")
    text = _OF_HELM.sub("", run_helm(*arguments, values=values))
    return _HEADER + re.sub(r"^ *annotations:\n *# A change of the settings.*\n", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    OBJECTS.write_text(packaged())

"""zero-to-jupyterhub as Helm renders it, where its charts are beside this checkout, and the values that we document."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dra_spawner.common.json_types import JsonObject
from tests.chart import rendering

VERSIONS: Final = ("4.0.0", "4.4.0", "main")
_TOP: Final = frozenset({"hub", "prePuller", "proxy", "scheduling", "singleuser"})


def z2jh_chart(version: str) -> Path:
    """A chart of zero-to-jupyterhub for a test, which is skipped where there is none."""
    path = rendering.Z2JH_CHARTS / f"jupyterhub-{version}.tgz"
    if not path.exists():
        pytest.skip(f"the charts of zero-to-jupyterhub are not beside this checkout: {path.name}")
    return path


def z2jh_objects(
    version: str, values: JsonObject, *, release: str = "jupyterhub", namespace: str = "hub"
) -> list[JsonObject]:
    """Objects that zero-to-jupyterhub installs."""
    text = rendering.run_helm("template", release, str(z2jh_chart(version)), "--namespace", namespace, values=values)
    return rendering.objects_of(text)


def documented_yaml() -> Iterator[Any]:
    """Every YAML block of README and docs."""
    for path in sorted([rendering.ROOT / "README.md", *(rendering.ROOT / "docs").rglob("*.md")]):
        for _, block in re.findall(r"^( *)```yaml\n(.*?)^\1```", path.read_text(), re.DOTALL | re.MULTILINE):
            yield yaml.safe_load(textwrap.dedent(block))


def documented_values() -> list[JsonObject]:
    """The YAML of README and docs that is values, and one with all profiles of the others."""
    found: list[JsonObject] = []
    profiles: list[Any] = []
    for value in documented_yaml():
        if isinstance(value, dict) and "device_claims" in value:
            profiles.append({"kubespawner_override": value})
        elif isinstance(value, dict) and "kubespawner_override" in value:
            profiles.append(value)
        elif isinstance(value, list) and all(isinstance(each, dict) and "display_name" in each for each in value):
            profiles.extend(value)
        elif isinstance(value, dict) and value.keys() <= _TOP:
            found.append(value)
    named = [{"display_name": f"Profile {number}", **each} for number, each in enumerate(profiles)]
    return [*found, {"singleuser": {"profileList": named}}]


def merged(*values: JsonObject) -> JsonObject:
    """As by ``helm --values`` for each."""
    result: JsonObject = {}
    for each in values:
        for key, value in each.items():
            is_both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if is_both else value
    return result

"""Choices to check, as the spawner would merge them."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles.choices import Choice, list_choices
from dra_spawner.profiles.drivers import driver_findings
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding

#: Tolerations of a pod on NVIDIA's nodes.
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def choice_of(device_claims: dict[str, Any], **settings: Any) -> Choice:
    """A profile with these claims and traits, the only one of its list."""
    profile = {"display_name": "Test", "kubespawner_override": {"device_claims": device_claims, **settings}}
    (listed,) = list_choices([profile], {})
    assert listed.choice is not None, listed.problems
    return listed.choice


def found(device_claims: dict[str, Any], facts: ClusterFacts | None = None, **settings: Any) -> list[Finding]:
    """Findings of the drivers, with the usual toleration unless another is given."""
    return list(driver_findings(choice_of(device_claims, **{"tolerations": TOLERATIONS, **settings}), facts))


def rules_of(findings: list[Finding]) -> list[str]:
    """Names of the rules, each once."""
    return sorted({finding.rule for finding in findings})

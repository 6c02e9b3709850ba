"""Choices for the rules, and their findings."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.lint import RULES, check_choices

OWN = {rule.name for rule in RULES}


def profile(claims: dict[str, Any], name: str = "p", **more: Any) -> dict[str, Any]:
    return {"display_name": name, "slug": name, "kubespawner_override": {"device_claims": claims}, **more}


def check(profiles: list[dict[str, Any]], facts: ClusterFacts | None = None, **settings: Any) -> list[Finding]:
    """Findings of the general rules in a list, each once."""
    report = check_choices(list_choices(profiles, settings), facts or ClusterFacts())
    return [finding for finding in report.findings if finding.rule in OWN]


def found(claims: dict[str, Any], facts: ClusterFacts | None = None, **settings: Any) -> list[tuple[str, str]]:
    """Level and rule of each finding in one profile."""
    return [(finding.level.value, finding.rule) for finding in check([profile(claims)], facts, **settings)]

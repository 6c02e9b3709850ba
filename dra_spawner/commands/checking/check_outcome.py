"""The outcome of a check as JSON, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.values_tree import at
from dra_spawner.profiles.choices import TRAIT, ListedChoice
from dra_spawner.profiles.facts import has_cloud_nodes
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import CheckReport, Inventory
from dra_spawner.profiles.lint.hub_rules import UNREAD_CODE
from dra_spawner.profiles.syntax.problems import on_one_line

#: The hub's setting.
NODES_MAY_BE_ADDED: Final = "nodes_may_be_added"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A report, and the profiles and facts that it is about.

    Attributes
    ----------
    hubs
        Where the profiles were found; one hub or more.
    has_cluster
        Whether a cluster, or objects of one, was given.
    """

    hubs: tuple[ProfilesFound, ...]
    report: CheckReport
    inventory: Inventory
    has_cluster: bool

    @property
    def source(self) -> str:
        """Name of the file or files."""
        return self.hubs[0].source

    @property
    def unread(self) -> tuple[str, ...]:
        """Paths of code that could not be run; empty if the rule about it is ignored."""
        found = (each.path for each in self.report.general if each.rule == UNREAD_CODE.name)
        return tuple(dict.fromkeys(found))

    @property
    def is_empty(self) -> bool:
        """Whether no hub has anything to check."""
        return all(map(_is_empty, self.hubs))

    def not_checked(self) -> Iterator[str]:
        """A phrase for each part that was not checked."""
        for hub in self.hubs:
            yield from hub.unread
            if hub.service is not None and at(hub.service.given, "service", "extraConfig"):
                yield f"{hub.service.prefix}service.extraConfig is not run, so its settings are not checked"
            if hub.is_service_alone:
                yield "no values of a hub were given: names of profiles, scopes and its settings were not checked"
            elif _is_empty(hub):
                yield f"there are no profiles and no {TRAIT}: nothing was checked"
        if self.unread:
            yield f"the check is not complete: {', '.join(self.unread)} could not be run"
        facts = self.inventory.facts
        if not self.has_cluster:
            yield "no cluster was given: device classes, devices, nodes and feature gates were not checked"
            return
        unknown = {
            "device classes": facts.device_classes,
            "devices (resource slices)": facts.slices,
            "nodes": facts.nodes,
            "the namespace's labels": facts.namespace_labels if self._asks_for_admin_access() else {},
            "feature gates": facts.dropped_fields,
        }
        is_guessed = any(hub.settings.get(NODES_MAY_BE_ADDED) is None for hub in self.hubs)
        if is_guessed and not facts.nodes_may_be_added and has_cloud_nodes(facts.nodes or ()):
            yield (
                "a cloud provides the nodes, so the hub guesses that others may be added, and lets a server wait that "
                f"fits none; set {NODES_MAY_BE_ADDED} to True or False"
            )
        missing = [name for name, value in unknown.items() if value is None]
        if missing:
            yield f"not known, so not checked: {', '.join(missing)}"

    def _asks_for_admin_access(self) -> bool:
        requests = (
            request
            for choice in self.report.choices
            if choice.listed.choice is not None
            for claim in choice.listed.choice.claims
            for request in claim.requests
        )
        return any(request.admin_access for request in requests)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON, which docs/reference/check.md describes."""
        facts = self.inventory.facts
        version = facts.kubernetes_version
        cluster: dict[str, Any] | None = None
        if self.has_cluster:
            cluster = {
                "kubernetesVersion": ".".join(map(str, version)) if version is not None else None,
                "nodes": len(facts.nodes) if facts.nodes is not None else None,
                "devices": len(self.inventory.devices) if facts.slices is not None else None,
                "drivers": sorted(self.inventory.drivers) if facts.slices is not None else None,
                "droppedFields": sorted(facts.dropped_fields) if facts.dropped_fields is not None else None,
            }
        counts = {f"{level}s": self.report.count(level) for level in Level}
        return {
            **counts,
            "source": self.source,
            "cluster": cluster,
            "notChecked": list(self.not_checked()),
            "general": [_finding(finding) for finding in self.report.general],
            "choices": [
                {
                    "path": choice.listed.path,
                    "profile": choice.listed.profile,
                    "picks": dict(choice.listed.picks),
                    "findings": [_finding(finding) for finding in choice.findings],
                }
                for choice in self.report.choices
            ],
        }


def _is_empty(hub: ProfilesFound) -> bool:
    return hub.spawner is not None and not hub.profile_list and not hub.settings.get(TRAIT)


def _finding(finding: Finding) -> Mapping[str, str]:
    return {"level": finding.level, "rule": finding.rule, "path": finding.path, "message": finding.message}


def title(listed: ListedChoice) -> str:
    """Title of a choice: its profile and the picked options."""
    picks = ", ".join(f"{option}={choice}" for option, choice in listed.picks.items())
    profile = listed.profile or "the spawner's own device_claims"
    # Slugs may be any text, and are printed on terminals and in comments of YAML.
    return on_one_line(f"{profile}, {picks}" if picks else profile)

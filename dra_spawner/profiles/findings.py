"""Findings of a check of profiles: errors, warnings and remarks, each with its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding."""

    #: The choice cannot work on this cluster.
    ERROR = "error"
    #: The choice may not work as meant.
    WARNING = "warning"
    #: Information about the choice.
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule.

    Attributes
    ----------
    rule
        The rule's name as docs/reference/check.md lists it, such as ``unknown-capacity``.
    path
        Where in the profiles, such as ``profile_list[1].kubespawner_override.device_claims.gpu.capacity.memory``.
    message
        The problem and its remedy, in one or two sentences.
    """

    level: Level
    rule: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.level}: {self.message} ({self.rule})"


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule of the check; docs/reference/check.md has the table of all rules, which a test compares.

    Attributes
    ----------
    levels
        Possible levels of its findings, the worst first.
    needs_cluster
        Whether the rule needs the cluster's objects.
    """

    name: str
    levels: tuple[Level, ...]
    needs_cluster: bool
    meaning: str

    def finding(self, path: str, message: str, level: Level | None = None) -> Finding:
        """A finding of this rule; of its first level if none is given."""
        level = level or self.levels[0]
        assert level in self.levels, (self.name, level)
        return Finding(level, self.name, path, message)


def rules_of(members: Mapping[str, object]) -> tuple[LintRule, ...]:
    """The rules among the members of a module, which gives its ``globals()``, in their order there."""
    return tuple(each for each in members.values() if isinstance(each, LintRule))

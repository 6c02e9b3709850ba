"""What a check of profiles finds: errors, warnings and remarks, each at its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    #: The choice cannot work on this cluster.
    ERROR = "error"
    #: It works, but hardly as meant.
    WARNING = "warning"
    #: Worth knowing.
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    Attributes
    ----------
    level
        How much it matters.
    rule
        The rule's name as docs/check.md lists it, such as ``unknown-capacity``.
    path
        Where in the profiles, such as ``profile_list[1].kubespawner_override.device_claims.gpu.capacity.memory``.
    message
        What is wrong, and what would be right, in one or two plain sentences.
    """

    level: Level
    rule: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.level}: {self.message} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for; docs/check.md has the table of all, which a test compares.

    Attributes
    ----------
    name
        As findings have it.
    levels
        What a finding of it may be, the worst first.
    needs_cluster
        Whether nothing can be said without the cluster's objects.
    meaning
        In one line.
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

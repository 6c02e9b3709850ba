"""The port by which the controller asks for targets that change by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dra_spawner.placeholders.planner.targets.policy import ReplicaRange


@dataclass(frozen=True, slots=True)
class ProfileGroup:
    """Choices that share their placeholders.

    Attributes
    ----------
    name
        Of the first choice.
    choices
        All of them.
    replicas
        As configured: never fewer than `min`, never more than `max`.
    """

    name: str
    shape: str
    choices: frozenset[str]
    replicas: ReplicaRange


class TargetSource(Protocol):
    """Targets besides the configured ones, such as those of scale-ahead."""

    @property
    def version(self) -> int:
        """A number that changes with the targets."""

    @property
    def keeps_surplus(self) -> bool:
        """Whether no placeholder may count as surplus, as targets are not known yet."""

    def ranges(self, groups: Iterable[ProfileGroup]) -> Mapping[str, ReplicaRange]:
        """Targets by shape, of the groups that do not keep their configured ones."""

    def problems(self, now: datetime) -> tuple[str, ...]:
        """Sentences without their full stops."""


class ConfiguredTargets:
    """A source without targets: those of the settings remain."""

    version = 0
    keeps_surplus = False

    def ranges(self, groups: Iterable[ProfileGroup]) -> Mapping[str, ReplicaRange]:
        return {}

    def problems(self, now: datetime) -> tuple[str, ...]:
        return ()

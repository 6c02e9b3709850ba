"""Errors of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from dra_spawner.simulator.scheduler.node_fit import FilterVerdict

K = TypeVar("K")
V = TypeVar("V")


class SnapshotProblem(StrEnum):
    """Why a change was refused."""

    NOT_FOUND = "NotFound"
    EXISTS = "Exists"
    NO_FORK = "NoFork"
    """There is nothing to commit or revert."""
    FORK_OPEN = "ForkOpen"
    """A change that cannot be reverted."""


class SnapshotError(Exception):
    """Raised for a change that is not possible; the snapshot is unchanged.

    Attributes
    ----------
    problem
        Kind of the problem.
    """

    def __init__(self, problem: SnapshotProblem, message: str) -> None:
        self.problem = problem
        super().__init__(message)


class Undecided(Exception):
    """Raised if it is not known whether a pod fits: a part cannot be evaluated here, or an object is invalid."""

    def __init__(self, verdict: FilterVerdict) -> None:
        self.verdict = verdict
        super().__init__("; ".join(verdict.reasons))


def find(known: Mapping[K, V], key: K, what: str) -> V:
    """The item of this key; :class:`SnapshotError` when there is none."""
    if key not in known:
        raise SnapshotError(SnapshotProblem.NOT_FOUND, f"{what} {key} not found")
    return known[key]

"""Taints and tolerations."""

from __future__ import annotations

import pytest

from dra_spawner.dra.model.objects import Taint, Toleration
from dra_spawner.dra.model.taints import blocking_taint, tolerates
from tests.all_of_them import all_of_them

BAD = Taint("bad", "y", "NoSchedule")


@all_of_them(
    "toleration, covers",
    {
        "equal": (Toleration("bad", "Equal", "y"), True),
        "other-value": (Toleration("bad", "Equal", "n"), False),
        "no-operator": (Toleration("bad", "", "y"), True),
        "exists": (Toleration("bad", "Exists"), True),
        "other-key": (Toleration("slow", "Exists"), False),
        "any-key": (Toleration("", "Exists"), True),
        "any-key-with-value": (Toleration("", "Equal", "y"), True),
        "any-key-other-value": (Toleration("", "Equal", "n"), False),
        "effect": (Toleration("bad", "Exists", effect="NoSchedule"), True),
        "other-effect": (Toleration("bad", "Exists", effect="NoExecute"), False),
        "seconds-do-not-matter": (Toleration("bad", "Exists", toleration_seconds=0), True),
        "unknown-operator": (Toleration("bad", "Near", "y"), False),
    },
)
def test_tolerates(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, BAD) is covers


@pytest.mark.parametrize(
    ("effect", "blocks"), [("NoSchedule", True), ("NoExecute", True), ("None", False), ("", False), ("Later", False)]
)
def test_effects(effect: str, blocks: bool) -> None:
    taint = Taint("bad", "y", effect)
    assert blocking_taint([taint], []) == (taint if blocks else None)


def test_every_taint_must_be_tolerated() -> None:
    other = Taint("slow", "y", "NoExecute")
    tolerations = [Toleration("bad", "Exists")]
    assert blocking_taint([BAD], tolerations) is None
    assert blocking_taint([BAD, other], tolerations) is other

"""Taints and tolerations."""

from __future__ import annotations

import pytest

from dra_spawner.dra.objects import Taint, Toleration
from dra_spawner.dra.taints import blocking_taint, tolerates
from tests.all_of_them import all_of_them

BAD = Taint("bad", "y", "NoSchedule")


@all_of_them(
    [
        pytest.param(Toleration("bad", "Equal", "y"), True, id="equal"),
        pytest.param(Toleration("bad", "Equal", "n"), False, id="other-value"),
        pytest.param(Toleration("bad", "", "y"), True, id="no-operator"),
        pytest.param(Toleration("bad", "Exists"), True, id="exists"),
        pytest.param(Toleration("slow", "Exists"), False, id="other-key"),
        pytest.param(Toleration("", "Exists"), True, id="any-key"),
        pytest.param(Toleration("", "Equal", "y"), True, id="any-key-with-value"),
        pytest.param(Toleration("", "Equal", "n"), False, id="any-key-other-value"),
        pytest.param(Toleration("bad", "Exists", effect="NoSchedule"), True, id="effect"),
        pytest.param(Toleration("bad", "Exists", effect="NoExecute"), False, id="other-effect"),
        pytest.param(Toleration("bad", "Exists", toleration_seconds=0), True, id="seconds-do-not-matter"),
        pytest.param(Toleration("bad", "Near", "y"), False, id="unknown-operator"),
    ]
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

"""Half an hour of random events; the invariants are checked after every step."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.examples import examples
from tests.placeholders.planner.chaos import Chaos

SEEDS = 25


@pytest.mark.parametrize("seed", range(examples(SEEDS)))
def test_chaos(seed: int) -> None:
    chaos = Chaos(seed)
    while chaos.world.now - chaos.begun < timedelta(minutes=30):
        chaos.step()
        chaos.check()
    chaos.rest()

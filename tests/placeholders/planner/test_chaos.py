"""Half an hour of random events; the invariants are checked after every step."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.examples import example_count
from tests.placeholders.planner.chaos import Chaos

SEEDS = 25


@pytest.mark.parametrize("seed", range(example_count(SEEDS)))
def test_chaos(seed: int) -> None:
    chaos = Chaos(seed, packs_devices=bool(seed % 2))
    chaos.changes_images = seed % 3 == 1
    while chaos.world.now - chaos.begun < timedelta(minutes=30):
        chaos.step()
        chaos.check()
    chaos.rest()

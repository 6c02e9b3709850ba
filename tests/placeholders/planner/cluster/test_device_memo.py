"""Results from devices and classes are computed once, until a device or a class changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.placeholders.planner.cluster.device_memo import DeviceMemo

GPU = {"gpu": DeviceClass("gpu", ("true",))}


@pytest.mark.parametrize(
    ("change", "computed"),
    [
        pytest.param(lambda memo: None, 1, id="nothing"),
        pytest.param(lambda memo: memo.classes_are(dict(GPU)), 1, id="equal classes"),
        pytest.param(lambda memo: memo.classes_are({}), 2, id="other classes"),
        pytest.param(lambda memo: memo.devices_changed(), 2, id="devices"),
        pytest.param(lambda memo: memo.forget("a"), 2, id="one result"),
        pytest.param(lambda memo: memo.forget("b"), 1, id="another result"),
    ],
)
def test_a_change_makes_results_be_computed_again(change: Callable[[DeviceMemo], None], computed: int) -> None:
    memo, seen = DeviceMemo(), list[str]()

    def compute() -> None:
        """A result of None is cached, too."""
        seen.append("a")

    memo.classes_are(GPU)
    memo.of("a", compute)
    change(memo)
    memo.of("a", compute)
    assert len(seen) == computed

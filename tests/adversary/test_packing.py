"""Devices of foreign drivers beside those that are packed: no start changes its answer, and nothing of theirs gets into CEL."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.cel import compile_selector
from dra_spawner.dra.preferences import devices_selector
from dra_spawner.placeholders.availability_state import AvailabilityState
from tests.adversary.hostile_texts import NAMES
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, SHARE, Json, gpu_claim, share_claim
from tests.placeholders.planner.packed_world import start, world_with_identifiers


def published(name: str, devices: list[Json], count: int = 1, **where: Any) -> Json:
    pool = {"name": "foreign", "generation": 1, "resourceSliceCount": count}
    spec = {"driver": "gpu.example.com", "pool": pool, "devices": devices, **(where or {"allNodes": True})}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def many(number: int) -> list[Json]:
    """Slices of so many devices that each node sees."""
    parts = [[{"name": f"d{part}-{place}"} for place in range(128)] for part in range(number // 128)]
    return [published(f"s{part}", devices, len(parts)) for part, devices in enumerate(parts)]


ATTRIBUTES = {f"a{place}": {"string": text[:64]} for place, text in enumerate(NAMES[-30:])}


@all_of_them(
    "slices",
    {
        "texts that are CEL": [published("s", [{"name": "x", "attributes": ATTRIBUTES}])],
        "the same identifier": [published("s", [{"name": "x", "attributes": {"uuid": {"string": "GPU-a-gpu-1"}}}], nodeName="b")],
        "both names": [published("s", [{"name": "x", "attributes": {"uuid": {"string": "u"}, "gpu.example.com/uuid": {"string": "v"}}}])],
        "lists": [published("s", [{"name": "x", "attributes": {"uuid": {"strings": ["u"]}}}])],
        "no attributes": [published("s", [{"name": f"x{place}"} for place in range(9)])],
        "10,000 devices": many(10_112),
        "an incomplete pool": [published("s", [{"name": "x"}], 7)],
    },
)  # fmt: skip
def test_foreign_devices_change_no_answer(slices: list[Json]) -> None:
    answers = []
    for packs in (False, True):
        world = world_with_identifiers(packs_devices=packs)
        start(world, "whole", gpu_claim())
        start(world, "share", share_claim("40Gi"))
        world.leave("whole")
        for each in slices:
            world.cluster.apply(each)
        world.settle()
        found = [world.placement(shape) for shape in (SHARE, GPU)]
        answers.append([each.state for each in found])
        for placement in found:
            for groups in placement.preferences.of_claims.get("gpu", {}).values():
                for group in groups:
                    compile_selector(devices_selector(group), list_attributes=False)
                    assert len(devices_selector(group)) < 10_240
    assert answers[0] == answers[1]
    assert answers[1][0] is AvailabilityState.FREE

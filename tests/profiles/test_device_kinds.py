"""The cache of the last devices, which threads share."""

from __future__ import annotations

from dra_spawner.dra.model.devices import ResourceSlice
from dra_spawner.profiles.device_kinds import kinds_of
from tests.integration.devices import node_with, whole
from tests.other_threads import results_at_each_step


def slices_of(*nodes: str) -> tuple[ResourceSlice, ...]:
    objects = (obj for node in nodes for obj in node_with(node, whole("gpu-0")))
    return tuple(ResourceSlice.from_json(obj) for obj in objects if obj["kind"] == "ResourceSlice")


def test_a_caller_gets_the_kinds_of_its_own_devices_whatever_another_thread_asks() -> None:
    own, others = slices_of("a", "b"), slices_of("c", "d")
    for last in (own, others):
        kinds_of(last, see_lists=False)
        found = list(
            results_at_each_step(
                kinds_of, lambda: kinds_of(own, see_lists=False), lambda: kinds_of(others, see_lists=False)
            )
        )
        assert len(found) > 10, "steps"
        assert {tuple(device.id.pool for device in each.devices) for each in found} == {("a", "b")}

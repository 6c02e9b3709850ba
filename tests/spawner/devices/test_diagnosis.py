"""Why a server waits while machines take no new servers: what ends the wait, and what does not."""

from __future__ import annotations

from typing import Any, cast

from dra_spawner import names
from dra_spawner.simulator.refusal_text import CLOSED, CLOSED_AND_FULL, DRAINED, DRAINED_AND_FULL
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.reader import DeviceObjects, DeviceReader
from tests.all_of_them import all_of_them
from tests.integration.devices import classes, node_with, whole

GPU = {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
SPARES = {"key": f"{names.DRAIN_SPARES_PREFIX}x", "operator": "Exists"}
POD = {"spec": {"affinity": {"nodeAffinity": {"terms": [SPARES]}}}}
IN_USE = "All devices of this kind are in use. The server starts as soon as one is free."


def held(node: str, device: str) -> dict[str, Any]:
    """The claim of another server, which has a device."""
    result = {"request": "device", "driver": "gpu.example.com", "pool": node, "device": device}
    return {
        "metadata": {"name": f"of-{device}", "namespace": "hub", "uid": device},
        "spec": GPU,
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def node(name: str, *devices: str, state: str = "") -> list[dict[str, Any]]:
    found = node_with(name, *map(whole, devices))
    if state == "drained":
        found[0]["metadata"].setdefault("labels", {})[names.DRAINING] = names.ORDERED
    elif state:
        found[0]["spec"] = {"unschedulable": True}
    return found


@all_of_them(
    "objects, claims, said",
    {
        "drained and full": (
            [*node("a", "gpu-0", state="drained"), *node("b")],
            [held("a", "gpu-0")],
            DRAINED_AND_FULL,
        ),
        "drained alone": (node("a", "gpu-0", state="drained"), [held("a", "gpu-0")], DRAINED_AND_FULL),
        "cordoned and full": (
            [*node("a", "gpu-0", state="cordoned"), *node("b")],
            [held("a", "gpu-0")],
            CLOSED_AND_FULL,
        ),
        "drained with room": ([*node("a", "gpu-0", state="drained"), *node("b")], [], DRAINED),
        "cordoned with room": (node("a", "gpu-0", state="cordoned"), [], CLOSED),
        "another one may be free first": (
            [*node("a", "gpu-0", state="drained"), *node("b", "gpu-1")],
            [held("a", "gpu-0"), held("b", "gpu-1")],
            None,
        ),
    },
)
async def test_machines_that_take_no_new_servers(objects: Any, claims: Any, said: Any) -> None:
    slices = [each for each in objects if each["kind"] == "ResourceSlice"]
    nodes = [each for each in objects if each["kind"] == "Node"]

    class Reader:
        async def objects(self) -> DeviceObjects:
            return DeviceObjects(classes(), slices, claims, nodes, [])

    found = await diagnose(cast(DeviceReader, Reader()), {"gpu": GPU}, pod=POD)
    assert found.while_waiting == (said.waiting if said is not None else IN_USE)
    assert not found.is_permanent

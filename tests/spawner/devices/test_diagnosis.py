"""Why a server waits while machines take no new servers: what ends the wait, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.device_drains import rules_of
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from dra_spawner.simulator.refusal_text import CLOSED, CLOSED_AND_FULL, DRAINED, DRAINED_AND_FULL, out_of_use
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.reader import DeviceObjects, DeviceReader
from tests.all_of_them import all_of_them
from tests.integration.devices import classes, node_with, whole

GPU = {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
SPARES = {"key": f"{names.DRAIN_SPARES_PREFIX}x", "operator": "Exists"}
POD = {"spec": {"affinity": {"nodeAffinity": {"terms": [SPARES]}}}}
UNTIL: Final = datetime(2036, 11, 29, 14, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
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


def drained(node: str, device: str) -> dict[str, Any]:
    """The rule by which the service drains a device."""
    name = f"gpu.example.com/{node}/{device}"
    setting = Override(OverrideKind.DEVICES, name, "user ada", UNTIL, UNTIL, "fan")
    (rule,) = rules_of({name: setting}, UNTIL - timedelta(hours=1), "jhub", "").values()
    return {**rule, "kind": "DeviceTaintRule"}


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
        "drained for a time": (node("until-2", "gpu-0", state="drained"), [], out_of_use(UNTIL + 2 * HOUR)),
        "drained for a time and full": (
            node("until-2", "gpu-0", state="drained"),
            [held("until-2", "gpu-0")],
            out_of_use(UNTIL + 2 * HOUR, is_full=True),
        ),
        "the first that is back with room": (
            [
                *node("until-1", state="drained"),
                *node("until-3", "gpu-0", state="drained"),
                *node("until-2", "gpu-1", state="drained"),
                *node("a", "gpu-2", state="drained"),
            ],
            [],
            out_of_use(UNTIL + 2 * HOUR),
        ),
        "cordoned with room": (node("a", "gpu-0", state="cordoned"), [], CLOSED),
        "its device is drained": ([*node("a", "gpu-0"), drained("a", "gpu-0")], [], out_of_use(UNTIL)),
        "its device is drained and in use": (
            [*node("a", "gpu-0"), drained("a", "gpu-0")],
            [held("a", "gpu-0")],
            out_of_use(UNTIL, is_full=True),
        ),
        "another device may be free first": (
            [*node("a", "gpu-0", "gpu-1"), drained("a", "gpu-0")],
            [held("a", "gpu-0"), held("a", "gpu-1")],
            None,
        ),
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
    rules = [each for each in objects if each["kind"] == "DeviceTaintRule"]

    class Reader:
        async def objects(self) -> DeviceObjects:
            return DeviceObjects(classes(), slices, claims, nodes, rules)

    async def ends() -> dict[str, datetime]:
        return {f"until-{number}": UNTIL + number * HOUR for number in (1, 2, 3)}

    found = await diagnose(cast(DeviceReader, Reader()), {"gpu": GPU}, pod=POD, drain_ends=ends)
    assert found.while_waiting == (said.waiting if said is not None else IN_USE)
    assert not found.is_permanent

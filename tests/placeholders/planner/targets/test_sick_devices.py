"""Devices that nodes report as broken: which are meant, and which the service drains by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind, Overrides
from dra_spawner.placeholders.planner.targets.sick_devices import BY_SERVICE, SickDevice, self_drains, sick_devices
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from tests.all_of_them import all_of_them

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
DRIVER = "gpu.example.com"
GPU_0, GPU_1, NIC = (DeviceId(DRIVER, "n", name) for name in ("gpu-0", "gpu-1", "nic-0"))


def result(request: str, device: str, **more: Any) -> dict[str, Any]:
    return {"request": request, "driver": DRIVER, "pool": "n", "device": device, **more}


def claim(*results: dict[str, Any], consumer: str = "u1") -> TrackedClaim:
    return TrackedClaim.from_json(
        {
            "metadata": {"name": "c", "namespace": "jhub"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": {
                "allocation": {"devices": {"results": list(results)}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": consumer}],
            },
        }
    )


def pod(name: str, resource_id: str = "", health: str = "Unhealthy", **more: Any) -> Pod:
    report = {"name": name, "resources": [{"resourceID": resource_id, "health": health, "message": "Xid\n79 \x1b[0m."}]}
    return Pod.from_json(
        {
            "metadata": {"name": "p", "namespace": "jhub", "uid": "u1", "creationTimestamp": "2027-01-31T11:00:00Z"},
            "spec": {"nodeName": "n", "resourceClaims": [{"name": "dev", "resourceClaimName": "c"}], "containers": []},
            "status": {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [report]}], **more},
        }
    )


ONE = claim(result("gpu", "gpu-0"))
TWO = claim(result("gpu", "gpu-0"), result("gpu", "gpu-1"), result("nic/fast", "nic-0"))


@all_of_them(
    "reported, held, expected",
    {
        "the claim's only device": (pod("claim:dev", "cdi.example.com/gpu=0"), ONE, GPU_0),
        "by the name of the device": (pod("claim:dev/gpu", str(GPU_1)), TWO, GPU_1),
        "the request's only device": (pod("claim:dev/nic", "k8s.example.com/nic=0"), TWO, NIC),
        "one of two, and not which": (pod("claim:dev/gpu", "k8s.example.com/gpu=1"), TWO, None),
        "healthy": (pod("claim:dev", health="Healthy"), ONE, None),
        "unknown": (pod("claim:dev", health="Unknown"), ONE, None),
        "of another entry": (pod("claim:other"), ONE, None),
        "a device of nobody's claim": (pod("claim:dev/gpu", f"{DRIVER}/n/gpu-7"), TWO, None),
        "of a claim that the pod does not have": (pod("claim:dev"), claim(result("gpu", "gpu-0"), consumer="u2"), None),
        "admin access": (pod("claim:dev"), claim(result("gpu", "gpu-0", adminAccess=True)), None),
        "of a pod that has ended": (pod("claim:dev", phase="Failed"), ONE, None),
        "without an allocation": (pod("claim:dev"), claim(), None),
    },
)
def test_which_device_is_meant(reported: Pod, held: TrackedClaim, expected: DeviceId | None) -> None:
    found = sick_devices([reported], {ObjectKey("jhub", "c"): held})
    assert list(found) == ([expected] if expected is not None else [])
    assert all(each.message == "Xid 79 [0m" and each.since == NOW - timedelta(hours=1) for each in found.values())


def sick(*devices: DeviceId, since: datetime = NOW) -> dict[DeviceId, SickDevice]:
    return {each: SickDevice("Xid 79", since) for each in devices}


def drained(*devices: DeviceId, by: str = BY_SERVICE) -> Overrides:
    settings = [Override(OverrideKind.DEVICES, "/".join(each), by, NOW) for each in devices]
    return Overrides({each.key: each for each in settings})


@all_of_them(
    "present, limit, new, too_many",
    {
        "one": (Overrides(), 1, [GPU_0], [GPU_1]),
        "both": (Overrides(), 2, [GPU_0, GPU_1], []),
        "none is allowed": (Overrides(), 0, [], [GPU_0, GPU_1]),
        "one is drained by the service": (drained(GPU_0), 1, [], [GPU_1]),
        "a person's drains do not count": (drained(GPU_0, NIC, by="user ada"), 1, [GPU_1], []),
        "more than now allowed": (drained(NIC, GPU_0), 1, [], [GPU_1]),
    },
)
def test_a_broken_driver_does_not_close_all(
    present: Overrides, limit: int, new: list[DeviceId], too_many: list[DeviceId]
) -> None:
    found = self_drains(sick(GPU_0, GPU_1), present, limit, NOW)
    assert [each.name for each in found.settings] == ["/".join(each) for each in new]
    assert list(found.too_many) == too_many
    assert all((each.by, each.reason) == (BY_SERVICE, "reported as broken: Xid 79") for each in found.settings)


def test_a_person_has_the_last_word_until_a_later_server_reports() -> None:
    drain = drained(GPU_0)
    ended = drain.without((OverrideKind.DEVICES, "/".join(GPU_0)), "user ada", NOW)
    assert not self_drains(sick(GPU_0), ended, 5, NOW).settings
    (again,) = self_drains(sick(GPU_0, since=NOW + timedelta(seconds=1)), ended, 5, NOW).settings
    assert again.name == "/".join(GPU_0)
    assert self_drains(sick(GPU_1), ended, 5, NOW).settings, "another device"

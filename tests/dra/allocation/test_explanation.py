"""What users read of a pod that waits: what others have in use is told from what no machine could ever give."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.allocation.cause_text import DEVICE_CAUSES, RefusalKind
from dra_spawner.dra.allocation.explanation import Assessment, assess
from tests.dra.builders import DRIVER, device_json

CLASS = {"metadata": {"name": "gpu"}, "spec": {}}
ADDED = "It starts only when another machine is added that can."


def published(name: str, *devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": name}, "spec": spec}


def whole(name: str, **attributes: str) -> Any:
    return device_json(name, attributes=attributes)


def shared(name: str) -> Any:
    return device_json(name, capacity={"memory": "40Gi"}, allowMultipleAllocations=True)


def used(*devices: str, node: str = "a", memory: str = "") -> dict[str, Any]:
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": node, "device": each}
        | ({"shareID": f"{number}", "consumedCapacity": {"memory": memory}} if memory else {})
        for number, each in enumerate(devices)
    ]
    return {"metadata": {"name": "other"}, "spec": {}, "status": {"allocation": {"devices": {"results": results}}}}


def request(**exactly: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]}}


def asked(spec: dict[str, Any], slices: list[dict[str, Any]], *existing: dict[str, Any]) -> Assessment:
    nodes = [{"metadata": {"name": each["metadata"]["name"]}} for each in slices]
    return assess({"gpu": spec}, nodes=nodes, slices=slices, classes=[CLASS], existing=existing)


def test_never_is_told_from_in_use() -> None:
    four = [published("a", *map(whole, "1234")), published("b", *map(whole, "12"))]
    shares = [published("a", shared("1"))]
    alike = request(count=2)
    alike["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/root"}]
    roots = [published("a", whole("1", root="x"), whole("2", root="y"))]
    rows = {
        "it asks for 9 such devices, and the machine with most of them has 4": asked(request(count=9), four),
        "it asks for 5 such devices, and the machine with most of them has 4": asked(
            request(count=5), four, used("1", "2")
        ),
        "it asks for 100 GiB of memory, and the largest such device has 40 GiB": asked(
            request(capacity={"requests": {"memory": "100Gi"}}), shares
        ),
        "no machine has devices that belong together in the way that it asks for": asked(alike, roots),
    }
    expected = {text: Assessment(False, f"Even the empty machines could not run it: {text}.", ADDED) for text in rows}
    assert rows == expected
    busy = DEVICE_CAUSES[RefusalKind.IN_USE]
    in_use = asked(request(count=4), four, used("1"))
    assert (in_use.fits, in_use.sentence, in_use.outlook) == (False, busy.now, busy.ends)
    full = asked(request(capacity={"requests": {"memory": "30Gi"}}), shares, used("1", memory="20Gi"))
    assert full.sentence == "All devices are too full: 30 GiB of memory needed, 20 GiB left on the one that has most."
    assert asked(request(count=4), four) == Assessment(True)
    assert asked(request(count=1), []).sentence == "No machine has devices now."

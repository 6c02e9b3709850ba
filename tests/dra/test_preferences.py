"""Alternatives before a request: what they ask for, and values of foreign drivers that cannot end a literal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.dra.preferences import (
    DeviceMark,
    may_have_preferences,
    preferences_json,
    read_preferences,
    with_preferences,
)
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, device_json, devices_of, make_allocator, make_slice, request
from tests.dra.builders import NODE as N1

MARK = DeviceMark(DRIVER, ((DRIVER, "uuid", "GPU-b"),))


def spec_of(*requests: Any, **devices: Any) -> Any:
    return {"devices": {"requests": list(requests), **devices}}


def test_the_request_itself_is_the_last_alternative() -> None:
    wanted = request("gpu", capacity={"memory": "1Gi"}, count=1, selectors=[{"cel": {"expression": "true"}}])
    config = [{"requests": ["gpu", "nic"], "opaque": {}}, {"opaque": {}}]
    spec = spec_of(wanted, request("nic"), config=config, constraints=[])
    found = with_preferences(spec, {"gpu": ((MARK,), (MARK, MARK))})
    preferred, second, last = found["devices"]["requests"][0]["firstAvailable"]
    assert last == {"name": "any", **wanted["exactly"]}
    own, theirs = preferred["selectors"]
    assert own["cel"]["expression"] == (
        'device.driver == "gpu.example.com" && "uuid" in device.attributes["gpu.example.com"] && '
        'device.attributes["gpu.example.com"]["uuid"] == "GPU-b"'
    )
    assert theirs == {"cel": {"expression": "true"}}
    assert {**preferred, "selectors": []} == {**last, "name": "preferred", "selectors": []}
    assert second["name"] == "preferred-2"
    assert second["selectors"][0]["cel"]["expression"].count("||") == 1
    assert found["devices"]["requests"][1] == request("nic")
    # Drivers compare these names with the name in the result.
    assert found["devices"]["config"] == [
        {"requests": ["gpu/preferred", "gpu/preferred-2", "gpu/any", "nic"], "opaque": {}},
        {"opaque": {}},
    ]
    assert spec == spec_of(wanted, request("nic"), config=config, constraints=[]), "the spec itself is not changed"


@all_of_them(
    "wanted",
    {
        "a list of its own": {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
        "admin access": request("gpu", adminAccess=False),
        "all devices": request("gpu", allocationMode="All"),
        "many selectors": request("gpu", selectors=[{"cel": {"expression": "true"}}] * 32),
        "nothing": {"name": "gpu"},
    },
)
def test_a_request_that_cannot_have_alternatives_stays(wanted: Any) -> None:
    spec = spec_of(wanted)
    assert not may_have_preferences(wanted)
    assert with_preferences(spec, {"gpu": ((MARK,),)}) is spec


def test_too_much_configuration_keeps_the_claim_as_it_is() -> None:
    spec = spec_of(request("gpu"), config=[{"requests": ["gpu", *(f"r{each}" for each in range(31))], "opaque": {}}])
    assert with_preferences(spec, {"gpu": ((MARK,),)}) is spec
    assert with_preferences({}, {"gpu": ((MARK,),)}) == {}


@all_of_them(
    "value",
    {
        text: text
        for text in ('"', "\\", '\\"', '" || true || "', "'", "\n", "\r\n", "\x00", "\u2028", "\U0001f600", "é" * 32, "{{x}}", "//")
    }
    | {"0": 0, "-5": -5, "large": 2**52},
)  # fmt: skip
def test_any_value_of_an_attribute_selects_its_device_alone(value: Any) -> None:
    """A driver's attribute is foreign text that comes into CEL."""
    devices = [
        device_json(name, attributes={"uuid": each}) for name, each in (("a", "other"), ("b", value), ("c", "\\"))
    ]
    devices = devices[:2] if value == "\\" else devices
    (group,) = read_preferences(json.loads(json.dumps(preferences_json({"r": ((DeviceMark(DRIVER, ((DRIVER, "uuid", value),)),),)}))))["r"]  # fmt: skip
    spec = with_preferences(spec_of(request()), {"r": (group,)})
    claim = ResourceClaim.from_json({"metadata": {"name": "c"}, "spec": spec})
    found = make_allocator([make_slice(devices=[*devices, device_json("none")])]).allocate(N1, [claim])
    assert isinstance(found, tuple)
    assert devices_of(found) == [["b"]]
    assert found[0].results[0].request == "r/preferred"


def mark(**changed: Any) -> Any:
    return {"driver": DRIVER, "attributes": {f"{DRIVER}/uuid": "GPU-b"}, **changed}


@all_of_them(
    "value",
    {
        "no object": [],
        "no groups": {"r": []},
        "three groups": {"r": [[mark()]] * 3},
        "no devices": {"r": [[]]},
        "nine devices": {"r": [[mark()] * 9]},
        "a text": {"r": [["x"]]},
        "no attributes": {"r": [[mark(attributes={})]]},
        "four attributes": {"r": [[mark(attributes={f"a.b/x{each}": 1 for each in range(4)})]]},
        "a name without a domain": {"r": [[mark(attributes={"uuid": "x"})]]},
        "a name that is CEL": {"r": [[mark(attributes={f'{DRIVER}/x"] == 1 || true': "x"})]]},
        "a domain that is CEL": {"r": [[mark(attributes={'a" || true || "/x': "x"})]]},
        "a driver that is CEL": {"r": [[mark(driver='" || true || "')]]},
        "a long text": {"r": [[mark(attributes={f"{DRIVER}/uuid": "x" * 65})]]},
        "half of a pair": {"r": [[mark(attributes={f"{DRIVER}/uuid": "\ud800"})]]},
        "a truth": {"r": [[mark(attributes={f"{DRIVER}/uuid": True})]]},
        "a fraction": {"r": [[mark(attributes={f"{DRIVER}/uuid": 1.5})]]},
        "a huge number": {"r": [[mark(attributes={f"{DRIVER}/uuid": 2**63})]]},
        "nothing": {"r": [[mark(attributes={f"{DRIVER}/uuid": None})]]},
        "many requests": {f"r{each}": [[mark()]] for each in range(33)},
    },
)
def test_an_answer_with_other_preferences_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"request|device|group"):
        read_preferences(value)

"""The claims that drivers' documentation shows can be written in the language, and mean the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.profiles import compile_device_claims
from dra_spawner.profiles.syntax.raw_spec import spec_requests
from tests.all_of_them import all_of_them
from tests.presence import present
from tests.profiles.drivers.beds import FACTS
from tests.profiles.drivers.choices import found, rules_of
from tests.profiles.drivers.documented_claims import DOCUMENTED, DocumentedClaim

#: Said of many examples: that a gate of the driver must be on.
GATES = {"driver-gate"}


def with_defaults(devices: dict[str, Any]) -> dict[str, Any]:
    """As the API server would fill it in."""
    devices = copy.deepcopy(devices)
    for _, request in spec_requests({"devices": devices}):
        request.setdefault("allocationMode", "ExactCount")
        if request["allocationMode"] == "ExactCount":
            request.setdefault("count", 1)
    for entry in (*devices.get("constraints", ()), *devices.get("config", ())):
        if entry.get("requests") == []:
            del entry["requests"]
    return devices


@all_of_them("documented", DOCUMENTED)
def test_a_documented_claim_compiles_to_the_documented_spec(documented: DocumentedClaim):
    plan = compile_device_claims(documented.device_claims, admin_access=True)
    if documented.specs:
        compiled = {name: spec["devices"] for name, spec in plan.specs.items()}
        assert compiled == {name: with_defaults(devices) for name, devices in documented.specs.items()}
    if documented.containers is not None:
        assert plan.container_claims() == documented.containers


def test_every_example_has_a_spec_or_is_about_its_allocation():
    for documented in DOCUMENTED.values():
        assert documented.specs or documented.shared or documented.bed or documented.findings, documented.name
    assert len(DOCUMENTED) >= 100


def selected(spec: dict[str, Any], bed: str) -> list[list[str]]:
    """For each request and alternative, the devices that its selectors select."""
    selectors = SelectorCache(list_attributes=True)
    classes = present(FACTS[bed].device_classes)
    devices = [device for each in FACTS[bed].slices or () for device in each.devices]
    return [
        [
            f"{device.id}"
            for device in devices
            if all(
                selectors.verdict(selector["cel"]["expression"], device.description) is True
                for selector in request.get("selectors", ())
            )
            and device.id.driver in str(classes[request["deviceClassName"]].selectors)
        ]
        for _, request in spec_requests(spec)
    ]


@all_of_them("documented", [pytest.param(each, id=each.name) for each in DOCUMENTED.values() if each.words is not None])
def test_words_select_the_same_devices_as_the_documented_cel(documented: DocumentedClaim):
    in_cel = compile_device_claims(documented.device_claims, admin_access=True)
    in_words = compile_device_claims(documented.words, admin_access=True)
    for name, spec in in_cel.specs.items():
        assert spec != in_words.specs[name]
        by_cel = selected(spec, documented.bed)
        assert any(by_cel)
        assert by_cel == selected(in_words.specs[name], documented.bed)


@all_of_them("documented", DOCUMENTED)
def test_a_check_finds_exactly_the_expected_problems(documented: DocumentedClaim):
    facts = FACTS[documented.bed] if documented.bed else None
    rules = set(rules_of(found(documented.device_claims, facts)))
    expected = set(documented.findings)
    assert rules - GATES == expected - GATES
    assert expected & GATES <= rules
    if documented.findings_offline:
        assert set(documented.findings_offline) <= set(rules_of(found(documented.device_claims)))

"""Choices that can meet on one device, with parameters that differ: for which drivers that is a problem."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.lint.report import check_choices
from tests.profiles.drivers.beds import FACTS
from tests.profiles.drivers.parameter_cases import burst, nvidia
from tests.profiles.drivers.rule_cases import claim


def slices(interval: str) -> dict[str, Any]:
    return nvidia(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}})


SHORT, LONG = slices("Short"), slices("Long")
FAST, SLOW = burst(ingressBurst=80, egressBurst=80), burst(ingressBurst=8, egressBurst=8)


@pytest.mark.parametrize(
    ("device_class", "bed", "parameters", "differ"),
    [
        pytest.param("gpu.nvidia.com", "unlimited-shares", (SHORT, LONG), True, id="shares of a GPU"),
        pytest.param("gpu.nvidia.com", "unlimited-shares", (LONG, LONG), False, id="with equal parameters"),
        pytest.param("gpu.nvidia.com", "a100-efa", (SHORT, LONG), False, id="GPUs of their own"),
        pytest.param("net.example.com", "example-net-cpu", (FAST, SLOW), False, id="interfaces of a card"),
    ],
)
def test_parameters_that_differ(device_class: str, bed: str, parameters: tuple[Any, Any], differ: bool):
    profiles = [
        {
            "display_name": f"Profile {number}",
            "kubespawner_override": {"device_claims": claim(device_class, each, device_class)},
        }
        for number, each in enumerate(parameters)
    ]
    report = check_choices(list_choices(profiles, {}), FACTS[bed])
    reported = [each.path for each in report.findings if "has other parameters" in each.message]
    assert reported == (["profile_list[1].kubespawner_override.device_claims.a.requests.r"] if differ else [])

"""Every example of docs/how-to/vlans.md, compiled, sent to an API server and allocated by a scheduler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles import compile_claims, parse_device_claims, profile_list_problems
from dra_spawner.profiles.compiler.claim_templates import claim_variables, expand_claims
from dra_spawner.profiles.compiler.vlan_policy import VLANS_KEYS, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import leases_data, leases_from_data
from dra_spawner.profiles.syntax.templates import VARIABLES
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.compiled_pods import claims_of, manifests, pod_of, results, send
from tests.integration.vlan_devices import card, vlan_devices

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "vlans.md"
BLOCKS = {
    (heading, number): yaml.safe_load(block)
    for heading, section in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.M | re.S)
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```$", section, re.M | re.S))
}
BANDWIDTH = BLOCKS["Bandwidth, and how many VLANs a card carries", 1]["device_claims"]
TWO_CARDS = BLOCKS["Two VLANs on different cards", 0]["device_claims"]
OTHER = BLOCKS["A driver that is not known here", 0]["device_claims"]


def server(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A pod with these claims, and its templates."""
    plan = compile_claims(expand_claims(parse_device_claims(value), {}))
    return [*manifests(plan, name), pod_of(plan, name, name)]


async def allocated(cluster: ClusterUnderTest, name: str) -> list[dict[str, Any]]:
    return await claims_of(cluster, await cluster.wait_running(name))


def parameters(claim: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry["opaque"]["parameters"] for entry in claim["status"]["allocation"]["devices"]["config"]]


@pytest.fixture
async def rack(cluster: ClusterUnderTest) -> ClusterUnderTest:
    await cluster.start_kubelet(fake=True)
    await send(cluster, *vlan_devices())
    return cluster


async def test_two_vlans_land_on_different_cards_and_a_third_interface_has_no_bandwidth_left(rack: ClusterUnderTest):
    await send(rack, *server(TWO_CARDS, "two"))
    (claim,) = await allocated(rack, "two")
    devices = results([claim])
    assert {devices["lab"][0], devices["storage"][0]} == {"eth1", "eth2"}
    consumed = {
        result["request"]: {name: Quantity.parse(amount).value() for name, amount in result["consumedCapacity"].items()}
        for result in claim["status"]["allocation"]["devices"]["results"]
    }
    assert consumed == {"lab": {"bandwidth": 6 * 10**9, "vlans": 1}, "storage": {"bandwidth": 2 * 10**9, "vlans": 1}}
    lab, storage = parameters(claim)
    assert lab["config"]["plugins"] == [
        {"type": "vlan", "vlanId": 137, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.137.0/24"}]]}}
    ]
    assert (lab["ifName"], storage["ifName"]) == ("net1", "storage")
    assert storage["config"]["plugins"][0]["vlanId"] == 20

    # 4 and 8 of 10 are left: 6 fit beside the storage only, and then nowhere.
    await send(rack, *server(BANDWIDTH, "beside"))
    assert results(await allocated(rack, "beside"))["nic"] == devices["storage"]
    await send(rack, *server(BANDWIDTH, "too-much"))
    await rack.wait_event("too-much", "FailedScheduling")


async def test_distinct_cards_run_out(rack: ClusterUnderTest):
    third = {**TWO_CARDS["nics"]["requests"], "more": {"device_class": "vlan-cni.networking.x-k8s.io"}}
    await send(rack, *server({"nics": {**TWO_CARDS["nics"], "requests": third}}, "three"))
    await rack.wait_event("three", "FailedScheduling")


async def test_a_card_carries_a_limited_number_of_vlans(rack: ClusterUnderTest):
    interface = {
        "device_class": "vlan-cni.networking.x-k8s.io",
        "where": 'device.attributes["cni.dra.networking.x-k8s.io"].ifName == "eth1"',
    }
    for number in range(3):
        await send(rack, *server({"nic": {**interface, "vlan": {"id": 100 + number}}}, f"server-{number}"))
        (claim,) = await allocated(rack, f"server-{number}")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["device"], result["consumedCapacity"]) == ("eth1", {"bandwidth": "1G", "vlans": "1"})
    await send(rack, *server({"nic": {**interface, "vlan": {"id": 200}}}, "server-4"))
    await rack.wait_event("server-4", "FailedScheduling")


async def test_a_driver_that_is_not_known(rack: ClusterUnderTest):
    await send(rack, *server(OTHER, "other"))
    claims = await allocated(rack, "other")
    allocated_parameters = {claim["spec"]["devices"]["requests"][0]["name"]: parameters(claim) for claim in claims}
    assert allocated_parameters["lab"] == [{"tag": 20, "name": "net-20"}]


def test_the_card_is_the_documented_one():
    assert BLOCKS["Bandwidth, and how many VLANs a card carries", 0] == card("eth1")


def test_the_common_case_is_sound():
    values = BLOCKS["The common case", 0]
    policy = parse_vlan_policy(values["hub"]["config"]["DRASpawner"]["vlans"])
    assert policy is not None
    assert policy.vlans == tuple(range(100, 200))
    profiles = values["singleuser"]["profileList"]
    assert profile_list_problems(profiles) == []
    claims = parse_device_claims(profiles[0]["kubespawner_override"]["device_claims"])
    assert claim_variables(claims) == {"vlan"}


def test_the_list_can_be_read():
    data = BLOCKS["The list of VLANs in use", 0]["data"]
    assert leases_data(leases_from_data(data)) == data


def test_every_placeholder_and_key_is_documented():
    text = DOCUMENT.read_text()
    assert [name for name in VARIABLES if f"`{{{name}}}`" not in text] == []
    assert [key for key in VLANS_KEYS if f"`{key}: " not in text] == []

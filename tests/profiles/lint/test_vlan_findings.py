"""Checks of choices with placeholders and VLANs."""

from __future__ import annotations

import pytest

from dra_spawner import names
from dra_spawner.profiles import ProfileError, parse_device_claims
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.compiler.vlan_attachments import DRANET, SRIOV
from dra_spawner.profiles.drivers import known_driver
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.lint import check_choices
from tests.presence import present

CNI = {"device_class": "vlan-cni.networking.x-k8s.io"}
CLAIMS = "profile_list[0].kubespawner_override.device_claims"
MINE = {"variable-without-value", "vlan-given-twice", "vlans"}


def interface(**vlan):
    return {"nic": {**CNI, "vlan": {"id": "{vlan}", **vlan}}}


def found(claims, vlans=None, own=None):
    override = {"device_claims": claims, **({"vlans": vlans} if vlans is not None else {})}
    profiles = [{"display_name": "p", "slug": "p", "kubespawner_override": override}]
    settings = {"vlans": own} if own is not None else {}
    report = check_choices(list_choices(profiles, settings), ClusterFacts())
    return [(f.level.value, f.rule, f.path, f.message) for f in report.findings if f.rule in MINE]


@pytest.mark.parametrize(
    ("claims", "vlans"),
    [
        pytest.param(interface(), {"range": "100-199"}, id="a range"),
        pytest.param(interface(), {"mapping": {"ada": 5}}, id="a mapping"),
        pytest.param(interface(id=42), None, id="no placeholder"),
        pytest.param(interface(id=42), {"range": "40-50", "exclude": 42}, id="excluded"),
        pytest.param(interface(ipam={"a": "{address}"}), {"mapping": {"ada": {"id": 5, "address": "10.0.0.1/24"}}}, id="an address for everybody"),
        pytest.param(interface(ipam={"a": "{group}-{username}"}), {"by": "group", "mapping": {"lab": 5}}, id="a group"),
    ],
)  # fmt: skip
def test_sound(claims, vlans):
    assert found(claims, vlans) == []
    assert found(claims, None, vlans) == []


@pytest.mark.parametrize(
    ("claims", "vlans", "level", "rule", "message"),
    [
        pytest.param(interface(), None, "error", "variable-without-value", "{vlan} has no value: set vlans", id="no vlans"),
        pytest.param(interface(ipam={"a": "{group}"}), {"range": 5}, "error", "variable-without-value", "by: group", id="group by user"),
        pytest.param(interface(ipam={"a": "{subnet}"}), {"range": 5}, "error", "variable-without-value", "no entry of vlans.mapping has a subnet", id="nobody's subnet"),
        pytest.param(interface(ipam={"a": "{subnet}"}), {"mapping": {"ada": {"id": 5, "subnet": "10.0.0.0/24"}, "bob": 6}}, "warning", "variable-without-value", "no value for bob", id="somebody's subnet"),
        pytest.param(interface(ipam={"a": "{subnet}"}), {"mapping": {"ada": {"id": 5, "subnet": "10.0.0.0/24"}}, "range": 7}, "warning", "variable-without-value", "whoever is not in the mapping", id="subnet with a range"),
        pytest.param(interface(id=42), {"range": "40-50"}, "warning", "vlan-given-twice", "VLAN 42 of nic", id="in the range"),
    ],
)  # fmt: skip
def test_found(claims, vlans, level, rule, message):
    ((found_level, found_rule, path, text),) = found(claims, vlans)
    assert (found_level, found_rule, path) == (level, rule, f"{CLAIMS}.nic")
    assert message in text


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(interface(ipam={"type": "dhcp"}), id="vlan"),
        pytest.param(interface(type="macvlan", master="eth1", mode="bridge", mtu=9000), id="macvlan"),
        pytest.param({"nic": {"device_class": SRIOV, "vlan": {"id": "{vlan}"}}}, id="sriov"),
        pytest.param({"a": {"requests": {"x": interface()["nic"], "y": interface(id=5)["nic"]}}}, id="two"),
    ],
)
def test_compiled_network_interfaces_are_sound_for_the_known_drivers(claims):
    override = {"device_claims": claims, "vlans": {"range": "100-199"}}
    profiles = [{"display_name": "p", "slug": "p", "kubespawner_override": override}]
    facts = ClusterFacts(attachment_definitions=frozenset())
    assert check_choices(list_choices(profiles, {}), facts).findings == ()


@pytest.mark.parametrize("name", [names.CNI_DRIVER, SRIOV, DRANET])
def test_all_classes_of_the_known_drivers_identify_their_driver(name):
    """Both tables are of the same drivers; this one comes before the other can be imported."""
    for known in present(known_driver(name)).classes:
        with pytest.raises(ProfileError) as caught:
            parse_device_claims({"nic": {"device_class": known.name, "vlan": {"id": 5, "parameters": {}}}})
        assert name in str(caught.value)


def test_wrong_vlans_are_reported_with_their_path():
    ((level, rule, path, message),) = found(interface(), {"range": "200-100"})
    assert (level, rule, path) == ("error", "vlans", "profile_list[0].kubespawner_override.vlans.range")
    assert "found '200-100'" in message
    assert found(interface(), None, {"range": "200-100"})[0][2] == "vlans.range"


def test_overrides_are_merged_as_kubespawner_does():
    assert found(interface(id=42), {"exclude": [42]}, {"range": "40-50"}) == []
    assert found(interface(), {"range": None}, {"range": "40-50"})[0][1] == "variable-without-value"

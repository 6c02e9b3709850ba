"""``vlan`` on a request: parameters of drivers, refusals, and values in claims."""

from __future__ import annotations

import json

import pytest

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles import ProfileError, compile_claims, compile_device_claims, parse_device_claims
from dra_spawner.profiles.compiler.claim_templates import claim_variables, expand_claims, vlan_numbers
from dra_spawner.profiles.compiler.vlan_attachments import SRIOV
from tests.all_of_them import all_of_them
from tests.presence import present

CNI_CLASS = {"device_class": "vlan-cni.networking.x-k8s.io"}
VF_CLASS = {"device_class": "sriovnetwork.k8snetworkplumbingwg.io"}
OTHER = {"device_class": "nic.example.com"}
HOST_LOCAL = {"type": "host-local", "ranges": [[{"subnet": "10.{vlan_high}.{vlan_low}.0/24"}]]}


def plan_of(value, **values):
    claims = parse_device_claims(value)
    return compile_claims(expand_claims(claims, {**vlan_numbers(values.pop("vlan", 300)), **values}))


def configs(value, **values):
    return [
        (config.get("requests"), config["opaque"]["driver"], config["opaque"]["parameters"])
        for claim in plan_of(value, **values).claims
        for config in claim.spec["devices"].get("config", ())
    ]


def cni(plugin, interface="net1", vlan=300):
    return {
        "apiVersion": "cni.networking.x-k8s.io/v1alpha1",
        "kind": "CNIConfig",
        "ifName": interface,
        "config": {"cniVersion": "1.0.0", "name": f"vlan-{vlan}", "plugins": [plugin]},
    }


@pytest.mark.parametrize(
    ("vlan", "parameters"),
    [
        pytest.param({"id": "{vlan}"}, cni({"type": "vlan", "vlanId": 300, "ipam": {}}), id="of the user"),
        pytest.param({"id": 42, "master": "eth1", "mtu": 9000, "interface": "lab"}, cni({"type": "vlan", "master": "eth1", "vlanId": 42, "mtu": 9000, "ipam": {}}, "lab", 42), id="written there"),
        pytest.param({"id": "{vlan}", "type": "macvlan", "master": "bond0", "mode": "bridge"}, cni({"type": "macvlan", "master": "bond0.300", "mode": "bridge", "ipam": {}}), id="macvlan"),
        pytest.param({"id": "{vlan}", "type": "ipvlan", "master": "eth1", "mode": "l3s"}, cni({"type": "ipvlan", "master": "eth1.300", "mode": "l3s", "ipam": {}}), id="ipvlan"),
        pytest.param({"id": "{vlan}", "ipam": HOST_LOCAL}, cni({"type": "vlan", "vlanId": 300, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.44.0/24"}]]}}), id="addresses by VLAN"),
        pytest.param({"id": 42, "ipam": HOST_LOCAL}, cni({"type": "vlan", "vlanId": 42, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.42.0/24"}]]}}, vlan=42), id="addresses by the VLAN that is written there"),
        pytest.param({"id": 42, "driver": names.CNI_DRIVER, "mode": None}, cni({"type": "vlan", "vlanId": 42, "ipam": {}}, vlan=42), id="driver and null"),
    ],
)  # fmt: skip
def test_cni(vlan, parameters):
    assert configs({"nic": {**CNI_CLASS, "vlan": vlan}}) == [(["nic"], names.CNI_DRIVER, parameters)]


def test_sriov_gets_a_definition_for_each_vlan():
    value = {"nic": {**VF_CLASS, "vlan": {"id": "{vlan}", "ipam": HOST_LOCAL}}}
    plan = plan_of(value)
    (companion,) = plan.companions
    name = companion.manifest["metadata"]["name"]
    assert name.startswith("vlan-300-")
    assert companion.shared
    assert companion.plural == "network-attachment-definitions"
    assert companion.manifest["apiVersion"] == "k8s.cni.cncf.io/v1"
    assert json.loads(companion.manifest["spec"]["config"]) == {
        "cniVersion": "1.0.0",
        "name": name,
        "type": "sriov",
        "vlan": 300,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.44.0/24"}]]},
    }
    ((requests, driver, parameters),) = configs(value)
    assert (requests, driver) == (["nic"], SRIOV)
    assert parameters == {
        "apiVersion": "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",
        "kind": "VfConfig",
        "ifName": "net1",
        "netAttachDefName": name,
    }
    assert plan_of(value).companions == plan.companions, "the same at each start"
    assert plan_of(value, vlan=301).companions != plan.companions
    without = {"nic": {**VF_CLASS, "vlan": {"id": "{vlan}"}}}
    assert plan_of(without).companions[0].manifest["metadata"]["name"] != name


def test_an_unknown_driver_gets_the_parameters_as_written():
    vlan: JsonObject = {
        "id": "{vlan}",
        "driver": "nic.example.com",
        "parameters": {"vlan": "{vlan}", "who": "{username}", "as": "{vlan!s}"},
    }
    value = {"nic": {**OTHER, "vlan": vlan}}
    assert configs(value, username="ada") == [(["nic"], "nic.example.com", {"vlan": 300, "who": "ada", "as": "300"})]
    vlan["id"] = 7
    assert configs(value, username="ada") == [(["nic"], "nic.example.com", {"vlan": 7, "who": "ada", "as": "7"})]


def test_each_vlan_of_a_pod_has_an_interface_of_its_own():
    interface = {**CNI_CLASS, "vlan": {"id": "{vlan}"}}
    value = {
        "a": {"requests": {"one": interface, "two": {**CNI_CLASS, "vlan": {"id": 5, "interface": "net1"}}}},
        "b": {**CNI_CLASS, "vlan": {"id": 6}},
        "c": {"first_available": {"x": {**CNI_CLASS, "vlan": {"id": 7}}, "y": {**VF_CLASS, "vlan": {"id": 7}}}},
        "d": {
            "pairs": {"count": 2, "match_attribute": "a.example.com/x", "requests": {"nic": interface, "gpu": OTHER}}
        },
    }
    assert [(requests, parameters["ifName"]) for requests, _, parameters in configs(value)] == [
        (["one"], "net2"),
        (["two"], "net1"),
        (["b"], "net3"),
        (["c/x"], "net4"),
        (["c/y"], "net4"),
        (["nic-0"], "net5"),
        (["nic-1"], "net6"),
    ]


def test_an_optional_network_interface_is_left_out_with_its_request():
    value = {"a": {"requests": {"gpu": OTHER, "nic": {**VF_CLASS, "optional": True, "vlan": {"id": 5}}}}}
    plan = plan_of(value)
    assert len(plan.companions) == 1
    assert plan.fallback.companions == ()
    assert "config" not in plan.fallback.claims[0].spec["devices"]


@all_of_them("request_, path, allowed", {
    "a number": ({**CNI_CLASS, "vlan": 42}, ".vlan", "id"),
    "no id": ({**CNI_CLASS, "vlan": {"master": "eth1"}}, ".vlan.id", "VLAN"),
    "0": ({**CNI_CLASS, "vlan": {"id": 0}}, ".vlan.id", "from 1 to 4094"),
    "4095": ({**CNI_CLASS, "vlan": {"id": 4095}}, ".vlan.id", "from 1 to 4094"),
    "a boolean": ({**CNI_CLASS, "vlan": {"id": True}}, ".vlan.id", "from 1 to 4094"),
    "text": ({**CNI_CLASS, "vlan": {"id": "42"}}, ".vlan.id", "from 1 to 4094"),
    "another placeholder": ({**CNI_CLASS, "vlan": {"id": "{userid}"}}, ".vlan.id", "{vlan}"),
    "free text": ({**CNI_CLASS, "vlan": {"id": "{value}"}}, ".vlan.id", "{vlan}"),
    "typo": ({**CNI_CLASS, "vlan": {"id": 1, "vlanId": 2}}, ".vlan.vlanId", "keys of vlan"),
    "parameters of a known driver": ({**CNI_CLASS, "vlan": {"id": 1, "parameters": {}}}, ".vlan.parameters", "type, master"),
    "type": ({**CNI_CLASS, "vlan": {"id": 1, "type": "bridge"}}, ".vlan.type", "macvlan"),
    "mode of a vlan": ({**CNI_CLASS, "vlan": {"id": 1, "mode": "bridge"}}, ".vlan.mode", "no mode"),
    "mode of another type": ({**CNI_CLASS, "vlan": {"id": 1, "type": "ipvlan", "master": "e", "mode": "bridge"}}, ".vlan.mode", "l2, l3"),
    "macvlan without master": ({**CNI_CLASS, "vlan": {"id": 1, "type": "macvlan"}}, ".vlan.master", "sub-interface"),
    "macvlan's master too long": ({**CNI_CLASS, "vlan": {"id": 1, "type": "macvlan", "master": "enp129s0f1np"}}, ".vlan.master", "at most 10"),
    "master too long": ({**CNI_CLASS, "vlan": {"id": 1, "master": "a" * 16}}, ".vlan.master", "15"),
    "master no name": ({**CNI_CLASS, "vlan": {"id": 1, "master": "../x"}}, ".vlan.master", "15"),
    "interface no name": ({**CNI_CLASS, "vlan": {"id": 1, "interface": "a b"}}, ".vlan.interface", "15"),
    "mtu": ({**CNI_CLASS, "vlan": {"id": 1, "mtu": 67}}, ".vlan.mtu", "68"),
    "ipam as text": ({**CNI_CLASS, "vlan": {"id": 1, "ipam": "dhcp"}}, ".vlan.ipam", "a mapping"),
    "placeholder in ipam": ({**CNI_CLASS, "vlan": {"id": 1, "ipam": {"a": ["{vlna}"]}}}, ".vlan.ipam.a[0]", "{vlan}"),
    "count": ({**CNI_CLASS, "vlan": {"id": 1}, "count": 2}, ".vlan", "one device"),
    "all": ({**CNI_CLASS, "vlan": {"id": 1}, "count": "all"}, ".vlan", "one device"),
    "master of a VF": ({**VF_CLASS, "vlan": {"id": 1, "master": "eth1"}}, ".vlan.master", "interface, ipam"),
    "DRANET by class": ({"device_class": "dra.net", "vlan": {"id": 1}}, ".vlan", "sets no VLAN"),
    "DRANET by name": ({**OTHER, "vlan": {"id": 1, "driver": "dra.net"}}, ".vlan.driver", "sets no VLAN"),
    "unknown class": ({**OTHER, "vlan": {"id": 1}}, ".vlan.driver", "nic.example.com"),
    "unknown driver, no parameters": ({**OTHER, "vlan": {"id": 1, "driver": "nic.example.com"}}, ".vlan.parameters", "{vlan}"),
    "unknown driver with master": ({**OTHER, "vlan": {"id": 1, "driver": "nic.example.com", "parameters": {}, "master": "e"}}, ".vlan.master", "parameters"),
    "driver's name": ({**OTHER, "vlan": {"id": 1, "driver": "NIC!", "parameters": {}}}, ".vlan.driver", "63"),
})  # fmt: skip
def test_refused(request_, path, allowed):
    with pytest.raises(ProfileError) as caught:
        parse_device_claims({"nic": request_})
    found = {problem.path: problem.allowed for problem in caught.value.problems}
    assert allowed in found[f"device_claims.nic{path}"]


def test_one_interface_name_is_not_for_two_requests():
    interface = {**CNI_CLASS, "vlan": {"id": 1, "interface": "lab"}}
    with pytest.raises(ProfileError, match="an interface of its own"):
        parse_device_claims({"a": interface, "b": {"requests": {"x": interface}}})


def test_as_many_configurations_as_the_api_takes():
    config = {"driver": "x.example.com", "parameters": {}}
    interface = {**CNI_CLASS, "vlan": {"id": 1}}
    most = [config] * 31
    value = {"a": {"requests": {"x": interface}, "config": most}}
    assert len(configs(value)) == 32
    most.append(config)
    with pytest.raises(ProfileError, match="at most 32 in all"):
        parse_device_claims(value)


# Values in claims

COMPANION = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "net-{group}", "labels": {"vlan": "{vlan!s}"}},
}


def test_values_that_a_start_needs():
    config = {"driver": "x.example.com", "parameters": {"a": ["{username}"]}}
    value = {
        "a": {"requests": {"x": OTHER}, "config": [config], "companions": {"map": {"manifest": COMPANION}}},
        "b": {**CNI_CLASS, "vlan": {"id": 5, "ipam": {"subnet": "{subnet}/{vlan_low}"}}},
        "c": {"template": "t"},
    }
    assert claim_variables(parse_device_claims(value)) == {"username", "group", "vlan", "subnet"}
    assert claim_variables(parse_device_claims({"b": {**CNI_CLASS, "vlan": {"id": "{vlan}"}}})) == {"vlan"}
    assert claim_variables(parse_device_claims({"b": {**CNI_CLASS, "vlan": {"id": 7}}})) == set()


def test_values_reach_parameters_and_companions_and_nothing_else():
    where = 'device.attributes["x.example.com"].name == "{username}"'
    request = {**OTHER, "where": where, "product": "{vlan}*"}
    config = {"driver": "x.example.com", "parameters": {"who": "{username}", "{vlan}": "{{}}"}}
    value = {"a": {"requests": {"x": request}, "config": [config], "companions": {"map": {"manifest": COMPANION}}}}
    plan = plan_of(value, username="ada", group="lab")
    devices = plan.claims[0].spec["devices"]
    assert devices["config"][0]["opaque"]["parameters"] == {"who": "ada", "{vlan}": "{}"}
    assert plan.companions[0].manifest["metadata"] == {"name": "net-lab", "labels": {"vlan": "300"}}
    expressions = [selector["cel"]["expression"] for selector in devices["requests"][0]["exactly"]["selectors"]]
    assert expressions[-1] == where
    assert "vlan" in expressions[0]
    assert "300" not in expressions[0]


def test_a_spec_is_unchanged():
    opaque = {"driver": "x.example.com", "parameters": {"a": "{username} {"}}
    spec = {
        "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}], "config": [{"opaque": opaque}]}
    }
    assert plan_of({"a": {"spec": spec}}).claims[0].spec == spec


def test_a_missing_value_is_reported_with_its_path():
    config = {"driver": "x.example.com", "parameters": {"a": "{group}"}}
    with pytest.raises(ProfileError, match=r"device_claims\.a\.config\[0\]\.parameters: found \{group\}"):
        plan_of({"a": {"requests": {"x": OTHER}, "config": [config]}})


def test_values_may_make_parameters_too_long():
    name = "a" * 60
    config = {"driver": "x.example.com", "parameters": {"a": "{username}" * 900}}
    value = {"a": {"requests": {"x": OTHER}, "config": [config]}}
    with pytest.raises(ProfileError, match="at most 10240 bytes"):
        plan_of(value, username=name)
    assert plan_of(value, username="ada")


def test_without_values_placeholders_stay_in_the_parameters():
    """Claims compiled for a check: if one were sent, the driver would refuse it, and no server in a wrong VLAN."""
    plan = compile_device_claims({"nic": {**CNI_CLASS, "vlan": {"id": "{vlan}"}}})
    (config,) = present(plan.claims[0].spec)["devices"]["config"]
    assert config["opaque"]["parameters"]["config"]["plugins"][0]["vlanId"] == "{vlan}"

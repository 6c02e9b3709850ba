"""Each rule: choices that it speaks about, and the like about which it is silent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dra_spawner.dra.objects import DeviceClass
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.drivers import DRIVER_RULES, driver_findings, known_drivers
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Level
from tests.profiles import strategies
from tests.profiles.drivers.beds import BEDS, FACTS
from tests.profiles.drivers.choices import TOLERATIONS, choice_of, found
from tests.profiles.drivers.test_parameters import function, mps, nvidia, plugin

Json = dict[str, Any]

NV = "gpu.nvidia.com"
BASE = "profile_list[0].kubespawner_override"
CLAIM = f"{BASE}.device_claims.a"
CONFIG = f"{CLAIM}.config[0]"


def claim(device_class: str, parameters: Json | None = None, driver: str = NV, **request: Any) -> Json:
    """One claim `a` of one request `r`."""
    value: Json = {"requests": {"r": {"device_class": device_class, **request}}}
    if parameters is not None:
        value["config"] = [{"requests": ["r"], "driver": driver, "parameters": parameters}]
    return {"a": value}


GPU, MIG, VFIO = "gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"
CNI, CNI_CLASS = "cni.dra.networking.x-k8s.io", "cni.networking.x-k8s.io"
VF = "sriovnetwork.k8snetworkplumbingwg.io"
TIME_SLICING = nvidia(sharing={"strategy": "TimeSlicing"})
MPS = mps(defaultActiveThreadPercentage=50)
MIG_SLICES = nvidia("MigDeviceConfig", sharing={"strategy": "TimeSlicing"})


@dataclass(frozen=True)
class Case:
    """A choice, what is known of the cluster, and the settings of the pod."""

    claims: Json
    bed: str = ""
    facts: Json = field(default_factory=dict)
    settings: Json = field(default_factory=dict)
    path: str = ""
    words: str = ""
    level: Level = Level.ERROR


def sharing_class(strategy: str) -> Json:
    """A class that brings its own parameters."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": strategy}}
    expression = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
    spec = {
        "selectors": [{"cel": {"expression": expression}}],
        "config": [{"opaque": {"driver": NV, "parameters": parameters}}],
    }
    return {"device_classes": {"own": DeviceClass.from_json({"metadata": {"name": "own"}, "spec": spec})}}


W, INFO = Level.WARNING, Level.INFO
TWO_STRATEGIES = {
    "a": {
        "requests": {"r": {"device_class": GPU}, "s": {"device_class": GPU}},
        "config": [
            {"requests": ["r"], "driver": NV, "parameters": MPS},
            {"requests": ["r", "s"], "driver": NV, "parameters": TIME_SLICING},
        ],
    }
}
TWO_INTERFACES = {
    "a": {
        "requests": {"r": {"device_class": CNI_CLASS}, "s": {"device_class": CNI_CLASS}},
        "config": [{"driver": CNI, "parameters": plugin()}],
    }
}

#: Rule -> name -> a choice in which the rule finds something.
FIRES: dict[str, dict[str, Case]] = {
    "driver-parameters": {
        "an unknown field": Case(claim(GPU, nvidia(a=1)), path=f"{CONFIG}.parameters.a", words="found 'a'; allowed:"),
        "in a spec": Case(
            {
                "a": {
                    "spec": {
                        "devices": {
                            "requests": [{"name": "r", "exactly": {"deviceClassName": GPU}}],
                            "config": [{"opaque": {"driver": NV, "parameters": nvidia(a=1)}}],
                        }
                    }
                }
            },
            path=f"{CLAIM}.spec.devices.config[0].opaque.parameters.a",
            words="NVIDIA GPUs would refuse this",
        ),
        "of a class that is not known": Case(
            claim("own-gpu", nvidia(a=1)), path=f"{CONFIG}.parameters.a", words="found 'a'"
        ),
    },
    "parameters-of-another-device-type": {
        "GpuConfig for MIG": Case(claim(MIG, TIME_SLICING), path=CONFIG, words="those need MigDeviceConfig"),
        "GpuConfig for passthrough": Case(claim(VFIO, nvidia()), path=CONFIG, words="those need VfioDeviceConfig"),
        "MigDeviceConfig for a GPU": Case(claim(GPU, MIG_SLICES), path=CONFIG, words="type gpu, which r gets"),
        "by the CEL of the request": Case(
            claim("own", TIME_SLICING, where='device.attributes["gpu.nvidia.com"].type == "mig"'),
            facts=sharing_class("TimeSlicing")
            | {
                "device_classes": {
                    "own": DeviceClass.from_json(
                        {
                            "metadata": {"name": "own"},
                            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
                        }
                    )
                }
            },
            path=CONFIG,
            words="type mig",
        ),
        "an alternative that it names": Case(
            {
                "a": {
                    "requests": {"r": {"first_available": {"m": {"device_class": MIG}, "g": {"device_class": GPU}}}},
                    "config": [{"requests": ["r/m"], "driver": NV, "parameters": nvidia()}],
                }
            },
            path=CONFIG,
            words="which r/m gets",
        ),
    },
    "unread-parameters": {
        "of another driver": Case(
            claim("dra.net", nvidia()), "network", path=CONFIG, words="none of the requests", level=W
        )
    },
    "dropped-attribute": {
        "unguarded": Case(
            claim(GPU, where='device.attributes["gpu.nvidia.com"].index == 0'),
            path=f"{CLAIM}.requests.r.where",
            words="does not publish index any more",
            level=W,
        ),
        "of AMD": Case(
            claim("gpu.amd.com", where='device.attributes["gpu.amd.com"].pciAddr == "x"'),
            path=f"{CLAIM}.requests.r.where",
            words="pciAddr",
            level=W,
        ),
    },
    "node-toleration": {
        "all nodes": Case(
            claim(GPU),
            "a100-efa",
            settings={"tolerations": []},
            path=f"{BASE}.tolerations",
            words="All nodes with NVIDIA GPUs have the taint nvidia.com/gpu:NoSchedule; set tolerations:",
            level=W,
        ),
        "not known": Case(
            claim(GPU), settings={"tolerations": None}, path=f"{BASE}.tolerations", words="often have", level=INFO
        ),
        "another value": Case(
            claim(GPU),
            "a100-efa",
            settings={"tolerations": [{"key": "nvidia.com/gpu", "value": "other", "effect": "NoSchedule"}]},
            path=f"{BASE}.tolerations",
            words="have the taint",
            level=W,
        ),
    },
    "bypassed-share": {
        "privileged": Case(
            claim(MIG), settings={"privileged": True}, path=f"{BASE}.privileged", words="privileged", level=W
        ),
        "privileged by its security context": Case(
            claim(GPU, capacity={"memory": "4Gi"}),
            settings={"container_security_context": {"privileged": True}},
            path=f"{BASE}.container_security_context.privileged",
            words="privileged",
            level=W,
        ),
        "by an environment variable": Case(
            claim(MIG),
            settings={"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
            path=f"{BASE}.environment.NVIDIA_VISIBLE_DEVICES",
            words="NVIDIA_VISIBLE_DEVICES",
            level=W,
        ),
        "by an environment variable of the container": Case(
            claim(MIG),
            settings={"extra_container_config": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]}},
            path=f"{BASE}.extra_container_config.env[0].NVIDIA_VISIBLE_DEVICES",
            words="NVIDIA_VISIBLE_DEVICES",
            level=W,
        ),
        "HAMi switched off": Case(
            claim("hami-core-gpu.project-hami.io", capacity={"cores": 30, "memory": "4Gi"}),
            settings={"environment": {"CUDA_DISABLE_CONTROL": "true"}},
            path=f"{BASE}.environment.CUDA_DISABLE_CONTROL",
            words="CUDA_DISABLE_CONTROL",
            level=W,
        ),
    },
    "share-not-enforced": {
        "memory": Case(
            claim(GPU, capacity={"memory": "4Gi"}),
            path=f"{CLAIM}.requests.r",
            words="other users of this GPU can use more than theirs",
            level=INFO,
        ),
        "the short form": Case(
            {"a": {"device_class": GPU, "capacity": {"memory": "4Gi"}}}, path=CLAIM, words="not enforced", level=INFO
        ),
        "a default that is a part": Case(
            claim(GPU), "counted-shares", path=f"{CLAIM}.requests.r", words="nothing limits", level=INFO
        ),
    },
    "mps-beside-other-sharing": {
        "shares": Case(claim(GPU, MPS), "memory-shares", path=f"{CONFIG}.parameters", words="several claims share"),
        "shares, of an unknown cluster": Case(
            claim(GPU, MPS, capacity={"shares": 1}), path=f"{CONFIG}.parameters", words="several claims share"
        ),
        "dynamic MIG": Case(claim(GPU, MPS), "dynamic-mig", path=f"{CONFIG}.parameters", words="on demand"),
        "time-slicing": Case(TWO_STRATEGIES, path=f"{CONFIG}.parameters", words="TimeSlicing, too"),
        "by the class": Case(
            claim("own", capacity={"shares": 1}),
            facts=sharing_class("MPS"),
            path=f"{CLAIM}.requests.r.device_class",
            words="several claims share",
        ),
    },
    "mps-single-user": {
        "nothing said": Case(
            claim(GPU, MPS), path=f"{CONFIG}.parameters.sharing.mpsConfig", words="multiUser", level=W
        ),
        "a user": Case(
            claim(GPU, MPS),
            settings={"uid": 1000},
            path=f"{CONFIG}.parameters.sharing.mpsConfig",
            words="multiUser",
            level=W,
        ),
    },
    "time-slicing-on-mig": {
        "on MIG": Case(
            claim(MIG, MIG_SLICES), path=f"{CONFIG}.parameters.sharing.strategy", words="no effect", level=INFO
        )
    },
    "vfio-beside-webhook": {
        "the webhook runs": Case(
            claim(VFIO, nvidia("VfioDeviceConfig")),
            facts={"webhooks": frozenset({"gpu.nvidia.com"})},
            path=f"{CONFIG}.parameters",
            words="webhook",
            level=W,
        )
    },
    "driver-gate": {
        "MPS": Case(claim(GPU, MPS), path=f"{CONFIG}.parameters.sharing.strategy", words="MPSSupport", level=INFO),
        "time-slicing": Case(
            claim(GPU, TIME_SLICING),
            path=f"{CONFIG}.parameters.sharing.strategy",
            words="TimeSlicingSettings",
            level=INFO,
        ),
    },
    "compute-domain-channel": {
        "by its class": Case(
            claim("compute-domain-default-channel.nvidia.com"), path=f"{CLAIM}.requests.r", words="{template: …}"
        )
    },
    "memory-published-as-zero": {
        "a word": Case(
            claim("gpu.intel.com", min_memory="4Gi"),
            "flex-without-memory",
            path=f"{CLAIM}.requests.r",
            words="publish memory as 0",
            level=W,
        ),
        "CEL": Case(
            claim(
                "gpu.intel.com",
                where='device.capacity["gpu.intel.com"].memory.compareTo(quantity("1Gi")) >= 0',
            ),
            "flex-without-memory",
            path=f"{CLAIM}.requests.r",
            words="xpumd",
            level=W,
        ),
    },
    "missing-capability": {
        "none": Case(claim("qat.intel.com"), path=f"{CLAIM}.requests.r", words="IPC_LOCK", level=W),
        "another": Case(
            claim("qat.intel.com"),
            settings={"container_security_context": {"capabilities": {"add": ["NET_ADMIN"]}}},
            path=f"{CLAIM}.requests.r",
            words="IPC_LOCK",
            level=W,
        ),
    },
    "cni-one-interface": {
        "two requests": Case(TWO_INTERFACES, path=f"{CONFIG}.requests", words="for 2 requests"),
        "two devices": Case(
            claim(CNI_CLASS, plugin(), CNI, count=2), path=f"{CLAIM}.requests.r.count", words="asks for 2 devices"
        ),
        "all devices": Case(
            claim(CNI_CLASS, plugin(), CNI, count="all"), path=f"{CLAIM}.requests.r.count", words="asks for all devices"
        ),
        "two configurations": Case(
            {"a": claim(CNI_CLASS)["a"] | {"config": [{"driver": CNI, "parameters": plugin()}] * 2}},
            path=f"{CONFIG}.requests",
            words="several",
        ),
        "several servers": Case(
            {"a": claim(CNI_CLASS, plugin(), CNI)["a"] | {"shared": {"by": "user"}}}, path=CONFIG, words="one pod only"
        ),
    },
    "no-interface": {
        "an RDMA device": Case(
            claim("efa.networking.k8s.aws", {"interface": {"mtu": 9000}}, "dra.net"),
            "a100-efa",
            path=f"{CONFIG}.parameters",
            words="for RDMA alone",
        )
    },
    "missing-attachment-definition": {
        "in the servers' namespace": Case(
            claim(VF, function(netAttachDefName="vlan-42"), VF),
            facts={"attachment_definitions": frozenset({"other/vlan-42"}), "namespace": "hub"},
            path=f"{CONFIG}.parameters.netAttachDefName",
            words="no NetworkAttachmentDefinition hub/vlan-42",
        ),
        "in another namespace": Case(
            claim(VF, function(netAttachDefName="vlan-42", netAttachDefNamespace="net"), VF),
            facts={"attachment_definitions": frozenset({"hub/vlan-42"}), "namespace": "hub"},
            path=f"{CONFIG}.parameters.netAttachDefName",
            words="net/vlan-42",
        ),
    },
}

DEFINITION = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "vlan-42"},
    "spec": {"config": "none"},
}

#: Rule -> name -> the like in which it finds nothing.
SILENT: dict[str, dict[str, Case]] = {
    "driver-parameters": {
        "of a leg in a VLAN": Case({"a": {"device_class": CNI_CLASS, "vlan": {"id": 42}}}),
        "right ones": Case(claim(GPU, TIME_SLICING)),
        "of a driver that is not known": Case(claim("x.example.org", {"anything": [1]}, "x.example.org")),
        "of a driver that reads none": Case(claim("gpu.intel.com", {"anything": 1}, "gpu.intel.com")),
    },
    "parameters-of-another-device-type": {
        "for whatever they fit": Case(
            {"a": claim(MIG)["a"] | {"config": [{"driver": NV, "parameters": nvidia()}]}},
        ),
        "of a type that is not known": Case(claim("own-gpu", MIG_SLICES)),
        "the other alternative": Case(
            {
                "a": {
                    "requests": {"r": {"first_available": {"m": {"device_class": MIG}, "g": {"device_class": GPU}}}},
                    "config": [{"requests": ["r/g"], "driver": NV, "parameters": nvidia()}],
                }
            }
        ),
    },
    "unread-parameters": {
        "of one of them": Case(
            {
                "a": {
                    "requests": {"r": {"device_class": GPU}, "n": {"device_class": "dra.net"}},
                    "config": [{"driver": "dra.net", "parameters": {}}],
                }
            },
            "a100-efa",
        ),
        "of a class that is not known": Case(claim("own-gpu", nvidia())),
    },
    "dropped-attribute": {
        "guarded": Case(
            claim(
                GPU,
                where='"index" in device.attributes["gpu.nvidia.com"] && device.attributes["gpu.nvidia.com"].index == 0',
            )
        ),
        "what is published is known": Case(
            claim(GPU, where='device.attributes["gpu.nvidia.com"].index == 0'), "a100-efa"
        ),
        "another driver's": Case(claim("gpu.example.com", where='device.attributes["gpu.example.com"].index == 0')),
    },
    "node-toleration": {
        "tolerated": Case(claim(GPU), "a100-efa"),
        "tolerated with its value": Case(
            claim(GPU),
            "a100-efa",
            settings={"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]},
        ),
        "everything is tolerated": Case(claim(GPU), "a100-efa", settings={"tolerations": [{"operator": "Exists"}]}),
        "no such taint": Case(claim(GPU), "memory-shares", settings={"tolerations": []}),
        "another driver": Case(claim("gpu.intel.com"), settings={"tolerations": []}),
    },
    "bypassed-share": {
        "the whole device": Case(claim(GPU), "a100-efa", settings={"privileged": True}),
        "a variable that gives nothing": Case(claim(MIG), settings={"environment": {"NVIDIA_VISIBLE_DEVICES": "void"}}),
        "another variable": Case(claim(MIG), settings={"environment": {"CUDA_VISIBLE_DEVICES": "0"}}),
        "not privileged": Case(
            claim(MIG), settings={"privileged": False, "container_security_context": {"privileged": False}}
        ),
    },
    "share-not-enforced": {
        "MIG": Case(claim(MIG), "static-mig"),
        "a device that is not shared": Case(claim(GPU, capacity={"memory": "4Gi"}), "a100-efa"),
        "all of a shared device": Case(claim(GPU), "memory-shares"),
        "HAMi": Case(claim("hami-core-gpu.project-hami.io", capacity={"cores": 30}), "hami"),
        "MPS with a limit": Case(claim(GPU, MPS), "a100-efa"),
        "administration": Case(claim(GPU, admin_access=True, count="all"), "counted-shares"),
    },
    "mps-beside-other-sharing": {
        "alone": Case(claim(GPU, MPS), "a100-efa"),
        "static MIG": Case(claim(MIG, nvidia("MigDeviceConfig", sharing={"strategy": "MPS"})), "static-mig"),
        "time-slicing of another GPU": Case(
            {
                "a": TWO_STRATEGIES["a"]
                | {
                    "config": [
                        {"requests": ["r"], "driver": NV, "parameters": MPS},
                        {"requests": ["s"], "driver": NV, "parameters": TIME_SLICING},
                    ]
                }
            }
        ),
    },
    "mps-single-user": {
        "multiUser": Case(claim(GPU, mps(multiUser=True))),
        "root": Case(claim(GPU, MPS), settings={"uid": 0}),
        "root by its security context": Case(
            claim(GPU, MPS), settings={"container_security_context": {"runAsUser": 0}}
        ),
        "time-slicing": Case(claim(GPU, TIME_SLICING)),
    },
    "time-slicing-on-mig": {
        "a whole GPU": Case(claim(GPU, TIME_SLICING)),
        "MPS on MIG": Case(claim(MIG, nvidia("MigDeviceConfig", sharing={"strategy": "MPS"}))),
    },
    "vfio-beside-webhook": {
        "no webhook": Case(claim(VFIO, nvidia("VfioDeviceConfig")), facts={"webhooks": frozenset({"other"})}),
        "not known": Case(claim(VFIO, nvidia("VfioDeviceConfig"))),
        "another kind": Case(claim(GPU, nvidia()), facts={"webhooks": frozenset({"gpu.nvidia.com"})}),
    },
    "driver-gate": {"nothing to allow": Case(claim(GPU, nvidia()))},
    "compute-domain-channel": {"a template": Case({"a": {"template": "imex-channel"}}), "a GPU": Case(claim(GPU))},
    "memory-published-as-zero": {
        "it is published": Case(claim("gpu.intel.com", min_memory="4Gi"), "flex"),
        "it does not matter": Case(claim("gpu.intel.com", product="*Flex*"), "flex-without-memory"),
        "not known": Case(claim("gpu.intel.com", min_memory="4Gi")),
    },
    "missing-capability": {
        "given": Case(
            claim("qat.intel.com"),
            settings={"container_security_context": {"capabilities": {"add": ["IPC_LOCK"]}}},
        ),
        "all": Case(
            claim("qat.intel.com"),
            settings={"extra_container_config": {"securityContext": {"capabilities": {"add": ["ALL"]}}}},
        ),
        "privileged": Case(claim("qat.intel.com"), settings={"privileged": True}),
    },
    "cni-one-interface": {
        "one": Case(claim(CNI_CLASS, plugin(), CNI)),
        "a leg in a VLAN": Case({"a": {"device_class": CNI_CLASS, "vlan": {"id": "{vlan}", "master": "eth1"}}}),
        "the only request": Case({"a": claim(CNI_CLASS)["a"] | {"config": [{"driver": CNI, "parameters": plugin()}]}}),
        "one each": Case(
            {
                "a": TWO_INTERFACES["a"]
                | {
                    "config": [
                        {"requests": ["r"], "driver": CNI, "parameters": plugin()},
                        {"requests": ["s"], "driver": CNI, "parameters": plugin("vlan", master="eth0", vlanId=7)},
                    ]
                }
            }
        ),
    },
    "no-interface": {
        "a card": Case(claim("dra.net", {"interface": {"mtu": 9000}}, "dra.net"), "network"),
        "a profile alone": Case(claim("efa.networking.k8s.aws", {"profile": "p"}, "dra.net"), "a100-efa"),
        "not known": Case(claim("efa.networking.k8s.aws", {"interface": {"mtu": 9000}}, "dra.net")),
    },
    "missing-attachment-definition": {
        "there": Case(
            claim(VF, function(netAttachDefName="vlan-42"), VF),
            facts={"attachment_definitions": frozenset({"hub/vlan-42"}), "namespace": "hub"},
        ),
        "not known": Case(claim(VF, function(netAttachDefName="vlan-42"), VF)),
        "a user's own": Case(
            claim(VF, function(netAttachDefName="vlan-{vlan}"), VF), facts={"attachment_definitions": frozenset()}
        ),
        "a companion": Case(
            {
                "a": claim(VF, function(netAttachDefName="vlan-42"), VF)["a"]
                | {"companions": {"net": {"manifest": DEFINITION}}}
            },
            facts={"attachment_definitions": frozenset()},
        ),
        "a leg in a VLAN": Case(
            {"a": {"device_class": VF, "vlan": {"id": "{vlan}"}}}, facts={"attachment_definitions": frozenset()}
        ),
        "none": Case(claim(VF, function(), VF), facts={"attachment_definitions": frozenset()}),
    },
}


def facts_of(case: Case) -> ClusterFacts | None:
    if case.bed:
        return BEDS[case.bed].facts(**case.facts)
    return ClusterFacts(**case.facts) if case.facts else None


def cases(table: dict[str, dict[str, Case]]) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{rule}: {name}") for rule, each in table.items() for name, case in each.items()
    ]


@pytest.mark.parametrize(("rule", "case"), cases(FIRES))
def test_fires(rule: str, case: Case):
    findings = [each for each in found(case.claims, facts_of(case), **case.settings) if each.rule == rule]
    assert [each.path for each in findings][:1] == [case.path]
    assert case.words in findings[0].message
    assert findings[0].level is case.level


@pytest.mark.parametrize(("rule", "case"), cases(SILENT))
def test_silent(rule: str, case: Case):
    findings = found(case.claims, facts_of(case), **case.settings)
    assert [each for each in findings if each.rule == rule] == []


def test_every_rule_is_tested_both_ways():
    assert set(FIRES) == set(SILENT) == {rule.name for rule in DRIVER_RULES}


def test_levels_are_those_that_the_rules_name():
    levels = {rule.name: set(rule.levels) for rule in DRIVER_RULES}
    for rule, each in FIRES.items():
        assert {case.level for case in each.values()} == levels[rule]


def test_what_needs_a_cluster_is_silent_without_one():
    for rule in DRIVER_RULES:
        if rule.needs_cluster:
            for case in FIRES[rule.name].values():
                assert rule.name not in [each.rule for each in found(case.claims, None, **case.settings)]


def test_a_setting_of_the_spawner_itself_has_its_path():
    profile = {"display_name": "Test", "kubespawner_override": {"device_claims": claim(MIG)}}
    (listed,) = list_choices([profile], {"privileged": True}, settings_path="c.KubeSpawner")
    assert listed.choice is not None
    paths = [each.path for each in driver_findings(listed.choice, None) if each.rule == "bypassed-share"]
    assert paths == ["c.KubeSpawner.privileged"]


def test_a_finding_stands_in_the_choice_that_says_it():
    option = {
        "display_name": "Mode",
        "choices": {
            "plain": {"display_name": "Plain", "kubespawner_override": {}},
            "odd": {
                "display_name": "Odd",
                "kubespawner_override": {
                    "device_claims": {"a": {"config": [{"driver": NV, "parameters": nvidia(a=1)}]}}
                },
            },
        },
    }
    profile = {
        "display_name": "Test",
        "kubespawner_override": {"device_claims": claim(GPU), "tolerations": TOLERATIONS},
        "profile_options": {"mode": option},
    }
    listed = [each.choice for each in list_choices([profile], {}) if each.choice is not None]
    paths = [each.path for choice in listed for each in driver_findings(choice, None)]
    base = "profile_list[0].profile_options.mode.choices.odd.kubespawner_override.device_claims"
    assert paths == [f"{base}.a.config[0].parameters.a"]


def test_each_driver_alone_finds_what_all_find():
    for each in FIRES.values():
        for case in each.values():
            choice = choice_of(case.claims, **{"tolerations": TOLERATIONS, **case.settings})
            alone = [finding for driver in known_drivers() for finding in driver.findings(choice, facts_of(case))]
            assert set(driver_findings(choice, facts_of(case))) == set(alone)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.device_claims)
def test_whatever_is_asked_can_be_checked(value: Json):
    (listed,) = list_choices([], {"device_claims": value})
    assert listed.choice is not None, listed.problems
    for facts in (None, FACTS["broken"], FACTS["a100-efa"]):
        for finding in driver_findings(listed.choice, facts):
            assert finding.path.startswith(("device_claims", "tolerations"))
            assert finding.message.endswith(".")

"""For each rule, the like in which it finds nothing."""

from __future__ import annotations

from dra_spawner.dra.preparation import PreparedFor
from tests.profiles.drivers.parameter_cases import function, mps, nvidia, plugin
from tests.profiles.drivers.rule_cases import (
    CNI,
    CNI_CLASS,
    GPU,
    MIG,
    MIG_SLICES,
    MPS,
    NV,
    SIDECAR,
    TIME_SLICING,
    TWO_CONTAINERS,
    TWO_INTERFACES,
    TWO_STRATEGIES,
    VF,
    VFIO,
    Case,
    claim,
    made_by_others,
    shared_by_servers,
)

DEFINITION = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "vlan-42"},
    "spec": {"config": "none"},
}

#: Rule -> name -> the like in which it finds nothing.
SILENT: dict[str, dict[str, Case]] = {
    "driver-parameters": {
        "of a network interface in a VLAN": Case({"a": {"device_class": CNI_CLASS, "vlan": {"id": 42}}}),
        "right ones": Case(claim(GPU, TIME_SLICING)),
        "of a driver that is not known": Case(claim("x.example.org", {"anything": [1]}, "x.example.org")),
        "of a driver that reads none": Case(claim("gpu.intel.com", {"anything": 1}, "gpu.intel.com")),
    },
    "parameters-of-another-device-type": {
        "for whatever they fit": Case({"a": claim(MIG)["a"] | {"config": [{"driver": NV, "parameters": nvidia()}]}}),
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
            claim(GPU), "a100-efa", settings={"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]}
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
    "mps-no-limit": {
        "a percentage": Case(claim(GPU, mps(defaultActiveThreadPercentage=99))),
        "and memory": Case(
            claim(GPU, mps(defaultActiveThreadPercentage=25, defaultPinnedDeviceMemoryLimit="10Gi")), "h100-one"
        ),
        "the size is not known": Case(
            claim(GPU, mps(defaultActiveThreadPercentage=25, defaultPinnedDeviceMemoryLimit="500Gi"))
        ),
    },
    "mps-per-program": {"time-slicing": Case(claim(GPU, TIME_SLICING))},
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
            claim("qat.intel.com"), settings={"container_security_context": {"capabilities": {"add": ["IPC_LOCK"]}}}
        ),
        "all": Case(
            claim("qat.intel.com"),
            settings={"extra_container_config": {"securityContext": {"capabilities": {"add": ["ALL"]}}}},
        ),
        "privileged": Case(claim("qat.intel.com"), settings={"privileged": True}),
    },
    "cni-one-interface": {
        "one": Case(claim(CNI_CLASS, plugin(), CNI)),
        "a network interface in a VLAN": Case(
            {"a": {"device_class": CNI_CLASS, "vlan": {"id": "{vlan}", "master": "eth1"}}}
        ),
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
    "prepared-for-one": {
        "GPUs": Case(shared_by_servers(GPU)),
        "one server, two containers": Case({"a": TWO_CONTAINERS["a"] | claim("dranet.net")["a"]}, settings=SIDECAR),
        "one container": Case(claim("dra.cpu", capacity={"dra.cpu/cpu": 4})),
        "not known": Case(shared_by_servers("own")),
        "a GPU that others made": Case({"a": {"claim": "standing"}}, facts=made_by_others(GPU)),
        "another claim of others": Case({"a": {"claim": "other"}}, facts=made_by_others("dranet.net"), settings={}),
        "as an administrator says": Case(
            shared_by_servers("dranet.net"), facts={"drivers_prepare_for": {"dra.net": PreparedFor.CLAIM}}
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
        "in a namespace of which nothing is known": Case(
            claim(VF, function(netAttachDefName="vlan-42", netAttachDefNamespace="other"), VF),
            facts={
                "attachment_definitions": frozenset(),
                "attachment_namespaces": frozenset({"hub"}),
                "namespace": "hub",
            },
        ),
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
        "a network interface in a VLAN": Case(
            {"a": {"device_class": VF, "vlan": {"id": "{vlan}"}}}, facts={"attachment_definitions": frozenset()}
        ),
        "none": Case(claim(VF, function(), VF), facts={"attachment_definitions": frozenset()}),
    },
}

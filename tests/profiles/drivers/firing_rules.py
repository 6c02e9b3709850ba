"""For each rule, choices in which it finds something."""

from __future__ import annotations

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.dra.preparation import PreparedFor
from tests.profiles.drivers.parameter_cases import function, mps, nvidia, plugin
from tests.profiles.drivers.rule_cases import (
    BASE,
    CLAIM,
    CNI,
    CNI_CLASS,
    CONFIG,
    GPU,
    IN_POD,
    INFO,
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
    W,
    claim,
    class_of_driver,
    made_by_others,
    shared_by_servers,
    sharing_class,
)

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
    "mps-no-limit": {
        "0 percent": Case(
            claim(GPU, mps(defaultActiveThreadPercentage=0)),
            path=f"{CONFIG}.parameters.sharing.mpsConfig.defaultActiveThreadPercentage",
            words="0 is no limit",
            level=W,
        ),
        "100 percent": Case(
            claim(GPU, mps(defaultActiveThreadPercentage=100)),
            path=f"{CONFIG}.parameters.sharing.mpsConfig",
            words="a tenth of their speed",
            level=INFO,
        ),
        "more memory than there is": Case(
            claim(GPU, mps(defaultPinnedDeviceMemoryLimit="500Gi", defaultActiveThreadPercentage=25)),
            "h100-one",
            path=f"{CONFIG}.parameters.sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
            words="It limits nothing",
            level=W,
        ),
        "a limit for no device": Case(
            claim(GPU, mps(defaultPerDevicePinnedMemoryLimit={}, defaultActiveThreadPercentage=25)),
            path=f"{CONFIG}.parameters.sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit",
            words="fewer devices",
            level=W,
        ),
    },
    "mps-per-program": {
        "limits": Case(claim(GPU, MPS), path=f"{CONFIG}.parameters.sharing.mpsConfig", words="two kernels", level=INFO)
    },
    "mps-single-user": {
        "nothing said": Case(
            claim(GPU, MPS), path=f"{CONFIG}.parameters.sharing.mpsConfig", words="multiUser", level=INFO
        ),
        "a user": Case(
            claim(GPU, MPS),
            settings={"uid": 1000},
            path=f"{CONFIG}.parameters.sharing.mpsConfig",
            words="multiUser",
            level=INFO,
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
            claim("gpu.intel.com", where='device.capacity["gpu.intel.com"].memory.compareTo(quantity("1Gi")) >= 0'),
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
    },
    "prepared-for-one": {
        "DRANET": Case(shared_by_servers("dranet.net"), path=CLAIM, words="for one pod"),
        "SR-IOV": Case(shared_by_servers(VF), path=CLAIM, words="for one pod"),
        "CNI": Case(shared_by_servers(CNI_CLASS), path=CLAIM, words="for one pod"),
        "CPUs": Case(shared_by_servers("dra.cpu"), path=CLAIM, words="for one pod"),
        "a GPU with a network card": Case(
            {
                "a": {
                    "requests": {"r": {"device_class": GPU}, "s": {"device_class": "dranet.net"}},
                    "shared": {"by": "user"},
                }
            },
            path=CLAIM,
            words="DRANET",
        ),
        "in a spec": Case(
            {
                "a": {
                    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": VF}}]}},
                    "shared": {"by": "user"},
                }
            },
            path=CLAIM,
            words="SR-IOV",
        ),
        "a class of the cluster": Case(
            shared_by_servers("own"), facts=class_of_driver("dra.net"), path=CLAIM, words="DRANET"
        ),
        "two containers": Case(TWO_CONTAINERS, settings=SIDECAR, path=CLAIM, words="2 use this one"),
        "made by others": Case(
            {"a": {"claim": "standing"}},
            facts=made_by_others("dranet.net"),
            path=CLAIM,
            words="all servers with this choice name claim standing",
            level=W,
        ),
        "made by others, in the pod": Case(
            {},
            facts=made_by_others(VF),
            settings=IN_POD,
            path=f"{BASE}.extra_pod_config.resourceClaims[0]",
            words="claim standing",
            level=W,
        ),
        "as an administrator says": Case(
            shared_by_servers(GPU),
            facts={"drivers_prepare_for": {NV: PreparedFor.POD}},
            path=CLAIM,
            words="NVIDIA GPUs",
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

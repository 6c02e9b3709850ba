"""Choices to try rules on: the class of a case, and common parts of cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.profiles.findings import Level
from tests.profiles.drivers.parameter_cases import mps, nvidia, plugin

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
    """A choice, facts of the cluster, and the settings of the pod."""

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


def class_of_driver(driver: str) -> Json:
    """A class `own` of the cluster, whose CEL names its driver."""
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    return {"device_classes": {"own": DeviceClass.from_json({"metadata": {"name": "own"}, "spec": spec})}}


def shared_by_servers(device_class: str) -> Json:
    """One claim for all servers of a user."""
    return {"a": claim(device_class)["a"] | {"shared": {"by": "user"}}}


def made_by_others(device_class: str) -> Json:
    """The claim `standing` of the cluster, which others made."""
    return {
        "claims": {"standing": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}}}
    }


IN_POD = {"extra_pod_config": {"resourceClaims": [{"name": "a", "resourceClaimName": "standing"}]}}
SIDECAR = {"extra_containers": [{"name": "sidecar", "image": "i"}]}
TWO_CONTAINERS = {
    "a": {
        "requests": {"r": {"device_class": "dra.cpu", "capacity": {"dra.cpu/cpu": 4}}},
        "containers": {"notebook": "all", "sidecar": "all"},
    }
}
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

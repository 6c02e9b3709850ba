"""Objects and facts for tests of an examination."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_spawner import names
from dra_spawner.doctor.facts import DoctorFacts, ServiceSettings
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice

Json = dict[str, Any]
NAMESPACE = "jupyterhub"
#: Of the examination, in seconds of the epoch.
NOW = 1798761610.0


def device_class(name: str, driver: str = "") -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver or name}"'}}]}
    return DeviceClass.from_json({"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})


def resource_slice(node: str, driver: str, *devices: Json, count: int = 1) -> ResourceSlice:
    return ResourceSlice.from_json(
        {
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
                "devices": list(devices),
            },
        }
    )


def gpu(name: str = "gpu-0", **more: Any) -> Json:
    return {"name": name, "capacity": {"memory": {"value": "40Gi"}}, **more}


def named(name: str, labels: Json | None = None, **parts: Any) -> Json:
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}}, **parts}


def node(name: str, *taints: Json, labels: Json | None = None, allocatable: Json | None = None) -> Json:
    return named(name, labels, spec={"taints": list(taints)}, status={"allocatable": allocatable or {}})


def kubelet(name: str, version: str) -> Json:
    """A node whose kubelet has a version."""
    found = node(name)
    found["status"]["nodeInfo"] = {"kubeletVersion": version}
    return found


def time_text(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reporting(name: str, ahead: float, age: float = 60, manager: str = "kubelet") -> Json:
    """A node whose kubelet reported `age` seconds before `NOW`, with its clock ahead."""
    fields: Json = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:lastHeartbeatTime": {}}}}}
    found = node(name)
    found["metadata"]["managedFields"] = [
        {"manager": manager, "subresource": "", "time": time_text(NOW)},
        {"manager": manager, "subresource": "status", "time": time_text(NOW - age), "fieldsV1": fields},
    ]
    found["status"]["conditions"] = [
        {"type": "DiskPressure", "lastHeartbeatTime": time_text(NOW)},
        {"type": "Ready", "lastHeartbeatTime": time_text(NOW - age + ahead)},
    ]
    return found


def pod(name: str, labels: Json | None = None, address: str = "10.0.0.1", **spec: Any) -> Json:
    return named(name, labels, spec=spec, status={"podIP": address})


def placeholder(name: str, reason: str = "", message: str = "") -> Json:
    """A placeholder whose container runs, or waits for a reason of the kubelet."""
    found = pod(name, {"component": "user-placeholder", names.MANAGED_BY: names.MANAGER}, nodeName="node-a")
    found["spec"]["containers"] = [{"name": "placeholder", "image": "r.example.com/pause:1"}]
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    phase = "Pending" if reason else "Running"
    found["status"] |= {"phase": phase, "containerStatuses": [{"name": "placeholder", "state": state}]}
    return found


def ending(name: str, seconds: float, **spec: Any) -> Json:
    """A pod with a claim that should have ended so many seconds before `NOW`."""
    found = pod(name, **{"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}], **spec})
    found["metadata"]["deletionTimestamp"] = time_text(NOW - seconds)
    return found


def workload(
    name: str, labels: Json, *, image: str = "i:1", tolerations: tuple[Json, ...] = (), **container: Any
) -> Json:
    containers = [{"name": "c", "image": image, **container}]
    return named(
        name, labels, spec={"template": {"spec": {"containers": containers, "tolerations": list(tolerations)}}}
    )


def hub_deployment(chart: str = "jupyterhub-4.4.0", base_url: str = "/") -> Json:
    labels = {"component": "hub", **({"helm.sh/chart": chart} if chart else {})}
    probe = {"httpGet": {"path": f"{base_url.rstrip('/')}/hub/health"}}
    return workload("hub", labels, livenessProbe=probe)


def service_deployment(base_url: str = "/", hub: str = "hub", path: str = "") -> Json:
    environment = {
        "JUPYTERHUB_BASE_URL": base_url,
        "JUPYTERHUB_API_URL": f"http://{hub}:8081{path or base_url.rstrip('/') + '/hub/api'}",
    }
    entries = [{"name": name, "value": value} for name, value in environment.items()]
    return workload("dra-spawner", {names.APPLICATION: names.SERVICE}, env=entries)


def control_plane(program: str, *flags: str) -> Json:
    containers = [{"name": program, "command": [program, *flags]}]
    return named(f"{program}-node-a", {"component": program}, spec={"containers": containers})


HUB_LABELS = {"app": "jupyterhub", "component": "hub"}
PROXY_LABELS = {"app": "jupyterhub", "component": "proxy"}
SERVICE_LABELS = {names.APPLICATION: names.SERVICE}


def policy(name: str, labels: Json, **spec: Any) -> Json:
    types = [each.capitalize() for each in spec]
    return named(name, spec={"podSelector": {"matchLabels": labels}, "policyTypes": types, **spec})


def sound(**changes: Any) -> DoctorFacts:
    """A cluster with which nothing is wrong, changed."""
    facts: Json = {
        "kubernetes": (1, 36),
        "versions": frozenset({"v1"}),
        "gates": {"DynamicResourceAllocation": True},
        "classes": (device_class("gpu.nvidia.com"),),
        "slices": (resource_slice("node-a", "gpu.nvidia.com", gpu()),),
        "nodes": (node("node-a", labels={"nvidia.com/gpu.present": "true"}),),
        "hub_namespace_pods": (pod("hub-1", HUB_LABELS), pod("dra-spawner-1", SERVICE_LABELS)),
        "server_namespaces": frozenset({NAMESPACE}),
        "control_plane": (
            control_plane("kube-controller-manager", "--kube-api-qps=75", "--kube-api-burst", "150"),
            control_plane("kube-scheduler", "--kube-api-qps=75", "--kube-api-burst=150"),
        ),
        "deployments": (hub_deployment(), service_deployment()),
        "daemon_sets": (),
        "services": (named("hub"), named("dra-spawner", SERVICE_LABELS)),
        "network_policies": (),
        "priority_classes": frozenset({"placeholders"}),
        "shapes_config_maps": frozenset({names.SHAPES_CONFIG_MAP}),
        "lease": named(
            "dra-spawner",
            spec={"holderIdentity": "a", "renewTime": "2027-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15},
        ),
        "settings": ServiceSettings(priority_class="placeholders"),
        "now": NOW,
    }
    return DoctorFacts(NAMESPACE, **{**facts, **changes})

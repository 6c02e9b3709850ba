"""Objects of each kind that hub or service read, with all the fields that they read.

`EXAMPLES` is the one table: test_gate finds what the package reads, and test_mutations changes these objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.placeholders.planner.capacity_buffers import buffer_manifest, template_manifest
from dra_spawner.placeholders.planner.published_shapes import PublishedShapes, published_config_map
from dra_spawner.profiles.intel_gas import names as intel
from tests.adversary import workloads
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, node_objects, user_manifest
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import SETTINGS

Json = dict[str, Any]

STAMP: Final = START.isoformat()
DRA: Final = "resource.k8s.io/v1"


def _object(kind: str, name: str, namespace: str = "", **parts: Any) -> Json:
    """With the metadata and conditions that are kept of every kind."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "u", "uid": "u", "controller": True}
    condition = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": STAMP}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": STAMP,
        "labels": {"a": "b"},
        "annotations": {"hub.jupyter.org/x": "y"},
        "ownerReferences": [owner],
    }
    return {
        "kind": kind,
        "metadata": metadata,
        **parts,
        # Asked for whatever the kind.
        "spec": {"serviceAccountName": "default", **parts.get("spec", {})},
        "status": {"podIP": "10.0.0.1", "conditions": [condition], **parts.get("status", {})},
    }


def _terminating(obj: Json) -> Json:
    """Another of the kind, that somebody has deleted."""
    metadata = {**obj["metadata"], "name": f"{obj['metadata']['name']}-leaves", "deletionTimestamp": STAMP}
    return {**obj, "metadata": metadata}


TAINT: Final[Json] = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": STAMP}
TOLERATION: Final[Json] = {
    "key": "k",
    "operator": "Equal",
    "value": "v",
    "effect": "NoExecute",
    "tolerationSeconds": 5,
}
SELECTOR: Final[Json] = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
}
NODE_TERM: Final[Json] = {
    "matchExpressions": [{"key": "k", "operator": "Gt", "values": ["5"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}],
}
NODE_SELECTOR: Final[Json] = {"nodeSelectorTerms": [NODE_TERM]}


def nodes() -> list[Json]:
    node, _ = node_objects("n0", "10", 2, "5Gi", ("i",), STAMP)
    spec = {"unschedulable": False, "taints": [TAINT]}
    obj = _object("Node", "n0", spec=spec, status={**node["status"], "declaredFeatures": ["f"]})
    obj["metadata"]["labels"] = {
        **node["metadata"]["labels"],
        names.IMAGES_READY: "true",
        "nvidia.com/gpu.present": "true",
        "gpu.intel.com/cards": "card0.card1",
        "gpu.intel.com/gpu-numbers": "0.1",
        "gpu.intel.com/numa-gpu-map": "0-0.1",
        "gpu.intel.com/pci-groups": "0.1",
        "gpu.intel.com/xe-links": "0.0-1.0",
        "telemetry.aware.scheduling.p/gas-prefer-gpu": "card0",
        "telemetry.aware.scheduling.p/gas-disable-card1": "PCI_GROUP",
    }
    obj["status"]["nodeInfo"] = {"kubeletVersion": "v1.33.5"}
    obj["status"]["conditions"] = [{**obj["status"]["conditions"][0], "lastHeartbeatTime": STAMP}]
    obj["metadata"]["managedFields"] = [
        {
            "manager": "kubelet",
            "subresource": "status",
            "time": STAMP,
            "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:lastHeartbeatTime": {}}}}},
        }
    ]
    obj["status"]["allocatable"] |= {
        "gpu.intel.com/i915": "2",
        "gpu.intel.com/xe": "2",
        "gpu.intel.com/millicores": "2000",
        "gpu.intel.com/memory.max": "8Gi",
        "gpu.intel.com/tiles": "2",
        "a/b": "0",
    }
    return [obj, _terminating(obj)]


def slices() -> list[Json]:
    _, item = node_objects("n0", "10", 2, "5Gi", ("i",), STAMP)
    spec = item["spec"]
    range_policy = {"default": "5Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}
    device: Json = {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "attributes": {
            "model": {"string": "m"},
            "v": {"version": "1.2.3"},
            "i": {"int": 1},
            "b": {"bool": True},
            "models": {"strings": ["m"]},
            "vs": {"versions": ["1.2.3"]},
            "is": {"ints": [1]},
            "bs": {"bools": [True]},
        },
        "capacity": {
            "memory": {"value": "40Gi", "requestPolicy": range_policy},
            "cores": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
        },
        "taints": [TAINT],
        "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1Gi"}}}],
        "bindsToNode": True,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores", "allocationMultiplier": "1"}},
    }
    spec["devices"][0] = device
    counters = {"sharedCounters": [{"name": "c", "counters": {"m": {"value": "10Gi"}}}]}
    shared = _object("ResourceSlice", "n0-gpus", spec={**spec, **counters})
    each = {"name": "d", "nodeName": "n0", "capacity": {}}
    of_all = {"name": "e", "allNodes": True}
    selecting = {"name": "f", "nodeSelector": NODE_SELECTOR}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    base = {"driver": "gpu.example.com", "pool": pool}
    return [
        shared,
        _object(
            "ResourceSlice", "each", spec={**base, "perDeviceNodeSelection": True, "devices": [each, of_all, selecting]}
        ),
        _object("ResourceSlice", "all", spec={**base, "allNodes": True, "devices": [{"name": "g"}]}),
        _object("ResourceSlice", "some", spec={**base, "nodeSelector": NODE_SELECTOR, "devices": [{"name": "h"}]}),
        _terminating(shared),
    ]


def classes() -> list[Json]:
    config = [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": 1}}}]
    spec = {"selectors": [{"cel": {"expression": "true"}}], "config": config, "extendedResourceName": "a/b"}
    obj = _object("DeviceClass", "gpu.example.com", spec=spec)
    return [obj, _terminating(obj)]


def user_pod() -> Json:
    """A user's pod with a wish of each kind, waiting; and what its hub and Intel's scheduler wrote on it."""
    term = {
        "labelSelector": SELECTOR,
        "topologyKey": "kubernetes.io/hostname",
        "namespaces": ["n"],
        "namespaceSelector": SELECTOR,
        "matchLabelKeys": ["a"],
        "mismatchLabelKeys": ["c"],
    }
    required, preferred = (
        f"{each}IgnoredDuringExecution" for each in ("requiredDuringScheduling", "preferredDuringScheduling")
    )
    among_pods = {required: [term], preferred: [{"weight": 1, "podAffinityTerm": term}]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["a"],
        "minDomains": 1,
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Honor",
    }
    port = {"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"}
    pod = user_manifest(
        "u",
        ("gpu",),
        tolerations=[TOLERATION],
        nodeSelector={"a": "b"},
        priority=5,
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "s", "resourceClaimName": "c"}],
        topologySpreadConstraints=[spread],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        initContainers=[
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Always",
                "ports": [port],
                "resources": {
                    "requests": {"cpu": "1"},
                    "limits": {"cpu": "1"},
                    "claims": [{"name": "gpu", "request": "gpu"}],
                },
            }
        ],
        overhead={"cpu": "1m"},
        resources={"requests": {"cpu": "1"}},
        schedulerName="default-scheduler",
        runtimeClassName="r",
        preemptionPolicy="Never",
        priorityClassName="p",
        schedulingGates=[{"name": "example.com/g"}],
        affinity={
            "nodeAffinity": {required: NODE_SELECTOR, preferred: [{"weight": 1, "preference": NODE_TERM}]},
            "podAffinity": among_pods,
            "podAntiAffinity": among_pods,
        },
    )
    (container,) = pod["spec"]["containers"]
    container["ports"], container["restartPolicy"] = [port], "Always"
    container["command"], container["args"] = ["c", "--config=x"], ["a"]
    intel_amounts = {
        "gpu.intel.com/i915": "1",
        "gpu.intel.com/xe": "0",
        "gpu.intel.com/millicores": "100",
        "gpu.intel.com/memory.max": "1Gi",
        "gpu.intel.com/tiles": "1",
    }
    container["resources"]["requests"] |= {**intel_amounts, "a/b": "1"}
    container["resources"]["limits"] = {**intel_amounts, "a/b": "1"}
    found = _object("Pod", "u", NAMESPACE)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "m",
        "lastTransitionTime": STAMP,
    }
    found["spec"] |= pod["spec"]
    found["metadata"]["labels"] |= {
        **pod["metadata"]["labels"],
        names.SHAPE: GPU.id,
        names.VLAN: "100",
        names.APPLICATION: "a",
    }
    found["metadata"]["annotations"] |= {
        names.START: "nonce",
        names.VLAN_OWNER: "user:ada",
        names.VLAN_LEASE: "nonce",
        names.DEFINITION: "{}",
        names.REASON: "because",
        intel.CARDS_ANNOTATION: "card0",
        intel.TILES_ANNOTATION: "card0:gt0",
        intel.TIME_ANNOTATION: "1",
        names.INTEL_GAS: "1",
    }
    found["status"] = {
        "phase": "Pending",
        "startTime": STAMP,
        "podIP": "10.0.0.1",
        "initContainerStatuses": [{"name": "i", "allocatedResourcesStatus": []}],
        "containerStatuses": [
            {
                "name": "notebook",
                "allocatedResourcesStatus": [
                    {"name": "claim:gpu/main", "resources": [{"resourceID": "n0/gpu-0", "health": "Unhealthy"}]},
                    {
                        "name": "claim:gpu/gpu",
                        "resources": [{"resourceID": "x", "health": "Unhealthy", "message": "m"}],
                    },
                ],
            }
        ],
        "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []},
        "nominatedNodeName": "n0",
        "conditions": [condition],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}],
        "nodeAllocatableResourceClaimStatuses": [{"resources": {"cpu": "1"}}],
    }
    return found


def pods() -> list[Json]:
    waiting = user_pod()
    placed = user_pod()
    placed["metadata"]["name"] = "placed"
    placed["spec"] |= {"nodeName": "n0", "hostNetwork": True, "schedulingGroup": {"podGroupName": "g"}}
    placed["status"]["phase"] = "Running"
    return [waiting, placed, _terminating(waiting)]


def claim() -> Json:
    """An allocated claim with all that a claim may have."""
    exactly = {
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": "5Gi"}},
        "selectors": [{"cel": {"expression": "true"}}],
        "tolerations": [TOLERATION],
        "adminAccess": False,
    }
    alternative = {"name": "a", **{key: value for key, value in exactly.items() if key != "adminAccess"}}
    devices = {
        "requests": [{"name": "gpu", "exactly": exactly}, {"name": "first", "firstAvailable": [alternative]}],
        "constraints": [
            {"requests": ["gpu"], "matchAttribute": "d/a"},
            {"requests": ["gpu"], "distinctAttribute": "d/b"},
        ],
        "config": [{"requests": ["gpu"], "opaque": {"driver": "d", "parameters": {"a": 1}}}],
    }
    result = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "n0",
        "device": "gpu-0",
        "shareID": "s",
        "adminAccess": False,
        "consumedCapacity": {"memory": "5Gi"},
        "tolerations": [TOLERATION],
    }
    device = {key: result[key] for key in ("driver", "pool", "device", "shareID")}
    network = {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.7/24"]}
    obj = _object("ResourceClaim", "c", NAMESPACE, spec={"devices": devices})
    obj["status"] |= {
        "allocation": {
            "devices": {"results": [result], "config": devices["config"]},
            "nodeSelector": NODE_SELECTOR,
        },
        "devices": [{**device, "networkData": network}],
        "reservedFor": [{"resource": "pods", "apiGroup": "", "name": "u", "uid": "uid-u"}],
    }
    obj["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    obj["metadata"]["labels"] |= {
        names.COMPONENT: names.PLACEHOLDER,
        names.RESERVED_FOR: "u",
        names.RESERVED_SINCE: "1",
        names.RESERVED_UNTIL: "2",
    }
    obj["metadata"]["annotations"] |= {
        "resource.kubernetes.io/pod-claim-name": "gpu",
        names.START: "gone",
        names.START_ENDS: STAMP,
        names.KEEP_SECONDS: "0",
        names.UNUSED_SINCE: STAMP,
    }
    return obj


def claims() -> list[Json]:
    """One that its pod owns; of a start that is over; that several servers use; that has none left."""
    own, used, unused = claim(), claim(), claim()
    started = claim()
    for name, obj in (("started", started), ("used", used), ("unused", unused)):
        obj["metadata"]["name"] = name
        obj["metadata"]["ownerReferences"] = []
        obj["status"]["reservedFor"] = []
    used["metadata"]["annotations"][f"{names.START_PREFIX}nonce"] = STAMP
    return [own, started, used, unused, _terminating(own)]


def templates() -> list[Json]:
    made = []
    for each in claims():
        metadata = {**each["metadata"], "annotations": dict(each["metadata"]["annotations"])}
        made.append(
            {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": each["spec"], **each["spec"]}}
        )
        made[-1]["status"] = {"podIP": "", "conditions": []}
    return made


def config_maps() -> list[Json]:
    """What the hub publishes, who has which VLAN, and what people set."""
    setting = {"kind": "placeholders", "name": "gpu", "by": "user ada", "at": STAMP, "until": STAMP, "reason": "r"}
    audited = {"at": STAMP, "by": "user ada", "change": "set", "subject": "placeholders gpu", "details": "d"}
    order = {"namespace": NAMESPACE, "name": "p", "uid": "u", "server": "s", "by": "user ada", "at": STAMP}
    entry = {"users": "9 of gpu", "begins": "2026-11-24 17:00"}
    set_by_people = {
        "settings.json": json.dumps([{**setting, "min": 1, "max": 2}]),
        "orders.json": json.dumps([order]),
        "calendar-entries.json": json.dumps({"a": entry}),
        "audit.json": json.dumps([audited]),
    }
    holder = {"owner": "user:ada", "server": "hub/ada", "start": "nonce", "until": STAMP, "note": "n"}
    vlans = {"name": names.VLANS_CONFIG_MAP, "namespace": NAMESPACE, "resourceVersion": "1"}
    return [
        published_config_map(
            PublishedShapes({"gpu": GPU}, {"other": "why"}), NAMESPACE, {}, names.SHAPES_CONFIG_MAP, "hub"
        ),
        {"kind": "ConfigMap", "metadata": {"name": names.SETTINGS_CONFIG_MAP}, "data": set_by_people},
        {"kind": "ConfigMap", "metadata": vlans, "binaryData": {}, "data": {"100": json.dumps([holder])}},
        {"kind": "ConfigMap", "metadata": {"name": "dra-spawner-service"}, "data": {"config.json": "{}"}},
    ]


def leases() -> list[Json]:
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": 15,
        "acquireTime": STAMP,
        "renewTime": STAMP,
        "leaseTransitions": 1,
    }
    metadata = {
        "name": "dra-spawner",
        "namespace": NAMESPACE,
        "resourceVersion": "1",
        "labels": {"app.kubernetes.io/managed-by": "dra-spawner"},
        "managedFields": [{"time": STAMP}],
    }
    return [{"kind": "Lease", "metadata": metadata, "spec": spec}]


def namespaces() -> list[Json]:
    return [{"kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {names.ADMIN_ACCESS: "true"}}}]


def attachments() -> list[Json]:
    return [{"kind": "NetworkAttachmentDefinition", "metadata": {"name": "vlan", "namespace": NAMESPACE}}]


def webhooks() -> list[Json]:
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]}
    metadata = {"name": "w"}
    return [
        {
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
            "webhooks": [{"name": "w.example.com", "rules": [rule]}],
        }
    ]


def capacity_buffers() -> list[Json]:
    return [buffer_manifest(PLAIN.id, 3, SETTINGS, "autoscaling.x-k8s.io/v1beta1")]


def pod_templates() -> list[Json]:
    return [template_manifest(PLAIN, SETTINGS)]


def quotas() -> list[Json]:
    """A quota of the placeholders' namespace, with each way to say what it counts."""
    scopes = [{"scopeName": "PriorityClass", "operator": "In", "values": ["placeholder"]}]
    hard = {"pods": "10", "requests.cpu": "20", "limits.memory": "1Ti"}
    spec = {"hard": hard, "scopes": ["NotTerminating"], "scopeSelector": {"matchExpressions": scopes}}
    metadata = {"name": "q", "namespace": NAMESPACE, "resourceVersion": "1"}
    return [
        {
            "kind": "ResourceQuota",
            "metadata": metadata,
            "spec": spec,
            "status": {"hard": hard, "used": {"pods": "1", "requests.cpu": "1500m"}},
        }
    ]


def events() -> list[Json]:
    """What the autoscaler says of a pod."""
    times = {"lastTimestamp": STAMP, "eventTime": STAMP, "series": {"count": 2, "lastObservedTime": STAMP}}
    said = {
        "reason": "NotTriggerScaleUp",
        "message": "pod didn't trigger scale-up: 1 max node group size reached",
        "involvedObject": {"kind": "Pod", "name": "p", "uid": "u"},
    }
    return [{"kind": "Event", "metadata": {"name": "e", "namespace": NAMESPACE}, **said, **times}]


EXAMPLES: Final[Mapping[str, Callable[[], list[Json]]]] = {
    "adminnetworkpolicies": workloads.admin_policies,
    "baselineadminnetworkpolicies": workloads.admin_policies,
    "capacitybuffers": capacity_buffers,
    "ciliumclusterwidenetworkpolicies": workloads.cilium_policies,
    "ciliumnetworkpolicies": workloads.cilium_policies,
    "clusternetworkpolicies": workloads.admin_policies,
    "configmaps": config_maps,
    "daemonsets": workloads.daemon_sets,
    "deployments": workloads.deployments,
    "deviceclasses": classes,
    "events": events,
    "leases": leases,
    "namespaces": namespaces,
    "network-attachment-definitions": attachments,
    "networkpolicies": workloads.network_policies,
    "nodes": nodes,
    "pods": pods,
    "podtemplates": pod_templates,
    "priorityclasses": workloads.priority_classes,
    "resourceclaims": claims,
    "resourceclaimtemplates": templates,
    "resourcequotas": quotas,
    "resourceslices": slices,
    "services": workloads.services,
    "validatingwebhookconfigurations": webhooks,
}
"""Kind by its plural -> objects of it."""

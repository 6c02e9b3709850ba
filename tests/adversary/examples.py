"""Objects of each kind that hub or service read, with all fields that are read.

`EXAMPLES` is the one table: test_gate finds the read fields, and test_mutations changes these objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.fairness.tickets.ticket_data import book_data
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from dra_spawner.placeholders.planner.targets.class_records import (
    ClassOutcome,
    ClassRecords,
    ClassRequest,
    EntryOwner,
    RaisedMax,
    class_records_text,
)
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from tests.adversary import workloads
from tests.adversary.example_parts import NODE_SELECTOR, STAMP, TAINT, TOLERATION, Json, example_object, terminating
from tests.adversary.pod_examples import pods
from tests.placeholders.planner.objects import GPU, NAMESPACE, node_objects


def nodes() -> list[Json]:
    node, _ = node_objects("n0", "10", 2, "5Gi", ("i",), STAMP)
    spec = {"unschedulable": False, "taints": [TAINT]}
    obj = example_object("Node", "n0", spec=spec, status={**node["status"], "declaredFeatures": ["f"]})
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
    return [obj, terminating(obj)]


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
    shared = example_object("ResourceSlice", "n0-gpus", spec={**spec, **counters})
    each = {"name": "d", "nodeName": "n0", "capacity": {}}
    of_all = {"name": "e", "allNodes": True}
    selecting = {"name": "f", "nodeSelector": NODE_SELECTOR}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    base = {"driver": "gpu.example.com", "pool": pool}
    return [
        shared,
        example_object(
            "ResourceSlice", "each", spec={**base, "perDeviceNodeSelection": True, "devices": [each, of_all, selecting]}
        ),
        example_object("ResourceSlice", "all", spec={**base, "allNodes": True, "devices": [{"name": "g"}]}),
        example_object(
            "ResourceSlice", "some", spec={**base, "nodeSelector": NODE_SELECTOR, "devices": [{"name": "h"}]}
        ),
        terminating(shared),
    ]


def classes() -> list[Json]:
    config = [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": 1}}}]
    spec = {"selectors": [{"cel": {"expression": "true"}}], "config": config, "extendedResourceName": "a/b"}
    obj = example_object("DeviceClass", "gpu.example.com", spec=spec)
    return [obj, terminating(obj)]


def taint_rules() -> list[Json]:
    selector = {"driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
    obj = example_object("DeviceTaintRule", "upkeep", spec={"deviceSelector": selector, "taint": TAINT})
    return [obj, terminating(obj)]


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
    obj = example_object("ResourceClaim", "c", NAMESPACE, spec={"devices": devices})
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
    return [own, started, used, unused, terminating(own)]


def templates() -> list[Json]:
    made = []
    for each in claims():
        metadata = {**each["metadata"], "annotations": dict(each["metadata"]["annotations"])}
        made.append(
            {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": each["spec"], **each["spec"]}}
        )
        made[-1]["status"] = {"podIP": "", "conditions": []}
    return made


def _class_records(written: Json) -> ClassRecords:
    at = datetime.fromisoformat(STAMP)
    return ClassRecords(
        {"a": EntryOwner("user ada", at, "physics")},
        {"b": ClassRequest(written, "user ben", at, "g", "user root", at, "No.")},
        {"a": RaisedMax("gpu", 60, at, "user root")},
        {"k": ClassOutcome(at, "No.", True, at, at, True, 60, at, 58, 9.0)},
    )


def config_maps() -> list[Json]:
    """Published shapes of the hub, VLANs of users, and settings of administrators."""
    setting = {"kind": "placeholders", "name": "gpu", "by": "user ada", "at": STAMP, "until": STAMP, "reason": "r"}
    audited = {"at": STAMP, "by": "user ada", "change": "set", "subject": "placeholders gpu", "details": "d"}
    order = {"namespace": NAMESPACE, "name": "p", "uid": "u", "server": "s", "by": "user ada", "at": STAMP}
    entry = {"users": "9 of gpu", "begins": "2026-11-24 17:00"}
    set_by_people = {
        "settings.json": json.dumps([{**setting, "min": 1, "max": 2}]),
        "orders.json": json.dumps([order]),
        "calendar-entries.json": json.dumps({"a": entry}),
        "audit.json": json.dumps([audited]),
        "classes.json": class_records_text(_class_records(entry)),
    }
    holder = {"owner": "user:ada", "server": "hub/ada", "start": "nonce", "until": STAMP, "note": "n"}
    vlans = {"name": names.VLANS_CONFIG_MAP, "namespace": NAMESPACE, "resourceVersion": "1"}
    tickets = {"name": names.TICKETS_CONFIG_MAP, "namespace": NAMESPACE, "resourceVersion": "1"}
    return [
        published_config_map(
            PublishedShapes({"gpu": GPU}, {"other": "why"}), NAMESPACE, {}, names.SHAPES_CONFIG_MAP, "hub"
        ),
        {"kind": "ConfigMap", "metadata": {"name": names.SETTINGS_CONFIG_MAP}, "data": set_by_people},
        {"kind": "ConfigMap", "metadata": vlans, "binaryData": {}, "data": {"100": json.dumps([holder])}},
        {"kind": "ConfigMap", "metadata": {"name": "dra-spawner-service"}, "data": {"config.json": "{}"}},
        {"kind": "ConfigMap", "metadata": tickets, "binaryData": {}, "data": book_data(_tickets())},
    ]


def _tickets() -> TicketBook:
    """A ticket for which a device is held, and one that waits."""
    at = datetime.fromisoformat(STAMP)
    held = Ticket("a" * 16, 1, "ada", "hub/shapes", "gpu", at, at, TicketState.HELD, ("g",), ("d",), True, "p", "u", at)
    waiting = replace(held, id="b" * 16, number=2, user="bob", state=TicketState.WAITING, placeholder="")
    tickets = {each.id: each for each in (held, waiting)}
    return TicketBook(tickets, 3, Waits(at, {waiting.id: WaitInterval(1, 2)}))


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


def quotas() -> list[Json]:
    """A quota of the placeholders' namespace, with each way to select the counted pods."""
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
    """The autoscaler's events about a pod."""
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
    "ciliumclusterwidenetworkpolicies": workloads.admin_policies,
    "ciliumnetworkpolicies": workloads.admin_policies,
    "clusternetworkpolicies": workloads.admin_policies,
    "configmaps": config_maps,
    "daemonsets": workloads.daemon_sets,
    "deployments": workloads.deployments,
    "deviceclasses": classes,
    "events": events,
    "devicetaintrules": taint_rules,
    "leases": leases,
    "namespaces": lambda: [
        {
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {names.ADMIN_ACCESS: "true", names.HUB_NAMESPACE: NAMESPACE}},
        }
    ],
    "network-attachment-definitions": lambda: [
        {"kind": "NetworkAttachmentDefinition", "metadata": {"name": "vlan", "namespace": NAMESPACE}}
    ],
    "networkpolicies": workloads.network_policies,
    "nodes": nodes,
    "pods": pods,
    "priorityclasses": workloads.priority_classes,
    "resourceclaims": claims,
    "resourceclaimtemplates": templates,
    "resourcequotas": quotas,
    "resourceslices": slices,
    "services": workloads.services,
    "validatingwebhookconfigurations": webhooks,
}
"""Kind by its plural -> objects of it."""

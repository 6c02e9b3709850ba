"""Claims that the profile language accepts: one for each thing that it can say."""

from __future__ import annotations

from typing import Any

CLASS = {"device_class": "gpu.example.com"}
NIC = {"device_class": "nic.example.com"}
ROOT = "resource.kubernetes.io/pcieRoot"
TWO = {"gpu": CLASS, "nic": NIC}
CHOICE = {"gpu": {"first_available": {"mig": {"device_class": "mig.example.com"}, "whole": CLASS}}, "nic": NIC}
PAIRS = {"count": 2, "match_attribute": ROOT, "requests": TWO}
NETWORK = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "vlan-{vlan}"},
    "spec": {"config": {"type": "macvlan", "master": "eth1.{vlan}"}},
}


def config(**more: Any) -> dict[str, Any]:
    return {"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig"}, **more}


#: Name -> ``device_claims``.
ACCEPTED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "one request": {"gpu": {**CLASS, "count": 2, "capacity": {"memory": "10Gi"}, "where": "device.allowMultipleAllocations"}},
    "several selectors": {"gpu": {**CLASS, "where": ["true", 'device.driver == "gpu.example.com"']}},
    "null is nothing said": {"gpu": {**CLASS, "product": None, "capacity": None, "where": None, "count": None, "tolerations": None, "min_memory": None}},
    "quantities": {"gpu": {**CLASS, "capacity": {"memory": 3, "example.com/cores": "1500m", "x": "1e3", "y": "0.5", "z": ".5Gi"}}},
    "all devices": {"gpu": {**CLASS, "count": "all"}},
    "alternatives": {"gpu": {"first_available": {"mig": {**CLASS, "mig_profile": "1g.5gb"}, "share": {**CLASS, "capacity": {"memory": "5Gi"}}, "two": {**CLASS, "count": 2, "where": "true"}, "all": {**CLASS, "count": "all", "tolerations": [{}]}}}},
    "alternatives in a list": {"gpu": {"first_available": [{"name": "whole", **CLASS}, {"name": "mig", **CLASS, "count": 2}]}},
    "eight alternatives": {"gpu": {"first_available": {f"a{i}": CLASS for i in range(8)}}},
    "many devices in one of the alternatives": {"a": {"requests": {"gpu": {**CLASS, "count": 31}, "b": {"first_available": {"more": {**CLASS, "count": 9}, "one": CLASS}}}}},
    "long form": {"a": {"requests": TWO, "containers": {"notebook": ["gpu", "nic"], "sidecar": ["nic"], "helper": "all", "logger": []}}},
    "match": {"a": {"requests": TWO, "constraints": [{"match_attribute": ROOT, "requests": ["gpu", "nic"]}]}},
    "distinct": {"a": {"requests": TWO, "constraints": [{"distinct_attribute": "gpu.example.com/parentUUID"}, {"match_attribute": ROOT, "distinct_attribute": None}]}},
    "constraint on an alternative": {"a": {"requests": CHOICE, "constraints": [{"match_attribute": ROOT, "requests": ["gpu/mig", "nic"]}]}},
    "config": {"a": {"requests": CHOICE, "config": [config(), config(requests=["gpu"]), config(requests=["gpu/mig", "nic"], parameters={})]}},
    "config of any shape": {"a": {"requests": TWO, "config": [config(parameters={"text": "{username} ✓ \"", "list": [1, 2.5, None, [True]], "deep": {"": {"a/b": "x"}}})]}},
    "tolerations": {"gpu": {**CLASS, "tolerations": [{"key": "example.com/fault", "operator": "Exists"}, {"key": "plain", "value": "yes", "effect": "NoSchedule"}, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"operator": "Equal", "value": "", "effect": "None"}]}},
    "properties": {"gpu": {**CLASS, "product": "A100*", "min_memory": "20Gi", "compute_capability": ">=8.0", "mig_profile": "1g.10gb+me", "numa_node": 0, "pci_bus_id": "0000:8A:00.0", "rdma": True}},
    "a version of one part": {"gpu": {**CLASS, "compute_capability": ">= 9"}},
    "a template": {"gpu": {"template": "imex-channel"}},
    "a template for containers": {"gpu": {"template": "team.gpu", "containers": {"notebook": ["gpu"], "sidecar": "all", "logger": []}}},
    "a claim": {"gpu": {"claim": "team-gpu"}},
    "no admin access": {"gpu": {**CLASS, "admin_access": False}},
    "a spec": {"gpu": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c.example.com", "selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}]}}, {"name": "s", "firstAvailable": [{"name": "x", "deviceClassName": "d.example.com"}]}]}}, "containers": {"notebook": ["r"]}}},
    "a spec without requests": {"gpu": {"spec": {"devices": {}}}},
    "an optional request": {"gpu": {**CLASS, "optional": True, "count": "all"}},
    "not optional": {"gpu": {**CLASS, "optional": False}},
    "none as the last choice": {"gpu": {"first_available": {"none": {}, "mig": CLASS}}},
    "none in a list": {"gpu": {"first_available": [{"name": "mig", **CLASS}, {"name": "none"}]}},
    "eight alternatives and none": {"gpu": {"first_available": {**{f"a{i}": CLASS for i in range(8)}, "none": {}}}},
    "optional in long form": {"a": {"requests": {"gpu": {**CLASS, "optional": True}, "nic": NIC}, "constraints": [{"match_attribute": ROOT, "requests": ["gpu", "nic"]}, {"distinct_attribute": ROOT}], "config": [config(requests=["gpu"])], "containers": {"notebook": ["gpu", "nic"]}}},
    "shared by a user": {"gpu": {**CLASS, "shared": {"by": "user", "group": None, "keep": None}}},
    "shared by a group": {"gpu": {"first_available": {"x": CLASS, "none": {}}, "shared": {"by": "group", "group": "Physics & more", "keep": "10m"}}},
    "shared by one of groups": {"a": {"requests": TWO, "shared": {"by": "group", "group": ["a", "b"], "keep": "always"}}},
    "shared by everybody": {"gpu": {"spec": {"devices": {}}, "shared": {"by": "everybody"}}},
    "not shared": {"gpu": {**CLASS, "shared": None, "companions": None}},
    "pairs": {"a": {"pairs": PAIRS, "containers": {"notebook": ["gpu"], "sidecar": ["nic-1"]}, "config": [config(requests=["nic", "gpu-0"])], "constraints": [{"distinct_attribute": ROOT, "requests": ["gpu"]}]}},
    "pairs beside requests": {"a": {"requests": {"disk": CLASS}, "pairs": {**PAIRS, "count": 15}}},
    "pairs of alternatives": {"a": {"pairs": {**PAIRS, "requests": CHOICE}, "config": [config(requests=["gpu/mig"])]}},
    "companions": {"nic": {**NIC, "companions": {"net": {"manifest": NETWORK}, "own": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}, "other": {"manifest": {"apiVersion": "example.com/v1alpha1", "kind": "Thing", "metadata": {"name": "x", "labels": {"a": "b"}}}, "resource": "things"}}}},
    "companions of a template": {"nic": {"template": "t", "companions": {"net": {"manifest": NETWORK}}}},
    "vlan of the user": {"nic": {"device_class": "cni.networking.x-k8s.io", "vlan": {"id": "{vlan}", "ipam": {"type": "dhcp"}}}},
    "vlan by number": {"nic": {"device_class": "cni.networking.x-k8s.io", "vlan": {"id": 42, "type": "macvlan", "master": "eth1", "mode": "bridge", "mtu": 9000, "interface": "lab"}}},
    "vlan of a virtual function": {"nic": {"device_class": "sriovnetwork.k8snetworkplumbingwg.io", "vlan": {"id": 42}}},
    "vlan of another driver": {"a": {"requests": {"nic": {**NIC, "vlan": {"id": "{vlan}", "driver": "nic.example.com", "parameters": {"vlan": "{vlan}"}}}, "c": {"first_available": {"x": {**NIC, "vlan": {"id": 5, "driver": "nic.example.com", "parameters": {}}}, "y": CLASS}}}}},
    "several claims": {"gpu": CLASS, "nic": {"template": "nic"}, "pair": {"requests": TWO}},
}  # fmt: skip

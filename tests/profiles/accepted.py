"""Claims that the profile language accepts: one for each thing that it can say."""

from __future__ import annotations

from typing import Any

CLASS = {"device_class": "gpu.example.com"}
NIC = {"device_class": "nic.example.com"}
ROOT = "resource.kubernetes.io/pcieRoot"
TWO = {"gpu": CLASS, "nic": NIC}
CHOICE = {"gpu": {"first_available": {"mig": {"device_class": "mig.example.com"}, "whole": CLASS}}, "nic": NIC}


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
    "several claims": {"gpu": CLASS, "nic": {"template": "nic"}, "pair": {"requests": TWO}},
}  # fmt: skip

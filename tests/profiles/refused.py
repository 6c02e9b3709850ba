"""Claims that the profile language refuses: where, what was found, and a part of what is allowed."""

from __future__ import annotations

import datetime
from typing import Any

from tests.profiles.accepted import CHOICE, CLASS, ROOT, TWO, config


def first(alternatives: Any, **more: Any) -> dict[str, Any]:
    return {"gpu": {"first_available": alternatives, **more}}


def long(**more: Any) -> dict[str, Any]:
    return {"a": {"requests": TWO, **more}}


def toleration(**entry: Any) -> dict[str, Any]:
    return {"gpu": {**CLASS, "tolerations": [entry]}}


def with_property(**entry: Any) -> dict[str, Any]:
    return {"gpu": {**CLASS, **entry}}


def spec(*requests: Any, **more: Any) -> dict[str, Any]:
    return {"gpu": {"spec": {"devices": {"requests": list(requests), **more}}}}


_CYCLE: dict[str, Any] = {}
_CYCLE["again"] = _CYCLE

#: Case -> value, path below ``device_claims``, part of what was found, part of what is allowed.
REFUSED: dict[str, tuple[Any, str, str, str]] = {
    "no alternative": (first({}), ".gpu.first_available", "", "at least one"),
    "no alternative in a list": (first([]), ".gpu.first_available", "", "at least one"),
    "alternatives as text": (first("mig"), ".gpu.first_available", "'mig'", "a mapping of a name"),
    "nine alternatives": (first({f"a{i}": CLASS for i in range(9)}), ".gpu.first_available", "9 entries", "at most 8"),
    "nine alternatives in a list": (first([{"name": f"a{i}", **CLASS} for i in range(9)]), ".gpu.first_available", "9 entries", "at most 8"),
    "alternative's name": (first({"Mig": CLASS}), ".gpu.first_available.Mig", "'Mig'", "lower-case"),
    "alternative without class": (first({"mig": {"count": 1}}), ".gpu.first_available.mig.device_class", "", "DeviceClass"),
    "alternative as text": (first({"mig": "mig.example.com"}), ".gpu.first_available.mig", "'mig.example.com'", "device_class"),
    "alternative's typo": (first({"mig": {**CLASS, "cuont": 1}}), ".gpu.first_available.mig.cuont", "'cuont'", "count"),
    "alternatives in alternatives": (first({"mig": {"first_available": {"x": CLASS}}}), ".gpu.first_available.mig.first_available", "'first_available'", "keys of an alternative"),
    "admin access of an alternative": (first({"mig": {**CLASS, "admin_access": True}}), ".gpu.first_available.mig.admin_access", "'admin_access'", "keys of an alternative"),
    "listed alternative without a name": (first([CLASS]), ".gpu.first_available[0].name", "", "63"),
    "listed alternative's name": (first([{"name": "A", **CLASS}]), ".gpu.first_available[0].name", "'A'", "lower-case"),
    "listed alternative as text": (first(["mig"]), ".gpu.first_available[0]", "'mig'", "name and device_class"),
    "a name in an alternative with a name": (first({"a": {"name": "b", **CLASS}}), ".gpu.first_available.a.name", "'name'", "keys of an alternative"),
    "two alternatives of a name": (first([{"name": "a", **CLASS}, {"name": "a", **CLASS}]), ".gpu.first_available", "['a', 'a']", "each name once"),
    "class beside alternatives": (first({"mig": CLASS}, device_class="gpu.example.com"), ".gpu.device_class", "'device_class'", "first_available"),
    "count beside alternatives": (first({"mig": CLASS}, count=1), ".gpu.count", "'count'", "first_available"),
    "count as another word": (with_property(count="every"), ".gpu.count", "'every'", "or all"),
    "too many devices at the least": ({"a": {"requests": {"g": {**CLASS, "count": 31}, "h": {"first_available": {"x": {**CLASS, "count": 2}, "y": {**CLASS, "count": 3}}}}}}, ".a.requests", "33 devices", "32"),
    "all of two requests too many": ({"a": {"requests": {"g": {**CLASS, "count": 32}, "h": {**CLASS, "count": "all"}}}}, ".a.requests", "33 devices", "32"),
    "constraints in short form": (with_property(constraints=[]), ".gpu.constraints", "[]", "long form"),
    "config in short form": (with_property(config=[config()]), ".gpu.config", "driver", "long form"),
    "constraint no list": (long(constraints={"match_attribute": ROOT}), ".a.constraints", "match_attribute", "list of constraints"),
    "constraint as text": (long(constraints=[ROOT]), ".a.constraints[0]", ROOT, "match_attribute"),
    "constraint without attribute": (long(constraints=[{"requests": ["gpu"]}]), ".a.constraints[0]", "", "one of match_attribute"),
    "constraint with both": (long(constraints=[{"match_attribute": ROOT, "distinct_attribute": ROOT}]), ".a.constraints[0]", "match_attribute", "one of match_attribute"),
    "constraint's typo": (long(constraints=[{"matchAttribute": ROOT}]), ".a.constraints[0].matchAttribute", "'matchAttribute'", "match_attribute, distinct_attribute"),
    "attribute without domain": (long(constraints=[{"match_attribute": "pcieRoot"}]), ".a.constraints[0].match_attribute", "'pcieRoot'", "with its domain"),
    "attribute's name": (long(constraints=[{"match_attribute": "example.com/pcie-root"}]), ".a.constraints[0].match_attribute", "pcie-root", "with its domain"),
    "attribute's name too long": (long(constraints=[{"match_attribute": f"example.com/{'a' * 33}"}]), ".a.constraints[0].match_attribute", "", "with its domain"),
    "attribute's domain too long": (long(constraints=[{"match_attribute": f"{'a' * 64}/a"}]), ".a.constraints[0].match_attribute", "", "with its domain"),
    "attribute a number": (long(constraints=[{"match_attribute": 5}]), ".a.constraints[0].match_attribute", "5", "with its domain"),
    "constraint on an unknown request": (long(constraints=[{"match_attribute": ROOT, "requests": ["gpu", "cpu"]}]), ".a.constraints[0].requests[1]", "'cpu'", "gpu, nic"),
    "constraint on an unknown alternative": ({"a": {"requests": CHOICE, "constraints": [{"match_attribute": ROOT, "requests": ["gpu/big"]}]}}, ".a.constraints[0].requests[0]", "'gpu/big'", "gpu, nic, gpu/mig, gpu/whole"),
    "constraint on no request": (long(constraints=[{"match_attribute": ROOT, "requests": []}]), ".a.constraints[0].requests", "", "leave the key out"),
    "constraint on a request twice": (long(constraints=[{"match_attribute": ROOT, "requests": ["gpu", "gpu"]}]), ".a.constraints[0].requests", "['gpu', 'gpu']", "once"),
    "constraint on text": (long(constraints=[{"match_attribute": ROOT, "requests": "gpu"}]), ".a.constraints[0].requests", "'gpu'", "list of requests"),
    "33 constraints": (long(constraints=[{"match_attribute": ROOT}] * 33), ".a.constraints", "33 entries", "32"),
    "config without driver": (long(config=[{"parameters": {}}]), ".a.config[0].driver", "", "Driver"),
    "config without parameters": (long(config=[{"driver": "x.example.com"}]), ".a.config[0].parameters", "", "driver's documentation"),
    "config as text": (long(config=["x"]), ".a.config[0]", "'x'", "driver and parameters"),
    "config's typo": (long(config=[config(parameter={})]), ".a.config[0].parameter", "'parameter'", "requests, driver, parameters"),
    "driver's name": (long(config=[config(driver="GPU!")]), ".a.config[0].driver", "'GPU!'", "63"),
    "driver's name too long": (long(config=[config(driver="a" * 64)]), ".a.config[0].driver", "", "63"),
    "parameters a list": (long(config=[config(parameters=[])]), ".a.config[0].parameters", "[]", "a mapping"),
    "parameters as text": (long(config=[config(parameters="{}")]), ".a.config[0].parameters", "'{}'", "a mapping"),
    "parameters with a date": (long(config=[config(parameters={"a": [datetime.date(2026, 1, 1)]})]), ".a.config[0].parameters.a[0]", "date", "JSON"),
    "parameters with no number": (long(config=[config(parameters={"a": float("nan")})]), ".a.config[0].parameters.a", "nan", "JSON"),
    "parameters with a number as key": (long(config=[config(parameters={"a": {1: 2}})]), ".a.config[0].parameters.a.1", "1", "text"),
    "parameters that are no Unicode": (long(config=[config(parameters={"a": "\ud800"})]), ".a.config[0].parameters.a", r"\ud800", "Unicode"),
    "parameters without end": (long(config=[config(parameters=_CYCLE)]), ".a.config[0].parameters" + ".again" * 65, "", "64 levels"),
    "parameters too long": (long(config=[config(parameters={"a": "x" * 10240})]), ".a.config[0].parameters", "10249 bytes", "10240"),
    "config for an unknown request": (long(config=[config(requests=["gpu/mig"])]), ".a.config[0].requests[0]", "'gpu/mig'", "gpu, nic"),
    "config for no request": (long(config=[config(requests=[])]), ".a.config[0].requests", "", "leave the key out"),
    "33 configurations": (long(config=[config()] * 33), ".a.config", "33 entries", "32"),
    "tolerations no list": (with_property(tolerations={"key": "a"}), ".gpu.tolerations", "key", "list of tolerations"),
    "toleration as text": (with_property(tolerations=["a"]), ".gpu.tolerations[0]", "'a'", "mapping"),
    "17 tolerations": (with_property(tolerations=[{}] * 17), ".gpu.tolerations", "17 entries", "16"),
    "toleration's typo": (toleration(effects="NoSchedule"), ".gpu.tolerations[0].effects", "'effects'", "key, operator, value, effect, tolerationSeconds"),
    "taint's key": (toleration(key="a b"), ".gpu.tolerations[0].key", "'a b'", "taint's key"),
    "taint's key with two slashes": (toleration(key="a/b/c"), ".gpu.tolerations[0].key", "'a/b/c'", "taint's key"),
    "taint's operator": (toleration(operator="exists"), ".gpu.tolerations[0].operator", "'exists'", "Equal or Exists"),
    "taint's value": (toleration(value="a b"), ".gpu.tolerations[0].value", "'a b'", "63"),
    "taint's value too long": (toleration(value="a" * 64), ".gpu.tolerations[0].value", "", "63"),
    "value with Exists": (toleration(operator="Exists", value="a"), ".gpu.tolerations[0].value", "'a'", "no value"),
    "taint's effect": (toleration(effect="PreferNoSchedule"), ".gpu.tolerations[0].effect", "'PreferNoSchedule'", "NoExecute"),
    "toleration's seconds": (toleration(tolerationSeconds="300"), ".gpu.tolerations[0].tolerationSeconds", "'300'", "whole number"),
    "toleration's seconds too many": (toleration(tolerationSeconds=2**63), ".gpu.tolerations[0].tolerationSeconds", "", "whole number"),
    "least memory": (with_property(min_memory="20GB"), ".gpu.min_memory", "'20GB'", "10Gi"),
    "no least memory": (with_property(min_memory=0), ".gpu.min_memory", "0", "above zero"),
    "compute capability a number": (with_property(compute_capability=8.0), ".gpu.compute_capability", "8.0", ">=8.0"),
    "compute capability without >=": (with_property(compute_capability="8.0"), ".gpu.compute_capability", "'8.0'", ">=8.0"),
    "compute capability of four parts": (with_property(compute_capability=">=8.0.0.0"), ".gpu.compute_capability", "", ">=8.0"),
    "compute capability with a leading zero": (with_property(compute_capability=">=8.00"), ".gpu.compute_capability", "", ">=8.0"),
    "MIG profile": (with_property(mig_profile="1g5gb"), ".gpu.mig_profile", "'1g5gb'", "1g.5gb"),
    "MIG profile with CEL": (with_property(mig_profile='1g.5gb" || true'), ".gpu.mig_profile", "true", "1g.5gb"),
    "NUMA node as text": (with_property(numa_node="0"), ".gpu.numa_node", "'0'", "from 0"),
    "NUMA node below zero": (with_property(numa_node=-1), ".gpu.numa_node", "-1", "from 0"),
    "NUMA node a boolean": (with_property(numa_node=True), ".gpu.numa_node", "True", "from 0"),
    "PCI address without domain": (with_property(pci_bus_id="8a:00.0"), ".gpu.pci_bus_id", "'8a:00.0'", "0000:8a:00.0"),
    "PCI address a number": (with_property(pci_bus_id=5), ".gpu.pci_bus_id", "5", "0000:8a:00.0"),
    "no RDMA": (with_property(rdma=False), ".gpu.rdma", "False", "leave it out"),
    "RDMA a number": (with_property(rdma=1), ".gpu.rdma", "1", "leave it out"),
    "selectors with properties": (with_property(where=["true"] * 31, product="A", rdma=True), ".gpu.where", "31 expressions", "32"),
    "admin access as text": (with_property(admin_access="yes"), ".gpu.admin_access", "'yes'", "true or false"),
    "template's name": ({"gpu": {"template": "A_b"}}, ".gpu.template", "'A_b'", "name of an object"),
    "template with free text": ({"gpu": {"template": "gpu-{username}"}}, ".gpu.template", "username", "name of an object"),
    "claim a number": ({"gpu": {"claim": 5}}, ".gpu.claim", "5", "name of an object"),
    "claim of nothing": ({"gpu": {"claim": None}}, ".gpu.claim", "None", "name of an object"),
    "template and claim": ({"gpu": {"template": "a", "claim": "b"}}, ".gpu.claim", "'claim'", "template, containers"),
    "class beside a claim": ({"gpu": {"claim": "a", **CLASS}}, ".gpu.device_class", "'device_class'", "claim, containers"),
    "container of a claim": ({"gpu": {"claim": "a", "containers": {"notebook": ["A"]}}}, ".gpu.containers.notebook[0]", "'A'", "lower-case"),
    "container's word": (long(containers={"notebook": "both"}), ".a.containers.notebook", "'both'", "all, or a list"),
    "spec as text": ({"gpu": {"spec": "x"}}, ".gpu.spec", "'x'", "ResourceClaimSpec"),
    "spec's key": ({"gpu": {"spec": {"device": {}}}}, ".gpu.spec.device", "'device'", "devices"),
    "spec beside a class": ({"gpu": {"spec": {}, **CLASS}}, ".gpu.device_class", "'device_class'", "spec, containers"),
    "spec's types": (spec({"name": "r", "exactly": {"deviceClassName": 5}}), ".gpu.spec.devices.requests[0].exactly.deviceClassName", "another", "must be a string"),
    "spec's request without a type": (spec({"name": "r"}), ".gpu.spec.devices.requests[0]", "another", "exactly"),
    "spec's CEL": (spec({"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "1 +"}}]}}), ".gpu.spec.devices.requests[0].exactly.selectors[0].cel.expression", "1 +", "column"),
    "CEL of a spec's alternative": (spec({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "selectors": [{"cel": {"expression": ""}}]}]}), ".gpu.spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression", "''", "column"),
    "spec that is no JSON": (spec({"name": {1, 2}}), ".gpu.spec.devices.requests[0].name", "{1, 2}", "JSON"),
    "container of a spec": ({"gpu": {"spec": {"devices": {}}, "containers": {"notebook": ["r"]}}}, ".gpu.containers.notebook[0]", "'r'", "one of"),
}  # fmt: skip

#: What JSON Schema cannot say: sums, names of other places, sizes, CEL, and what is no JSON at all.
BEYOND_JSON_SCHEMA = {
    "two alternatives of a name",
    "too many devices at the least",
    "all of two requests too many",
    "constraint on an unknown request",
    "constraint on an unknown alternative",
    "config for an unknown request",
    "parameters with a date",
    "parameters with no number",
    "parameters with a number as key",
    "parameters that are no Unicode",
    "parameters without end",
    "parameters too long",
    "selectors with properties",
    "spec's key",
    "spec's types",
    "spec's request without a type",
    "spec's CEL",
    "CEL of a spec's alternative",
    "spec that is no JSON",
    "container of a spec",
}

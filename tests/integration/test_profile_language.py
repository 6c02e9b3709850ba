"""Every example of docs/reference/profiles.md, compiled, sent to an API server and allocated by a scheduler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.profiles import compile_device_claims
from tests.cluster.claim_names import own_claim_names
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.compiled_pods import allow_admin_access, claims_of, manifests, pod_of, results, send
from tests.profiles.accepted import ACCEPTED
from tests.profiles.refused import config

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "profiles.md"
GPU_DRIVER = "gpu.example.com"
NIC_DRIVER = "nic.example.com"
NODE = "workstation"
RESOURCE_API = "resource.k8s.io/v1"
FOREIGN = {"channel", "team"}

#: Heading in the document (and number below it) -> request of a claim -> devices it gets.
EXPECTED: dict[str, dict[str, list[str]]] = {
    "One request": {"gpu": ["shared-gpu"]},
    "Words instead of CEL": {"gpu": ["gpu-1"], "other": ["gpu-0"], "slice": ["mig-0-0"], "nic": ["nic-1"]},
    "All devices of a node": {"gpus": ["gpu-0", "gpu-1"]},
    "Devices with taints": {"gpu": ["worn-gpu"]},
    "The first of several alternatives that is free": {"gpu/slices": ["mig-0-0", "mig-0-1"]},
    "The first of several alternatives that is free 2": {"gpu/slice": ["mig-0-0"]},
    "Optional devices": {"gpu/large": ["gpu-0"], "nic": ["nic-0"]},
    "Several sets of devices that belong together": {
        "gpu-0": ["gpu-0"],
        "nic-0": ["nic-0"],
        "gpu-1": ["gpu-1"],
        "nic-1": ["nic-1"],
    },
    "One claim for several servers": {"gpu": ["gpu-0"]},
    "Objects that go with a claim": {"nic": ["nic-0"]},
    "Several requests in one claim": {"gpu": ["gpu-0"], "nic": ["nic-0"]},
    "Devices that belong together, or apart": {"gpu": ["gpu-1"], "nic": ["nic-1"], "slices": ["mig-0-0", "mig-1-0"]},
    "Parameters for drivers": {"gpu/whole": ["gpu-0"]},
    "Access for administration": {"monitored": ["gpu-0", "gpu-1"]},
    "Claims that others made": {"channel": ["mig-0-0"], "gpu": ["gpu-0"]},
    "Anything else": {"gpu": ["gpu-0"]},
}


def documented_examples() -> dict[str, dict[str, Any]]:
    examples: dict[str, dict[str, Any]] = {}
    heading = ""
    for line, block in re.findall(
        r"^## ([^\n]+)$|^```yaml\n(device_claims:.+?)^```$", DOCUMENT.read_text(), re.M | re.S
    ):
        if line:
            heading = line
            continue
        number = sum(name.startswith(heading) for name in examples) + 1
        examples[heading if number == 1 else f"{heading} {number}"] = yaml.safe_load(block)["device_claims"]
    return examples


EXAMPLES = documented_examples()


def test_every_example_has_an_expectation():
    assert set(EXAMPLES) == set(EXPECTED)


def example_devices() -> list[dict[str, Any]]:
    """Classes, a node that has some of each kind of device, and its slices."""
    kind = f'device.attributes["{GPU_DRIVER}"].type'
    expressions = {
        "gpu.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "gpu"',
        "mig.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "mig"',
        "gpu-share.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "shared-gpu"',
        "vlan-nic.example.com": f'device.driver == "{NIC_DRIVER}"',
    }
    return [
        *(_class(name, expression) for name, expression in expressions.items()),
        {"apiVersion": "v1", "kind": "Node", **node_manifest(NODE)},
        _slice(GPU_DRIVER, _gpus()),
        _slice(NIC_DRIVER, _nics()),
    ]


def imex_template() -> dict[str, Any]:
    """The template that the documentation's example names."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "imex-channel"},
        "spec": {"spec": {"devices": {"requests": [_request("channel", "mig.example.com")]}}},
    }


def team_claim() -> dict[str, Any]:
    """The shared claim that the documentation's example names."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaim",
        "metadata": {"name": "team-gpu"},
        "spec": {"devices": {"requests": [_request("gpu", "gpu.example.com")]}},
    }


def _request(name: str, device_class: str) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class}}


def _class(name: str, expression: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _slice(driver: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    pool = {"name": f"{NODE}-{driver}", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{NODE}-{driver}"},
        "spec": {"driver": driver, "nodeName": NODE, "pool": pool, "devices": devices},
    }


def _gpus() -> list[dict[str, Any]]:
    def gpu(name: str, product: str, memory: str, root: int, **more: Any) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "cudaComputeCapability": {"version": "9.0.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{root:02x}"},
        }
        return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}

    large = [gpu(f"gpu-{number}", "Example H100 80GB", "80Gi", 0x10 + number) for number in range(2)]
    for number, device in enumerate(large):
        device["attributes"] |= {
            "numaNode": {"int": number},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x1B + number:02x}:00.0"},
        }
    taint = {"key": "example.com/maintenance", "value": "fan", "effect": "NoSchedule"}
    worn = gpu("worn-gpu", "Example L4", "24Gi", 0x30, taints=[taint])
    shared = gpu("shared-gpu", "Example A100 40GB", "40Gi", 0x31, allowMultipleAllocations=True)
    shared["attributes"]["type"]["string"] = "shared-gpu"
    policy = {"default": "40Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}
    shared["capacity"]["memory"]["requestPolicy"] = policy
    return [*large, worn, shared, *(_mig(parent, number) for parent in range(2) for number in range(2))]


def _mig(parent: int, number: int) -> dict[str, Any]:
    attributes = {"type": "mig", "profile": "1g.5gb", "parentUUID": f"GPU-{parent}"}
    return {
        "name": f"mig-{parent}-{number}",
        "attributes": {name: {"string": value} for name, value in attributes.items()},
        "capacity": {"memory": {"value": "4864Mi"}},
    }


def _nics() -> list[dict[str, Any]]:
    policy = {"default": "1G", "validRange": {"min": "100M", "max": "10G", "step": "100M"}}
    return [
        {
            "name": f"nic-{number}",
            "allowMultipleAllocations": True,
            # The one with RDMA is at the root of the second GPU: only a match of roots brings them together.
            "attributes": {
                "rdma": {"bool": number == 1},
                "numaNode": {"int": number},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x10 + number:02x}"},
            },
            "capacity": {"bandwidth": {"value": "10G", "requestPolicy": policy}},
        }
        for number in range(2)
    ]


async def start(cluster: ClusterUnderTest, value: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a pod with these claims on the example's devices; its claims."""
    plan = compile_device_claims(value, admin_access=True)
    if FOREIGN & {claim.name for claim in plan.claims if claim.spec is None}:
        await send(cluster, imex_template(), team_claim())
    await send(cluster, *manifests(plan), pod_of(plan))
    await own_claim_names(cluster, [await cluster.wait_for(cluster.path("pods", "server"))])
    return await claims_of(cluster, await cluster.wait_running("server"))


async def end(cluster: ClusterUnderTest) -> None:
    for plural in ("pods", "resourceclaimtemplates", "resourceclaims"):
        await cluster.admin.delete(cluster.path(plural))
        await cluster.wait_gone(cluster.path(plural))


async def test_documented_examples(cluster: ClusterUnderTest):
    """One after the other, on the same devices. A taint is not tolerated unasked."""
    await allow_admin_access(cluster)
    await cluster.start_kubelet(fake=True)
    await send(cluster, *example_devices())
    found: dict[str, Any] = {}
    for heading, value in EXAMPLES.items():
        try:
            claims = await start(cluster, value)
        except AssertionError as error:
            found[heading] = str(error)
        else:
            found[heading] = results(claims)
            if heading == "Parameters for drivers":
                (entry,) = claims[0]["status"]["allocation"]["devices"]["config"]
                assert entry["opaque"]["parameters"] == value["accelerator"]["config"][0]["parameters"]
            if heading == "Access for administration":
                assert all(result["adminAccess"] for result in claims[0]["status"]["allocation"]["devices"]["results"])
        await end(cluster)
    assert found == EXPECTED
    plan = compile_device_claims({"gpu": {"device_class": "gpu.example.com", "product": "L4*"}})
    await send(cluster, *manifests(plan), pod_of(plan))
    await cluster.wait_event("server", "FailedScheduling")


async def test_parameters_of_the_greatest_length_are_taken(cluster: ClusterUnderTest):
    """As KubernetesApi writes them; the language refuses parameters that are one byte longer."""
    for text in ("x" * 10231, "é" * 1705):
        entry = config(parameters={"a": text})
        value = {"a": {"requests": {"gpu": {"device_class": "gpu.example.com"}}, "config": [entry]}}
        (manifest,) = manifests(compile_device_claims(value))
        manifest["metadata"]["name"] += f"-{len(text)}"
        await send(cluster, manifest)


async def test_values_that_the_tables_accept_are_taken(cluster: ClusterUnderTest):
    for number, value in enumerate(ACCEPTED.values()):
        for manifest in manifests(compile_device_claims(value)):
            manifest["metadata"]["name"] += f"-{number}"
            await send(cluster, manifest)

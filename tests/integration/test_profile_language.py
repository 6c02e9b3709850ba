"""Every example of docs/reference/profiles.md, compiled, sent to an API server and allocated by a scheduler."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from dra_spawner.kube.api import KubernetesApi, resource_path
from dra_spawner.profiles import compile_device_claims
from tests.cluster.claim_names import own_claim_names
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.compiled_pods import claims_of, manifests, pod_of, results, send
from tests.integration.profile_devices import example_devices, imex_template, team_claim
from tests.profiles import strategies
from tests.profiles.accepted import ACCEPTED
from tests.profiles.refused import config

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "profiles.md"
ADMIN_LABEL = {"resource.kubernetes.io/admin-access": "true"}
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


async def _allow_admin_access(cluster: ClusterUnderTest) -> None:
    async with await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api:
        path = resource_path("v1", "namespaces", name=cluster.namespace)
        await api.patch(path, {"metadata": {"labels": ADMIN_LABEL}})


async def start(cluster: ClusterUnderTest, value: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a pod with these claims on the example's devices; its claims."""
    await _allow_admin_access(cluster)
    await cluster.start_kubelet(fake=True)
    await send(cluster, *example_devices())
    plan = compile_device_claims(value, admin_access=True)
    if FOREIGN & {claim.name for claim in plan.claims if claim.spec is None}:
        await send(cluster, imex_template(), team_claim())
    await send(cluster, *manifests(plan), pod_of(plan))
    await own_claim_names(cluster, [await cluster.wait_for(cluster.path("pods", "server"))])
    return await claims_of(cluster, await cluster.wait_running("server"))


@pytest.mark.parametrize("heading", EXAMPLES)
async def test_documented_example(cluster: ClusterUnderTest, heading: str):
    claims = await start(cluster, EXAMPLES[heading])
    assert results(claims) == EXPECTED[heading]
    if heading == "Parameters for drivers":
        (entry,) = claims[0]["status"]["allocation"]["devices"]["config"]
        assert entry["opaque"]["parameters"] == EXAMPLES[heading]["accelerator"]["config"][0]["parameters"]
    if heading == "Access for administration":
        assert all(result["adminAccess"] for result in claims[0]["status"]["allocation"]["devices"]["results"])


async def test_a_taint_is_not_tolerated_unasked(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True)
    await send(cluster, *example_devices())
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


def test_generated_values_are_taken(cluster: ClusterUnderTest):
    """A sample of the values that `tests.profiles.test_compiled_objects` sends to the embedded store alone."""
    cluster.run(_allow_admin_access(cluster))
    numbers = itertools.count()

    @settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategies.device_claims)
    def sample(value: dict[str, Any]) -> None:
        for manifest in manifests(compile_device_claims(value, admin_access=True)):
            manifest["metadata"]["name"] = f"sample-{next(numbers)}"
            cluster.run(send(cluster, manifest))

    sample()
    assert next(numbers) > 10

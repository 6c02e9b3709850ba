"""Quantities as the real API server stores them and the real scheduler counts them, for all that can be written."""

from __future__ import annotations

import secrets
from functools import partial
from itertools import cycle, islice

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.dra.model.claim_sizes import MAX_SIZE_UNITS, is_size
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityError
from dra_spawner.dra.scheduler_rules import RULES, rules_of
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.versions import minor_version
from tests.adversary.quantities import CAPACITIES, OVERFLOWING, claim, objects, request, texts
from tests.cluster.harness_binary import chosen_version
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.scheduling_script import pod, scheduled
from tests.oracle.binary import Oracles, ask
from tests.oracle.comparison import differences, verdicts

#: One batch of many quantities; a failing one is shown as it is, for each try costs a cluster.
ONE_BATCH = settings(
    max_examples=1, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.explicit, Phase.generate]
)
ORDINARY = ["1n", "-1Gi", "0", "-9223372036854775808", "7Gi", "12Gi", "40Gi", "1.5Gi", "95M", "1500m", "4Ei", "3e9"]
_FEATURES = ("AdminAccess", "ConsumableCapacity", "DeviceBindingAndStatus", "DeviceTaints", "PartitionableDevices")
_SIZES = st.tuples(texts, st.sampled_from(CAPACITIES))
#: Of the clusters under test.
_RULES = rules_of(minor_version(chosen_version()))
#: Of one claim's allocation.
_MAX_REQUESTS = 32


def parsed(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text.strip())
    except QuantityError:
        return None


@ONE_BATCH
@example([*OVERFLOWING, *ORDINARY, "5000E", "1000000000000000000000", "1e4294967299", "e1", "Mi", ""])
@given(st.lists(texts, min_size=250, max_size=250, unique=True))
def test_the_api_server_stores_quantities_as_we_do(cluster: ClusterUnderTest, written: list[str]) -> None:
    accepted = {f"c{index}": text for index, text in enumerate(written) if parsed(text) is not None}
    refused = [text for text in written if parsed(text) is None]
    asked = request("r", 0, "1")
    asked["exactly"]["capacity"]["requests"] = accepted
    (created,) = cluster.run(cluster.publish(claim(f"sizes-{secrets.token_hex(4)}", asked)))
    stored = created["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]
    assert stored == {name: Quantity.parse(text.strip()).stored_text() for name, text in accepted.items()}
    for text in refused:
        with pytest.raises(KubernetesError) as error:
            cluster.run(cluster.publish(claim(f"size-{secrets.token_hex(4)}", request("r", 0, text))))
        assert error.value.status in (400, 422), text


def scenario(text: str, capacity: JsonObject) -> JsonObject:
    """Whether a share of this size fits on one device, as a question to kube-scheduler's allocator."""
    device_class, device_slice = objects("n1", [capacity])
    return {
        "name": text,
        "maxSteps": 1000,
        "features": {**dict.fromkeys(_FEATURES, True), "PrioritizedList": True, "ListTypeAttributes": False},
        "nodes": [{"metadata": {"name": "n1", "labels": {}}}],
        "slices": [device_slice],
        "classes": [device_class],
        "existing": [],
        "claims": [claim("c", request("r", 0, text))],
    }


def consumed_in(verdict: JsonObject) -> Quantity | None:
    """Consumed amount of a share; None without a share."""
    if verdict["outcome"] != "fits":
        return None
    (result,) = verdict["results"][0]["devices"]["results"]
    return Quantity.parse(result["consumedCapacity"]["memory"])


@ONE_BATCH
@example([(text, capacity) for text in (*OVERFLOWING, *ORDINARY) for capacity in CAPACITIES])
@given(st.lists(_SIZES, min_size=300, max_size=300, unique_by=lambda each: each[0]))
def test_the_scheduler_counts_quantities_as_we_do(oracles: Oracles, asked: list[tuple[str, JsonObject]]) -> None:
    known = [(text, capacity) for text, capacity in asked if parsed(text) is not None]
    scenarios = [scenario(Quantity.parse(text.strip()).stored_text(), capacity) for text, capacity in known]
    for release, binary in oracles.items():
        for (text, capacity), (each, answer) in zip(known, ask(binary, scenarios), strict=True):
            assert not differences(verdicts(each, RULES[release]), answer["verdicts"]), (release, text, capacity)
            (verdict,) = answer["verdicts"]
            consumed = consumed_in(verdict)
            # An accepted size is counted as written; a size that consumes too little is refused.
            if consumed is not None and is_size(text):
                assert Quantity(1) <= Quantity.parse(text) <= consumed <= Quantity.parse(capacity["value"]), text


@given(texts)
def test_accepted_sizes_are_above_zero_and_not_too_large(text: str) -> None:
    quantity = parsed(text)
    if quantity is None or not 0 < quantity.nano <= MAX_SIZE_UNITS * NANO_PER_UNIT:
        assert not is_size(text)
    elif is_size(text):
        assert Quantity.parse(quantity.stored_text()) == quantity


def has_verdict(status: str, obj: JsonObject) -> bool:
    return (scheduled(obj) or {}).get("status") == status


@ONE_BATCH
@given(st.lists(texts, min_size=70, max_size=70, unique=True))
def test_claims_consume_the_computed_amounts(cluster: ClusterUnderTest, random_texts: list[str]) -> None:
    """Each claim has devices of its own: dozens of sizes in one pass of kube-scheduler."""
    usable = [text for text in (*OVERFLOWING, *ORDINARY, *random_texts) if parsed(text) is not None][:64]
    stored = [Quantity.parse(text.strip()).stored_text() for text in usable]
    asked = list(zip(stored, islice(cycle(CAPACITIES[:4]), len(stored)), strict=True))
    computed = [consumed_in(verdicts(scenario(text, capacity), _RULES)[0]) for text, capacity in asked]
    expected = {f"r{index}": amount.stored_text() for index, amount in enumerate(computed) if amount is not None}
    node = f"node-{secrets.token_hex(3)}"
    device_class, device_slice = objects(node, [capacity for _, capacity in asked])
    if cluster.kubelet is None:
        cluster.run(cluster.start_kubelet(fake=True))
    cluster.run(
        cluster.publish({"apiVersion": "v1", "kind": "Node", **node_manifest(node)}, device_class, device_slice)
    )
    requests = [request(name, int(name[1:]), stored[int(name[1:])]) for name in expected]
    claims = [
        claim(f"fits-{start}", *requests[start : start + _MAX_REQUESTS])
        for start in range(0, len(requests), _MAX_REQUESTS)
    ]
    misfits = [index for index, amount in enumerate(computed) if amount is None][:4]
    claims += [claim(f"waits-{index}", request(f"r{index}", index, stored[index])) for index in misfits]
    pods = [pod(f"pod-{each['metadata']['name']}", claim=each["metadata"]["name"], cpu="1m") for each in claims]
    cluster.run(cluster.publish(*claims, *pods))
    # A pod that comes before its device class or its devices is unschedulable for a moment.
    for each in sorted(claims, key=lambda each: not each["metadata"]["name"].startswith("fits")):
        name = each["metadata"]["name"]
        status = "True" if name.startswith("fits") else "False"
        path = cluster.path("pods", f"pod-{name}")
        cluster.run(cluster.wait_for(path, partial(has_verdict, status)))
    found = {}
    for each in claims:
        if each["metadata"]["name"].startswith("fits"):
            path = cluster.path("resourceclaims", each["metadata"]["name"])
            allocated = cluster.run(
                cluster.wait_for(path, lambda obj: bool((obj.get("status") or {}).get("allocation")))
            )
            for result in allocated["status"]["allocation"]["devices"]["results"]:
                found[result["request"]] = result["consumedCapacity"]["memory"]
    assert found == expected
    if cluster.kubernetes < (1, 37):  # later releases refuse a claim that would consume nothing, or less
        assert {"0"} < set(found.values())
        assert any(amount.startswith("-") for amount in found.values())

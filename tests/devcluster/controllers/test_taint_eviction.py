"""Taints of devices in the embedded cluster: the scheduler's part of rules, and the eviction of pods."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import DEVICECLASSES, DEVICETAINTRULES, EVENTS, PODS, RESOURCECLAIMS
from tests.devcluster.cluster_objects import DRIVER, NAMESPACE, claim, device_class, pod, whole
from tests.devcluster.scheduler.scheduled_store import ScheduledStore

UPKEEP = "example.com/upkeep"


def rule(effect: str = "NoSchedule", *, name: str = "upkeep", **selector: str) -> Any:
    taint = {"key": UPKEEP, "effect": effect}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


def tolerating(**toleration: Any) -> Any:
    return [{"key": UPKEEP, "operator": "Exists", **toleration}]


def one_gpu(*devices: str) -> ScheduledStore:
    found = ScheduledStore()
    found.create(DEVICECLASSES, device_class())
    found.add_node("n", *map(whole, devices or ("gpu-0",)))
    return found


def start(cluster: ScheduledStore, name: str, **request: Any) -> str | None:
    cluster.create(RESOURCECLAIMS, claim(name, **request))
    cluster.create(PODS, pod(name, claim=name))
    return cluster.place(name)


def is_ending(cluster: ScheduledStore, name: str) -> bool:
    return bool(cluster.pod(name)["metadata"].get("deletionTimestamp"))


def test_a_device_of_a_rule_is_given_to_nobody_until_the_rule_is_gone():
    cluster = one_gpu()
    cluster.create(DEVICETAINTRULES, rule(device="gpu-0"))
    assert start(cluster, "a") is None
    assert start(cluster, "b", tolerations=tolerating()) == "n"
    cluster.store.delete(PODS, NAMESPACE, "b", grace_period_seconds=0)
    cluster.settle()
    assert cluster.place("a") is None
    cluster.store.delete(DEVICETAINTRULES, None, "upkeep")
    cluster.settle()
    cluster.clock.turn(20)
    cluster.settle()
    assert cluster.place("a") == "n"


def test_the_other_device_is_given():
    cluster = one_gpu("gpu-0", "gpu-1")
    cluster.create(DEVICETAINTRULES, rule(driver=DRIVER, pool="n", device="gpu-0"))
    assert start(cluster, "a") == "n"
    [result] = cluster.store.get(RESOURCECLAIMS, NAMESPACE, "a")["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-1"


def test_who_has_the_device_stays_until_it_evicts():
    cluster = one_gpu("gpu-0", "gpu-1")
    assert start(cluster, "a") == "n"
    assert start(cluster, "b") == "n"
    cluster.create(DEVICETAINTRULES, rule(device="gpu-0"))
    assert not is_ending(cluster, "a")
    added = cluster.store.get(DEVICETAINTRULES, None, "upkeep")["spec"]["taint"]["timeAdded"]
    cluster.clock.turn(60)

    def evict(obj: Any) -> None:
        obj["spec"]["taint"]["effect"] = "NoExecute"

    cluster.store.modify(DEVICETAINTRULES, None, "upkeep", evict)
    changed = cluster.store.get(DEVICETAINTRULES, None, "upkeep")
    assert changed["spec"]["taint"]["timeAdded"] > added, "the time is the effect's"
    assert changed["metadata"]["generation"] == 2
    cluster.settle()
    assert is_ending(cluster, "a")
    assert not is_ending(cluster, "b")
    reasons = {
        each["reason"] for each in cluster.pod("a")["status"]["conditions"] if each["type"] == "DisruptionTarget"
    }
    assert reasons == {"DeletionByDeviceTaintManager"}
    assert "DeviceTaintManagerEviction" in {each["reason"] for each in cluster.store.objects(EVENTS)}


@pytest.mark.parametrize(
    ("toleration", "seconds"),
    [
        ({"tolerationSeconds": 30, "effect": "NoExecute"}, 30),
        ({"effect": "NoExecute"}, None),
        # Without an effect it counts for the scheduler alone.
        ({"tolerationSeconds": 30}, 0),
    ],
)
def test_a_pod_stays_as_long_as_its_claim_tolerates_the_taint(toleration: Any, seconds: int | None):
    cluster = one_gpu()
    cluster.create(DEVICETAINTRULES, rule("NoExecute"))
    assert start(cluster, "a", tolerations=tolerating(**toleration)) == "n"
    if seconds:
        cluster.clock.turn(seconds - 1)
        cluster.settle()
        assert not is_ending(cluster, "a")
    cluster.clock.turn(2 if seconds is not None else 9_999)
    cluster.settle()
    assert is_ending(cluster, "a") == (seconds is not None)


def test_rules_are_checked():
    cluster = ScheduledStore()
    for spec in (
        {"deviceSelector": {"driver": "not a driver"}, "taint": {"key": UPKEEP, "effect": "NoSchedule"}},
        {"deviceSelector": {}, "taint": {"key": UPKEEP, "effect": "Sometimes"}},
        {"deviceSelector": {}, "taint": {"effect": "None"}},
        {"deviceSelector": {"device": "A_b"}, "taint": {"key": UPKEEP, "effect": "None"}},
    ):
        with pytest.raises(ApiError, match="is invalid"):
            cluster.create(DEVICETAINTRULES, {"metadata": {"name": "r"}, "spec": spec})

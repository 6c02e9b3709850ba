"""Taints of devices in the embedded cluster: the scheduler's part of rules, and the eviction of pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import DEVICECLASSES, DEVICETAINTRULES, EVENTS, PODS, RESOURCECLAIMS
from dra_spawner.placeholders.planner.targets.device_drains import needed_changes, rules_of
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from tests.devcluster.cluster_objects import DRIVER, NAMESPACE, claim, device_class, pod, shareable, whole
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


def test_seven_sharers_of_a_drained_gpu_are_elsewhere_and_fifty_others_stay():
    cluster = ScheduledStore()
    cluster.create(DEVICECLASSES, device_class())
    cluster.add_node("n", *(shareable(f"gpu-{number}") for number in range(10)), cpu="999")
    sharers = [f"s{number}" for number in range(7)]
    others = [f"o{number}" for number in range(50)]
    for name in (*sharers, *others):
        # The seven fill the first GPU.
        cluster.create(RESOURCECLAIMS, claim(name, "10Gi" if name == "s0" else "5Gi"))
        cluster.create(PODS, pod(name, claim=name))

    def device_of(name: str) -> str:
        [result] = cluster.store.get(RESOURCECLAIMS, NAMESPACE, name)["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    assert {device_of(name) for name in sharers} == {"gpu-0"}
    before = {name: (cluster.pod(name)["metadata"]["uid"], device_of(name)) for name in others}
    assert "gpu-0" not in {device for _, device in before.values()}
    at = cluster.clock.now() + timedelta(hours=1)
    setting = Override(
        OverrideKind.DEVICES, f"{DRIVER}/n/gpu-0", "user ada", cluster.clock.now(), reason="fan", evict_at=at
    )

    def write() -> None:
        wanted = rules_of({setting.name: setting}, cluster.clock.now(), "jhub", "")
        found = needed_changes(wanted, cluster.store.objects(DEVICETAINTRULES))
        for each in found.created:
            cluster.create(DEVICETAINTRULES, each)
        for each in found.replaced:
            cluster.store.update(DEVICETAINTRULES, each)
        cluster.settle()

    write()
    assert not any(is_ending(cluster, name) for name in sharers)
    cluster.clock.turn(3_600)
    write()
    assert {name for name in (*sharers, *others) if is_ending(cluster, name)} == set(sharers)
    for name in sharers:
        cluster.store.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
        cluster.store.delete(RESOURCECLAIMS, NAMESPACE, name)
        cluster.settle()
        again = f"{name}-again"
        cluster.create(RESOURCECLAIMS, claim(again, "5Gi"))
        cluster.create(PODS, pod(again, claim=again))
        assert cluster.place(again) == "n"
        assert device_of(again) != "gpu-0"
    after = {name: (cluster.pod(name)["metadata"]["uid"], device_of(name)) for name in others}
    assert after == before


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

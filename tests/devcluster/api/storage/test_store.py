"""Behaviour of the store, beyond what `test_store_model` finds by chance and `test_fidelity` compares with a real one."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.pod_operations import bind_pod, evict_pod
from dra_spawner.devcluster.api.storage.changes import WatchEvent
from dra_spawner.devcluster.api.storage.store import Store
from tests.set_clock import SetClock

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> SetClock[datetime]:
    return SetClock(START)


@pytest.fixture
def store(clock: SetClock[datetime]) -> Store:
    return Store(clock, random=Random(7), history_limit=50)


def pod(name: str = "p", /, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i:1"}]
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": containers, **spec}}


def scheduled_pod(store: Store, name: str = "p", **spec: Any) -> Any:
    store.create(types.PODS, pod(name, **spec), "default")
    return bind_pod(store, "default", name, "n1")


def recorded(store: Store) -> list[tuple[str, str]]:
    """Types and names of the changes from now on."""
    events: list[tuple[str, str]] = []

    def note(event: WatchEvent) -> None:
        events.append((event.type.value, event.object["metadata"]["name"]))

    store.subscribe(note)
    return events


def test_server_sets_metadata(store: Store) -> None:
    created = store.create(types.PODS, pod(), "default")
    metadata = created["metadata"]
    assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] == store.resource_version
    assert len(metadata["uid"]) == 36
    assert (created["kind"], created["apiVersion"]) == ("Pod", "v1")


def test_callers_cannot_reach_into_the_store(store: Store) -> None:
    data = {"k": "v"}
    created = store.create(types.CONFIGMAPS, {"metadata": {"name": "a"}, "data": data}, "default")
    data["k"] = "changed"
    assert store.get(types.CONFIGMAPS, "default", "a")["data"] == {"k": "v"}
    with pytest.raises(TypeError, match="mutable_copy"):
        created["data"]["k"] = "changed"
    for own in (copy.deepcopy(created), mutable_copy(created), json.loads(json.dumps(created))):
        own["data"]["k"] = "changed"
        assert own != created
    assert store.get(types.CONFIGMAPS, "default", "a") == created


def test_unchanged_parts_are_shared_not_copied(store: Store) -> None:
    created = store.create(types.PODS, pod(), "default")
    running = store.patch(types.PODS, "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    assert running["spec"] is created["spec"]
    assert store.list(types.PODS).items[0] is running


def test_names_are_generated_until_one_is_free(store: Store) -> None:
    names = {
        store.create(types.CONFIGMAPS, {"metadata": {"generateName": "a-"}}, "default")["metadata"]["name"]
        for _ in range(100)
    }
    assert len(names) == 100
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


def test_leases_are_updated_only_with_a_version(store: Store) -> None:
    lease = store.create(types.LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}, "default")
    blind = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "b"}}
    with pytest.raises(ApiError, match="must be specified for an update"):
        store.update(types.LEASES, blind)
    taken = store.update(types.LEASES, {**lease, "spec": {"holderIdentity": "b"}})
    assert taken["spec"]["holderIdentity"] == "b"


def test_an_update_without_a_change_is_no_change(store: Store) -> None:
    created = store.create(types.PODS, pod(), "default")
    events = recorded(store)
    assert store.update(types.PODS, created) is created
    assert store.patch(types.PODS, "default", "p", {}) is created
    assert events == []


def test_generation_counts_changes_of_the_spec(store: Store) -> None:
    created = store.create(
        types.RESOURCESLICES,
        {
            "metadata": {"name": "s"},
            "spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": True},
        },
    )
    assert created["metadata"]["generation"] == 1
    labelled = store.patch(types.RESOURCESLICES, None, "s", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    grown = store.patch(types.RESOURCESLICES, None, "s", {"spec": {"pool": {"generation": 2}}})
    assert grown["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "removed", "period"),
    [
        pytest.param({}, "Pending", None, True, 0, id="unscheduled"),
        pytest.param({"nodeName": "n"}, "Running", None, False, 30, id="default-grace"),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 5}, "Running", None, False, 5, id="own-grace"),
        pytest.param({"nodeName": "n"}, "Running", 7, False, 7, id="asked-grace"),
        pytest.param({"nodeName": "n"}, "Running", 0, True, 0, id="no-grace"),
        pytest.param({"nodeName": "n"}, "Succeeded", None, True, 0, id="finished"),
    ],
)
def test_pods_are_deleted_gracefully(
    store: Store, spec: dict[str, Any], phase: str, asked: int | None, removed: bool, period: int
) -> None:
    store.create(types.PODS, pod(**spec), "default")
    store.patch(types.PODS, "default", "p", {"status": {"phase": phase}}, subresource="status")
    deletion = store.delete(types.PODS, "default", "p", grace_period_seconds=asked)
    assert deletion.removed is removed
    assert (store.find(types.PODS, "default", "p") is None) is removed
    metadata = deletion.object["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == period
    assert datetime.fromisoformat(metadata["deletionTimestamp"]) == START + timedelta(seconds=period)


def test_a_second_delete_only_shortens_the_grace(store: Store, clock: SetClock[datetime]) -> None:
    scheduled_pod(store)
    store.delete(types.PODS, "default", "p")
    clock.now += timedelta(seconds=3)
    longer = store.delete(types.PODS, "default", "p", grace_period_seconds=60)
    assert longer.object["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = store.delete(types.PODS, "default", "p", grace_period_seconds=4)
    assert shorter.object["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:04Z"
    events = recorded(store)
    assert store.delete(types.PODS, "default", "p", grace_period_seconds=0).removed
    assert events == [("MODIFIED", "p"), ("DELETED", "p")]


def own(store: Store, owner: Any, name: str, /, **reference: Any) -> Any:
    metadata = {key: owner["metadata"][key] for key in ("name", "uid")}
    entry = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **metadata, **reference}
    body = {"metadata": {"name": name, "ownerReferences": [entry]}}
    return store.create(types.CONFIGMAPS, body, "default")


def test_dependents_go_with_their_last_owner(store: Store) -> None:
    owners = [store.create(types.PODS, pod(name), "default") for name in ("p", "q")]
    own(store, owners[0], "a")
    dependent = own(store, owners[0], "shared")
    both = dependent["metadata"]["ownerReferences"] + own(store, owners[1], "b")["metadata"]["ownerReferences"]
    store.patch(types.CONFIGMAPS, "default", "shared", {"metadata": {"ownerReferences": both}})
    own(store, store.get(types.CONFIGMAPS, "default", "a"), "grandchild")
    store.delete(types.PODS, "default", "p")
    assert [obj["metadata"]["name"] for obj in store.list(types.CONFIGMAPS).items] == ["b", "shared"]
    left = store.get(types.CONFIGMAPS, "default", "shared")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["q"]
    store.delete(types.PODS, "default", "q")
    assert store.list(types.CONFIGMAPS).items == []


def test_dependents_of_a_pod_wait_for_its_kubelet(store: Store) -> None:
    own(store, scheduled_pod(store), "a")
    store.delete(types.PODS, "default", "p")
    assert store.find(types.CONFIGMAPS, "default", "a") is not None
    store.delete(types.PODS, "default", "p", grace_period_seconds=0)
    assert store.find(types.CONFIGMAPS, "default", "a") is None


@pytest.mark.parametrize(
    "reference", [pytest.param({"uid": "other"}, id="another-uid"), pytest.param({"name": "other"}, id="another-name")]
)
def test_an_object_whose_owner_never_existed_is_deleted_at_once(store: Store, reference: dict[str, str]) -> None:
    owner = store.create(types.PODS, pod(), "default")
    own(store, owner, "a", **reference)
    assert store.find(types.CONFIGMAPS, "default", "a") is None


def test_owners_of_unknown_kinds_are_believed(store: Store) -> None:
    owner = store.create(types.PODS, pod(), "default")
    own(store, owner, "a", apiVersion="example.com/v1", kind="Thing")
    assert store.find(types.CONFIGMAPS, "default", "a") is not None


@pytest.mark.parametrize(
    ("policy", "blocking", "events"),
    [
        pytest.param("Background", True, [("DELETED", "owner"), ("DELETED", "a")], id="background"),
        pytest.param(
            "Foreground", True, [("MODIFIED", "owner"), ("DELETED", "a"), ("DELETED", "owner")], id="foreground"
        ),
        pytest.param(
            "Foreground", False, [("MODIFIED", "owner"), ("DELETED", "owner"), ("DELETED", "a")], id="not-blocking"
        ),
        pytest.param("Orphan", True, [("MODIFIED", "owner"), ("MODIFIED", "a"), ("DELETED", "owner")], id="orphan"),
    ],
)
def test_propagation(store: Store, policy: str, blocking: bool, events: list[tuple[str, str]]) -> None:
    owner = store.create(types.CONFIGMAPS, {"metadata": {"name": "owner"}}, "default")
    own(store, owner, "a", blockOwnerDeletion=blocking)
    seen = recorded(store)
    store.delete(types.CONFIGMAPS, "default", "owner", propagation_policy=policy)
    assert seen == events
    left = store.find(types.CONFIGMAPS, "default", "a")
    if policy == "Orphan":
        assert left is not None
        assert "ownerReferences" not in left["metadata"]
    else:
        assert left is None


def test_history_is_bounded(store: Store) -> None:
    before = int(store.resource_version)
    for index in range(60):
        store.create(types.CONFIGMAPS, {"metadata": {"name": f"c{index}"}}, "default")
    with pytest.raises(ApiError) as refusal:
        store.events_since(types.CONFIGMAPS, before)
    assert (refusal.value.status_code, refusal.value.reason) == (410, "Expired")
    names = [event.object["metadata"]["name"] for event in store.events_since(types.CONFIGMAPS, before + 10)]
    assert names == [f"c{index}" for index in range(10, 60)]
    assert store.events_since(types.PODS, 0) == []


def test_subscribers_must_not_write(store: Store) -> None:
    def write(_: WatchEvent) -> None:
        store.create(types.CONFIGMAPS, {"metadata": {"generateName": "a-"}}, "default")

    end = store.subscribe(write)
    with pytest.raises(RuntimeError, match="must write later"):
        store.create(types.CONFIGMAPS, {"metadata": {"name": "b"}}, "default")
    end()
    store.create(types.CONFIGMAPS, {"metadata": {"name": "c"}}, "default")


def test_binding(store: Store) -> None:
    created = store.create(types.PODS, pod(), "default")
    with pytest.raises(ApiError, match="Precondition failed"):
        bind_pod(store, "default", "p", "n1", uid="other")
    bound = bind_pod(store, "default", "p", "n1", uid=created["metadata"]["uid"], annotations={"a": "b"})
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(ApiError, match='already assigned to node "n1"'):
        bind_pod(store, "default", "p", "n2")
    store.delete(types.PODS, "default", "p")
    with pytest.raises(ApiError, match="being deleted"):
        bind_pod(store, "default", "p", "n2")


@pytest.mark.parametrize(
    ("budget", "ready", "allowed"),
    [
        pytest.param({"minAvailable": 2}, 2, False, id="all-needed"),
        pytest.param({"minAvailable": 1}, 2, True, id="one-spare"),
        pytest.param({"minAvailable": "50%"}, 2, True, id="half"),
        pytest.param({"minAvailable": "51%"}, 2, False, id="rounded-up"),
        pytest.param({"maxUnavailable": 1}, 2, True, id="one-may-go"),
        pytest.param({"maxUnavailable": 1}, 1, False, id="one-is-gone"),
        pytest.param({"maxUnavailable": 0}, 2, False, id="none-may-go"),
    ],
)
def test_eviction_keeps_to_the_budget(store: Store, budget: dict[str, Any], ready: int, allowed: bool) -> None:
    for index in range(2):
        store.create(types.PODS, pod(f"p{index}", {"labels": {"app": "a"}}, nodeName="n"), "default")
        conditions = [{"type": "Ready", "status": "True" if index < ready else "False"}]
        status = {"status": {"phase": "Running", "conditions": conditions}}
        store.patch(types.PODS, "default", f"p{index}", status, subresource="status")
    spec = {"selector": {"matchLabels": {"app": "a"}}, **budget}
    store.create(types.PODDISRUPTIONBUDGETS, {"metadata": {"name": "b"}, "spec": spec}, "default")
    if allowed:
        evict_pod(store, "default", "p0")
        assert "deletionTimestamp" in store.get(types.PODS, "default", "p0")["metadata"]
    else:
        with pytest.raises(ApiError) as refusal:
            evict_pod(store, "default", "p0")
        assert (refusal.value.status_code, refusal.value.reason) == (429, "TooManyRequests")


def test_pending_pods_are_evicted_in_any_case(store: Store) -> None:
    store.create(types.PODS, pod(metadata={"labels": {"app": "a"}}), "default")
    spec = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
    store.create(types.PODDISRUPTIONBUDGETS, {"metadata": {"name": "b"}, "spec": spec}, "default")
    assert evict_pod(store, "default", "p").removed


@pytest.mark.parametrize(
    ("priority_class", "priority", "policy"),
    [
        pytest.param({}, 0, "PreemptLowerPriority", id="none"),
        pytest.param({"priorityClassName": "low"}, -10, "Never", id="named"),
        pytest.param({"priorityClassName": "system-node-critical"}, 2000001000, "PreemptLowerPriority", id="system"),
    ],
)
def test_priority_is_resolved(store: Store, priority_class: JsonObject, priority: int, policy: str) -> None:
    low = {"metadata": {"name": "low"}, "value": -10, "preemptionPolicy": "Never"}
    store.create(types.PRIORITYCLASSES, low)
    created = store.create(types.PODS, pod(**priority_class), "default")
    assert (created["spec"]["priority"], created["spec"]["preemptionPolicy"]) == (priority, policy)
    assert store.update(types.PODS, created) is created


def test_default_priority_class(store: Store) -> None:
    for name, value in (("b", 20), ("a", 10)):
        store.create(types.PRIORITYCLASSES, {"metadata": {"name": name}, "value": value, "globalDefault": True})
    spec = store.create(types.PODS, pod(), "default")["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("a", 10)

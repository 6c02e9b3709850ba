"""Objects that several starts use: no server loses one, and none stays unused, whatever happens at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.spawner.objects.api_objects import CLAIMS, SHARED_LABELS, ApiObject
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.objects.shared_objects import (
    ForeignObject,
    SharedObject,
    SharedRefused,
    SharedTerminating,
    add_user,
    is_due,
    remove_users,
    users_of,
)
from dra_spawner.spawner.objects.start_objects import StartObjects
from tests.all_of_them import all_of_them
from tests.cluster.under_test import ClusterUnderTest
from tests.presence import present

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
CONFIG_MAPS = ("v1", "configmaps")


def claim(**more: Any) -> SharedObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared-physics-gpu"},
        "spec": {"devices": {"requests": [request]}},
    }
    return SharedObject(ApiObject(CLAIMS, manifest), "d1", **more)


def config_map(**more: Any) -> SharedObject:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vlan-42"}, "data": {"vlan": "42"}}
    return SharedObject(ApiObject("configmaps", manifest), "d1", **more)


class Interrupted(KubernetesApi):
    """Lets something else happen just before each delete."""

    def __init__(self, api: KubernetesApi, before_delete: Callable[[], Awaitable[Any]]) -> None:
        self.__dict__.update(api.__dict__)
        self._before_delete = before_delete

    async def delete(self, path: str, **options: Any) -> Any:
        await self._before_delete()
        return await super().delete(path, **options)


async def there(cluster: ClusterUnderTest, shared: SharedObject) -> dict[str, Any] | None:
    try:
        return await cluster.admin.get(shared.object.path(cluster.namespace))
    except KubernetesError as error:
        if not error.not_found:
            raise
        return None


async def test_the_first_start_makes_the_object_and_the_last_removes_it(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    path = shared.object.path(namespace)
    for nonce in ("a", "b", "a"):
        assert await add_user(api, namespace, shared, nonce, LATER)
    found = present(await there(cluster, shared))
    assert users_of(found) == {"a": LATER, "b": LATER}
    assert found["metadata"]["labels"].items() >= SHARED_LABELS.items()
    assert not await remove_users(api, path, ("a",), NOW)
    assert await remove_users(api, path, ("b",), NOW)
    assert await there(cluster, shared) is None
    assert not await remove_users(api, path, ("b",), NOW)


async def test_a_start_between_the_last_look_and_the_removal_keeps_the_object(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    await add_user(api, namespace, shared, "a", LATER)
    uid = present(await there(cluster, shared))["metadata"]["uid"]
    interrupted = Interrupted(api, lambda: add_user(api, namespace, shared, "b", LATER))
    assert not await remove_users(interrupted, shared.object.path(namespace), ("a",), NOW)
    found = present(await there(cluster, shared))
    assert (found["metadata"]["uid"], users_of(found)) == (uid, {"b": LATER})


async def test_another_writer_between_the_last_look_and_the_removal_keeps_nothing(cluster):
    """As Kubernetes, which removes an ended consumer from a claim."""
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    path = shared.object.path(namespace)
    await add_user(api, namespace, shared, "a", LATER)
    interrupted = Interrupted(api, lambda: api.patch(path, {"metadata": {"labels": {"written": "again"}}}))
    assert await remove_users(interrupted, path, ("a",), NOW)
    assert await there(cluster, shared) is None


async def test_a_start_just_after_the_removal_makes_the_object_anew(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    await add_user(api, namespace, shared, "a", LATER)
    uid = present(await there(cluster, shared))["metadata"]["uid"]
    await remove_users(api, shared.object.path(namespace), ("a",), NOW)
    await add_user(api, namespace, shared, "b", LATER)
    assert present(await there(cluster, shared))["metadata"]["uid"] != uid


async def test_first_starts_at_the_same_time_make_one(cluster):
    shared = claim()
    nonces = [f"n{number}" for number in range(12)]
    added = await asyncio.gather(*(add_user(cluster.admin, cluster.namespace, shared, each, LATER) for each in nonces))
    assert all(added)
    assert set(users_of(present(await there(cluster, shared)))) == set(nonces)


@pytest.mark.promise("No server loses the claim that it shares.")
async def test_no_server_ever_loses_the_object(cluster):
    """Many servers come and go: while a server uses the object, the object stays and is not being removed."""
    shared, chance = config_map(), random.Random(1)
    path = shared.object.path(cluster.namespace)

    async def server(number: int) -> None:
        for turn in range(6):
            nonce = f"n{number}-{turn}"
            await add_user(cluster.admin, cluster.namespace, shared, nonce, LATER)
            first = present(await there(cluster, shared))["metadata"]
            await asyncio.sleep(chance.random() / 50)
            second = present(await there(cluster, shared))["metadata"]
            assert first["uid"] == second["uid"]
            assert not second.get("deletionTimestamp")
            await remove_users(cluster.admin, path, (nonce,), NOW)

    await asyncio.gather(*map(server, range(8)))
    assert await there(cluster, shared) is None


async def test_an_object_that_is_being_removed_is_refused_until_it_is_gone(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, config_map()
    await add_user(api, namespace, shared, "a", LATER)
    path = shared.object.path(namespace)
    await api.patch(path, {"metadata": {"finalizers": ["example.com/wait"]}})
    await api.delete(path)
    with pytest.raises(SharedTerminating):
        await add_user(api, namespace, shared, "b", LATER)
    await api.patch(path, {"metadata": {"finalizers": None}})
    assert await add_user(api, namespace, shared, "b", LATER)


async def test_a_foreign_object_is_left_alone_or_refused(cluster):
    api, namespace = cluster.admin, cluster.namespace
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vlan-42"}}
    (made,) = await cluster.publish(foreign)
    assert not await add_user(api, namespace, config_map(may_be_foreign=True), "a", LATER)
    assert await there(cluster, config_map()) == made
    with pytest.raises(ForeignObject, match="needs a name in the cluster that is taken") as refused:
        await add_user(api, namespace, config_map(), "a", LATER)
    assert "rename ConfigMap vlan-42" in refused.value.detail


async def test_a_claim_of_others_is_left_alone_with_the_rights_of_a_hub(cluster):
    """They list claims, and get none."""
    api = await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig)
    foreign = {**claim().object.manifest, "metadata": {"name": claim().object.name}}
    (made,) = await cluster.publish(foreign)
    start = StartObjects(api, cluster.namespace, "a", LATER, {}, [], {"gpu": claim()})
    with pytest.raises(ForeignObject):
        await start.ensure({claim().object.name})
    await start.remove("jupyter-ada")
    await api.close()
    assert await there(cluster, claim()) == made


async def test_an_object_with_other_settings_is_refused_until_it_is_removed(cluster):
    api, namespace, old = cluster.admin, cluster.namespace, config_map()
    await add_user(api, namespace, old, "a", LATER)
    new = SharedObject(old.object, "d2")
    with pytest.raises(SharedRefused, match="as it was set up before"):
        await add_user(api, namespace, new, "b", LATER)
    await remove_users(api, old.object.path(namespace), ("a",), NOW)
    assert await add_user(api, namespace, new, "b", LATER)


async def test_the_257th_server_is_refused(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    await add_user(api, namespace, shared, "a", LATER)
    # Not pods, so that the claim controller leaves them.
    others = [
        {"apiGroup": "example.com", "resource": "things", "name": f"t{number}", "uid": f"u{number}"}
        for number in range(256)
    ]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": others}
    await api.patch(f"{shared.object.path(namespace)}/status", {"status": status})
    with pytest.raises(SharedRefused, match="shared by 256 servers"):
        await add_user(api, namespace, shared, "b", LATER)
    # Not ours to remove as long as others have it.
    assert not await remove_users(api, shared.object.path(namespace), ("a", "b"), NOW)
    await api.patch(f"{shared.object.path(namespace)}/status", {"status": {"allocation": None, "reservedFor": None}})


async def sweep(cluster: ClusterUnderTest, now: datetime, api: KubernetesApi | None = None) -> Sweep:
    swept = Sweep(api or cluster.admin, cluster.namespace, timedelta(minutes=5), now)
    await swept.run([CONFIG_MAPS])
    return swept


def pod(nonce: str) -> dict[str, Any]:
    metadata = {"name": f"pod-{nonce}", "annotations": {names.START: nonce}}
    spec = {"containers": [{"name": "c", "image": "example.com/i:1"}], "nodeSelector": {"there": "no"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_a_sweep_takes_off_starts_that_are_over_and_have_no_pod(cluster):
    api, namespace, shared = cluster.admin, cluster.namespace, claim()
    for nonce, end in (("dead", NOW), ("runs", NOW), ("young", LATER)):
        await add_user(api, namespace, shared, nonce, end)
    await cluster.publish(pod("runs"))
    after = NOW + timedelta(minutes=1)
    assert (await sweep(cluster, after)).errors == []
    assert set(users_of(present(await there(cluster, shared)))) == {"runs", "young"}
    await remove_users(api, shared.object.path(namespace), ("young",), after)
    await sweep(cluster, after)
    assert set(users_of(present(await there(cluster, shared)))) == {"runs"}
    await api.delete(cluster.path("pods", "pod-runs"), grace_period_seconds=0)
    await cluster.wait_gone(cluster.path("pods", "pod-runs"))
    assert (await sweep(cluster, after)).done == [f"deleted resourceclaims {namespace}/shared-physics-gpu"]
    assert await there(cluster, shared) is None


@all_of_them(
    "keep, later, goes",
    {
        "not yet": (600, timedelta(minutes=9), False),
        "then": (600, timedelta(minutes=11), True),
        "never": (None, timedelta(days=999), False),
    },
)
async def test_an_object_with_a_time_to_keep(cluster, keep, later, goes):
    api, namespace, shared = cluster.admin, cluster.namespace, claim(keep_seconds=keep)
    await add_user(api, namespace, shared, "a", LATER)
    assert not await remove_users(api, shared.object.path(namespace), ("a",), NOW)
    await sweep(cluster, NOW + later)
    assert (await there(cluster, shared) is None) is goes


async def test_an_object_that_cannot_be_removed_does_not_keep_the_others(cluster):
    api, namespace = cluster.admin, cluster.namespace
    marks = {"labels": {**SHARED_LABELS}, "annotations": {names.KEEP_SECONDS: "0"}}
    for name in ("a", "b"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **marks}}
        await cluster.publish(body)

    class Refusing(KubernetesApi):
        async def delete(self, path: str, **options: Any) -> Any:
            if path.endswith("/a"):
                raise (await refusal()) from None
            return await super().delete(path, **options)

    async def refusal() -> KubernetesError:
        with pytest.raises(KubernetesError) as caught:
            await api.get(cluster.path("configmaps", "none"))
        caught.value.status = 403
        caught.value.reason = "Forbidden"
        return caught.value

    refusing = Refusing.__new__(Refusing)
    refusing.__dict__.update(api.__dict__)
    swept = await sweep(cluster, NOW, refusing)
    assert swept.done == [f"deleted configmaps {namespace}/b"]
    assert len(swept.errors) == 1


@all_of_them(
    "metadata",
    {
        "no word about keeping": {"annotations": {}},
        "a user": {"annotations": {names.KEEP_SECONDS: "0", "start.hub.jupyter.org/n": "junk"}},
        "junk": {"annotations": {names.KEEP_SECONDS: "-1"}},
        "going": {"annotations": {names.KEEP_SECONDS: "0"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "none of ours": {},
    },
)
def test_objects_that_are_not_due(metadata):
    assert not is_due({"metadata": metadata}, NOW)

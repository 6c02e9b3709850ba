"""Limits of the cluster: quotas are followed, the autoscaler's messages are read, and a missing right is reported."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.informers import Informer
from dra_spawner.placeholders.controller.round.cluster_limits import ClusterLimits, maximum_reached
from dra_spawner.simulator.model.pods import Pod
from tests.cluster.access import SERVICE_ACCOUNT
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.jumping_loop import let_pass, run_jumping
from tests.polling import eventually

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MESSAGE = (
    "pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) didn't match Pod's node affinity/selector"
)


def event(uid: str = "u", message: str = MESSAGE, at: datetime = NOW, **fields: Any) -> dict[str, Any]:
    found = {
        "reason": "NotTriggerScaleUp",
        "message": message,
        "involvedObject": {"kind": "Pod", "name": "p", "uid": uid},
        "lastTimestamp": at.isoformat().replace("+00:00", "Z"),
    }
    return {**found, **fields}


def test_which_events_say_that_a_maximum_is_reached() -> None:
    start, early = "pod didn't trigger scale-up: ", "2026-03-02T08:59:00.000000Z"
    message, old = MESSAGE.removeprefix(start), NOW - timedelta(minutes=7)
    cluster = "3 max cluster cpu, memory limit reached"
    rows: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
        "a node group": (event(), ("u", message)),
        "the cluster": (event(message=start + cluster), ("u", cluster)),
        "no maximum": (event(message=start + "3 Insufficient cpu"), ("", "")),
        "another event": (event(reason="TriggeredScaleUp"), ("", "")),
        "an old one": (event(at=old), ("", "")),
        "an old one that is repeated": (event(at=old, series={"lastObservedTime": early}), ("u", message)),
        "of the newer API": (event(lastTimestamp=None, eventTime=early), ("u", message)),
        "without a time": (event(lastTimestamp="yesterday"), ("", "")),
        "of nothing": (event(involvedObject=None), ("", message)),
        "empty": ({}, ("", "")),
    }
    found = {name: maximum_reached(value, NOW) for name, (value, _) in rows.items()}
    assert found == {name: expected for name, (_, expected) in rows.items()}


def test_a_long_message_is_cut() -> None:
    assert len(maximum_reached(event(message=MESSAGE * 1000), NOW)[1]) == 200


def test_a_defect_of_a_reader_is_reported_and_the_reader_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"quotas": 0, "events of the autoscaler": 0}

    async def fail(name: str) -> None:
        calls[name] += 1
        raise RuntimeError("a planted defect")

    monkeypatch.setattr(Informer, "run", lambda _: fail("quotas"))
    monkeypatch.setattr(ClusterLimits, "read_events", lambda _: fail("events of the autoscaler"))

    async def scene() -> None:
        api = KubernetesApi(ApiClient.__new__(ApiClient))
        limits = ClusterLimits(api, "users", priority_class="p", has_servers=True, pending=set[str], now=lambda: NOW)
        async with limits:
            await let_pass(10)
            assert all(each >= 3 for each in calls.values()), calls
            assert not limits.are_followed
            assert [each for each in limits.problems() if "planted" in each] == [
                f"The task {name!r} has failed, and is begun again: RuntimeError: a planted defect" for name in calls
            ]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_jumping(scene())


def limits_of(cluster: ClusterUnderTest, api: KubernetesApi, pending: set[str], changes: list[None]) -> ClusterLimits:
    return ClusterLimits(
        api,
        cluster.namespace,
        priority_class="dra-spawner-placeholder",
        has_servers=True,
        pending=lambda: pending,
        now=lambda: NOW,
        on_change=lambda: changes.append(None),
        every_seconds=0.1,
    )


async def say(cluster: ClusterUnderTest, uid: str) -> None:
    """The autoscaler writes an event about a pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": cluster.namespace, "name": "p", "uid": uid}
    metadata = {"name": f"p.{uid}", "namespace": cluster.namespace}
    obj = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": "Normal", **event(uid)}
    obj["involvedObject"] = pod
    await cluster.admin.create(resource_path("v1", "events", cluster.namespace), obj)


async def test_messages_about_pending_placeholders_are_read(cluster: ClusterUnderTest) -> None:
    pending, changes = {"u1"}, list[None]()
    await say(cluster, "u1")
    await say(cluster, "u2")
    async with (
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api,
        limits_of(cluster, api, pending, changes) as limits,
    ):
        one, other = (Pod("p", cluster.namespace, uid) for uid in ("u1", "u2"))
        await eventually(lambda: bool(limits.no_scale_up(one)), "its message is known")
        assert limits.no_scale_up(one).startswith("1 max node group size reached")
        assert not limits.no_scale_up(other), "it is no pending placeholder"
        assert changes
        pending.clear()
        await eventually(lambda: not limits.no_scale_up(one), "it is pending no more")
        assert limits.problems() == ()
        assert limits.quotas == ()


async def test_quotas_are_followed(real_cluster: ClusterUnderTest) -> None:
    cluster, changes = real_cluster, list[None]()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "users"},
        "spec": {"hard": {"pods": "3", "requests.cpu": "2"}},
    }
    await cluster.publish(quota)
    async with (
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api,
        limits_of(cluster, api, set(), changes) as limits,
    ):
        await eventually(lambda: bool(limits.quotas) and limits.quotas[0].left["pods"] > 0, "it is counted")
        (found,) = limits.quotas
        assert limits.are_followed
        assert (found.name, found.left) == ("users", {"pods": 3 * 10**9, "requests.cpu": 2 * 10**9})
        await cluster.admin.delete(resource_path("v1", "resourcequotas", cluster.namespace, "users"))
        await eventually(lambda: not limits.quotas, "it is gone")
        assert changes


async def test_missing_rights_are_reported_and_nothing_is_limited(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    kubeconfig = await service_kubeconfig(cluster, rules=())
    async with (
        await KubernetesApi.from_kubeconfig(kubeconfig) as api,
        limits_of(cluster, api, {"u"}, []) as limits,
    ):
        await eventually(lambda: len(limits.problems()) == 2, "both are reported", shows=limits.problems)
        quotas, events = limits.problems()
        rule = '{apiGroups: [""], resources: [resourcequotas], verbs: [list, watch]} in namespace'
        assert f"its account lacks the rule {rule} {cluster.namespace}" in quotas
        rule = '{apiGroups: [""], resources: [events], verbs: [list]} in namespace'
        assert (
            events
            == f"a maximum of the autoscaler is not recognised: its account lacks the rule {rule} {cluster.namespace}"
        )
        assert SERVICE_ACCOUNT in quotas
        assert not limits.are_followed
        assert limits.quotas == ()

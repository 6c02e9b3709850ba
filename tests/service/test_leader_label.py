"""A Service finds the leader: its pod has a label, and no other pod of the service has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.service import leader_label
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.context import Role
from tests.cluster.access import SERVICE_ACCOUNT, manifests, service_token
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import prepare
from tests.polling import PATIENCE_SECONDS, eventually
from tests.running import running
from tests.service.replica import Replica, replica

LABELS = {
    "app.kubernetes.io/name": "dra-spawner-service",
    "app.kubernetes.io/instance": "dra-spawner",
    "app.kubernetes.io/component": "service",
}


async def make_pod(cluster: ClusterUnderTest, name: str, **labels: str) -> dict[str, Any]:
    """A pod as the Deployment of the service makes it; no kubelet starts it."""
    spec = {"containers": [{"name": "service", "image": "hub:1"}], "nodeSelector": {"kubernetes.io/hostname": "none"}}
    if cluster.kind != "embedded":
        spec["serviceAccountName"] = SERVICE_ACCOUNT
    manifest = {"metadata": {"name": name, "labels": {**LABELS, **labels}}, "spec": spec}
    return await cluster.admin.create(cluster.path("pods"), manifest)


async def selected(cluster: ClusterUnderTest) -> set[str]:
    """Names of the pods that the shipped Service selects."""
    named = [each for each in manifests(cluster.namespace) if each["metadata"]["name"] == "dra-spawner"]
    (service,) = [each for each in named if each["kind"] == "Service"]
    selector = ",".join(f"{name}={value}" for name, value in service["spec"]["selector"].items())
    found = await cluster.admin.list(cluster.path("pods"), label_selector=selector)
    return {each["metadata"]["name"] for each in found["items"]}


async def until_selected(cluster: ClusterUnderTest, *pods: str) -> None:
    async def are_selected() -> bool:
        return await selected(cluster) == set(pods)

    await eventually(are_selected, f"the Service selects {pods}")


async def kubeconfig_of(cluster: ClusterUnderTest, pod: dict[str, Any]) -> Path:
    """Of the service's account, with the token that the kubelet mounts into the pod; on the embedded one of all."""
    if cluster.kind == "embedded":
        return cluster.admin_kubeconfig
    metadata = pod["metadata"]
    path = resource_path("v1", "serviceaccounts", cluster.namespace, SERVICE_ACCOUNT, "token")
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = await cluster.admin.create(path, {**request, "spec": {"expirationSeconds": 7200, "boundObjectRef": bound}})
    return cluster.kubeconfig_with(answer["status"]["token"], metadata["name"])


@asynccontextmanager
async def labelled(cluster: ClusterUnderTest, pod: dict[str, Any]) -> AsyncIterator[Replica]:
    async with replica(cluster, await kubeconfig_of(cluster, pod), pod_name=pod["metadata"]["name"]) as found:
        yield found


async def prepared(cluster: ClusterUnderTest) -> None:
    """With the shipped rules and the shipped policy, where there is an authorizer."""
    await prepare(cluster)
    if cluster.kind != "embedded":
        await service_token(cluster.admin, cluster.namespace)


@pytest.fixture(autouse=True)
def label_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write is soon tried again. On a busy machine the last removal of the label may take longer."""
    monkeypatch.setattr(leader_label, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(leader_label, "LAST_WRITE_SECONDS", PATIENCE_SECONDS)


def is_ready(service: Replica) -> bool:
    return service.context.readiness().ready


@pytest.mark.promise("Requests reach the leader.")
async def test_the_service_selects_the_leader_alone(cluster: ClusterUnderTest) -> None:
    await prepared(cluster)
    a, b = [await make_pod(cluster, name) for name in ("dra-spawner-a", "dra-spawner-b")]
    async with labelled(cluster, b) as second:
        async with labelled(cluster, a) as first:
            roles = {Role.LEADER, Role.STANDBY}
            await first.until(lambda: {first.context.role, second.context.role} == roles, "one of them leads")
            leads = "dra-spawner-a" if first.context.role is Role.LEADER else "dra-spawner-b"
            await until_selected(cluster, leads)
            for each in (first, second):
                await each.until(partial(is_ready, each), "both are ready")
                assert each.context.problems() == ()
        # Nothing of the one that has ended is left.
        await second.until(lambda: second.context.role is Role.LEADER, "the other leads")
        await until_selected(cluster, "dra-spawner-b")
    await until_selected(cluster)


async def test_a_standby_removes_a_label_that_was_left_and_is_not_ready_before(
    embedded_cluster: ClusterUnderTest,
) -> None:
    """As after a crash: the container starts again in the same pod, and another replica leads meanwhile."""
    cluster = embedded_cluster
    await prepared(cluster)
    b = await make_pod(cluster, "dra-spawner-b", **{names.LEADER: names.TRUE})
    # The leader does not know its pod here; else it would remove the label.
    async with replica(cluster) as leader, cluster.fault_proxy() as proxy:
        await leader.until(lambda: leader.context.role is Role.LEADER, "it leads")
        await until_selected(cluster, "dra-spawner-b")
        proxy.fail(Fault.answer(403), times=None, verb="patch", resource="pods")
        kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
        async with replica(cluster, kubeconfig, pod_name=b["metadata"]["name"]) as standby:
            await standby.until(lambda: standby.context.problems() != (), "it may not patch its pod")
            await standby.until(lambda: standby.context.role is Role.STANDBY, "it stands by")
            (problem,) = standby.context.problems()
            label = "The label hub.jupyter.org/dra-spawner-leader of pod"
            assert problem.startswith(f"{label} {cluster.namespace}/dra-spawner-b cannot be written: ")
            reasons = standby.context.readiness().reasons
            assert reasons == ("This replica does not lead, but its pod still has the leader's label.",)
            assert leader.context.readiness().ready
            proxy.heal()
            await until_selected(cluster)
            await standby.until(lambda: standby.context.readiness().ready, "it is ready")
            await standby.until(lambda: standby.context.problems() == (), "no problem is left")


async def test_the_leader_removes_the_label_of_a_replica_that_is_cut_off(cluster: ClusterUnderTest) -> None:
    """Of its own installation only: another one in the namespace has a leader, too."""
    await prepared(cluster)
    a = await make_pod(cluster, "dra-spawner-a")
    await make_pod(cluster, "dra-spawner-b", **{names.LEADER: names.TRUE})
    other = {"app.kubernetes.io/instance": "another", names.LEADER: names.TRUE}
    await make_pod(cluster, "another-dra-spawner", **other)
    async with labelled(cluster, a) as leader:
        await until_selected(cluster, "dra-spawner-a")
        found = await cluster.admin.get(cluster.path("pods", "another-dra-spawner"))
        assert found["metadata"]["labels"][names.LEADER] == names.TRUE
        assert leader.context.problems() == ()


async def test_the_leader_is_found_while_a_right_is_missing(embedded_cluster: ClusterUnderTest) -> None:
    """So that the page can name the right."""
    cluster = embedded_cluster
    await prepared(cluster)
    await make_pod(cluster, "dra-spawner-a")
    async with cluster.fault_proxy() as proxy:
        proxy.fail(Fault.answer(403), times=None, verb="list", resource="nodes")
        application = DRASpawnerService(
            kubeconfig=str(cluster.admin_kubeconfig_for(proxy.url)),
            namespace=cluster.namespace,
            pod_name="dra-spawner-a",
        )
        context = application.new_context()
        async with running(application.work(context)):
            await until_selected(cluster, "dra-spawner-a")
            assert not context.readiness().ready
            await eventually(lambda: any("nodes" in each for each in context.problems()), "the right is reported")
        await until_selected(cluster)


async def test_the_label_is_removed_by_a_replica_that_ends_before_its_write_is_answered(
    embedded_cluster: ClusterUnderTest,
) -> None:
    cluster = embedded_cluster
    await prepared(cluster)
    pod = await make_pod(cluster, "dra-spawner-a")
    async with cluster.fault_proxy() as proxy:
        # It does not see the label in its watch either.
        proxy.fail(Fault.hold(), times=None, verb="watch", resource="pods")
        proxy.fail(Fault.hold_answer(), verb="patch", resource="pods", name="dra-spawner-a")
        kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
        async with replica(cluster, kubeconfig, pod_name=pod["metadata"]["name"]) as service:
            await until_selected(cluster, "dra-spawner-a")
            assert service.context.leader_label is not None
            assert not service.context.leader_label.is_set
    assert await selected(cluster) == set()


async def test_a_label_that_others_removed_comes_back(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepared(cluster)
    pod = await make_pod(cluster, "dra-spawner-a")
    async with labelled(cluster, pod):
        await until_selected(cluster, "dra-spawner-a")
        path = cluster.path("pods", "dra-spawner-a")
        removed = await cluster.admin.patch(path, {"metadata": {"labels": {names.LEADER: None}}})
        assert names.LEADER not in removed["metadata"]["labels"]
        await until_selected(cluster, "dra-spawner-a")


async def test_a_missing_pod_is_reported(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    async with replica(cluster, pod_name="dra-spawner-x") as service:
        await service.until(lambda: service.context.problems() != (), "the missing pod is reported")
        assert service.context.problems() == (
            f"The label hub.jupyter.org/dra-spawner-leader of pod {cluster.namespace}/dra-spawner-x cannot be written: "
            "this pod does not exist (setting pod_name). Without it a Service cannot select the leader.",
        )


@pytest.mark.parametrize(
    ("pod", "label", "value"),
    [
        pytest.param("dra-spawner-b", names.LEADER, names.TRUE, id="the-other-replica"),
        pytest.param("dra-spawner-a", names.SHAPE, "0" * 16, id="another-label-of-its-own-pod"),
        pytest.param("dra-spawner-a", names.PREEMPTED_AT, "1", id="a-mark-of-users-pods-on-its-own"),
    ],
)
async def test_a_replica_may_label_nothing_but_its_own_pod(
    real_cluster: ClusterUnderTest, pod: str, label: str, value: str
) -> None:
    cluster = real_cluster
    await prepared(cluster)
    own = await make_pod(cluster, "dra-spawner-a")
    await make_pod(cluster, "dra-spawner-b")
    async with await KubernetesApi.from_kubeconfig(await kubeconfig_of(cluster, own)) as api:
        await api.patch(cluster.path("pods", "dra-spawner-a"), {"metadata": {"labels": {names.LEADER: names.TRUE}}})
        with pytest.raises(KubernetesError, match="dra-spawner-service-changes-pods") as refused:
            await api.patch(cluster.path("pods", pod), {"metadata": {"labels": {label: value}}})
        assert "of the account's own pod hub.jupyter.org/dra-spawner-leader, and nothing else" in str(refused.value)

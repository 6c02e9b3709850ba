"""The proxy that fails requests: which requests pass, and which ones reach the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, KubernetesTimeout, KubernetesUnavailable
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import PATIENCE_SECONDS


@pytest_asyncio.fixture
async def proxy(cluster: ClusterUnderTest) -> AsyncIterator[FaultProxy]:
    async with cluster.fault_proxy() as proxy:
        yield proxy


@pytest_asyncio.fixture
async def api(cluster: ClusterUnderTest, proxy: FaultProxy) -> AsyncIterator[KubernetesApi]:
    """The hub's account, through the proxy."""
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig_for(proxy.url)) as api:
        yield api


def secret(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


#: A fault by the name of the secret that is created, the error of the client, and whether there is a secret then.
FAULTS = {
    "refuse": (Fault.refuse(), KubernetesUnavailable, False),
    "hold": (Fault.hold(), KubernetesTimeout, False),
    "lose-answer": (Fault.lose_answer(), KubernetesUnavailable, True),
    "hold-answer": (Fault.hold_answer(), KubernetesTimeout, True),
    "answer": (Fault.answer(403, "Forbidden", "exceeded quota"), KubernetesError, False),
}


async def test_faults(cluster: ClusterUnderTest, proxy: FaultProxy, api: KubernetesApi):
    async def error_of(name: str, fault: Fault, expected: type[KubernetesError]) -> type[KubernetesError]:
        proxy.fail(fault, verb="create", resource="secrets", name=name)
        seconds = 5 if expected is KubernetesTimeout else PATIENCE_SECONDS
        with pytest.raises(KubernetesError) as raised:
            await api.create(cluster.path("secrets"), secret(name), timeout_seconds=seconds)
        return type(raised.value)

    errors = await asyncio.gather(*(error_of(name, fault, error) for name, (fault, error, _) in FAULTS.items()))
    assert dict(zip(FAULTS, errors, strict=True)) == {name: error for name, (_, error, _) in FAULTS.items()}
    for name, (_, _, carried_out) in FAULTS.items():
        if carried_out:
            await cluster.wait_for(cluster.path("secrets", name))
        else:
            await api.create(cluster.path("secrets"), secret(name))  # there is none, and only the first was to fail
    assert proxy.count("create") == 8


async def test_answer_is_a_status(cluster: ClusterUnderTest, proxy: FaultProxy, api: KubernetesApi):
    proxy.fail(Fault.answer(429, retryAfterSeconds=7), verb="list")
    with pytest.raises(KubernetesError) as raised:
        await api.list(cluster.path("secrets"))
    error = raised.value
    assert (error.status, error.reason, error.retry_after_seconds) == (429, "TooManyRequests", 7)
    assert error.retryable


async def test_nth_of_the_matching_and_how_many(cluster: ClusterUnderTest, proxy: FaultProxy, api: KubernetesApi):
    proxy.fail(Fault.answer(500), verb="get", name="wanted", nth=2, times=2)
    outcomes = []
    for name in ("wanted", "other", "wanted", "other", "wanted", "wanted"):
        with pytest.raises(KubernetesError) as raised:
            await api.get(cluster.path("secrets", name))
        outcomes.append(raised.value.status)
    assert outcomes == [404, 404, 500, 404, 500, 404]
    proxy.fail(Fault.answer(500), times=None)
    for _ in range(3):
        with pytest.raises(KubernetesError, match="500"):
            await api.list(cluster.path("secrets"))
    proxy.heal()
    await api.list(cluster.path("secrets"))


async def test_a_watch_can_be_broken_off(cluster: ClusterUnderTest, proxy: FaultProxy, api: KubernetesApi):
    proxy.fail(Fault.refuse(), verb="watch", times=None)
    with pytest.raises(KubernetesUnavailable):
        await anext(api.watch(cluster.path("secrets")))


async def test_the_client_itself_repeats_what_may_be_repeated(
    cluster: ClusterUnderTest, proxy: FaultProxy, api: KubernetesApi
):
    """aiohttp sends GET, PUT and DELETE once more over a fresh connection; POST and PATCH never."""
    await api.create(cluster.path("secrets"), secret("a"))
    proxy.fail(Fault.lose_answer(), verb="delete")
    with pytest.raises(KubernetesError) as raised:
        await api.delete(cluster.path("secrets", "a"))
    assert raised.value.not_found  # the first DELETE has done it
    assert proxy.count("delete") == 2

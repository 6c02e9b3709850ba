"""`KubernetesApi` against both clusters."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config

from dra_spawner.kube.client.api import (
    KubernetesApi,
    KubernetesError,
    KubernetesTimeout,
    KubernetesUnavailable,
    PatchType,
    ResourceExpired,
    WatchEventType,
    resource_path,
)
from tests.all_of_them import all_of_them
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.example_objects import pod
from tests.cluster.fault_proxy import Fault, Outcome
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import PATIENCE_SECONDS


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "test"}},
        "data": data,
    }


@all_of_them("arguments, path", [
    (("v1", "nodes"), "/api/v1/nodes"),
    (("v1", "pods"), "/api/v1/pods"),
    (("v1", "pods", "ns", "a"), "/api/v1/namespaces/ns/pods/a"),
    (("v1", "pods", "ns", "a", "status"), "/api/v1/namespaces/ns/pods/a/status"),
    (("resource.k8s.io/v1", "resourceclaims", "ns", "a"), "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/a"),
    (("v1", "pods", "ns", "a/b?c"), "/api/v1/namespaces/ns/pods/a%2Fb%3Fc"),
])  # fmt: skip
def test_resource_path(arguments: tuple[str, ...], path: str) -> None:
    assert resource_path(*arguments) == path


@all_of_them("arguments", {
    "parent": ("v1", "pods", "ns", ".."),
    "parent as namespace": ("v1", "pods", "..", "a"),
    "empty name": ("v1", "pods", "ns", ""),
    "subresource of a collection": ("v1", "pods", "ns", None, "status"),
})  # fmt: skip
def test_resource_path_refuses_names_that_lead_elsewhere(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="name"):
        resource_path(*arguments)


async def test_objects_come_and_go(cluster: ClusterUnderTest):
    api, path = cluster.admin, cluster.path("configmaps", "a")
    created = await api.create(cluster.path("configmaps"), config_map("a", key="1"))
    assert created["metadata"]["uid"]
    created["data"]["key"] = "2"
    replaced = await api.replace(path, created)
    assert (await api.get(path))["data"] == {"key": "2"}
    with pytest.raises(KubernetesError) as raised:
        await api.replace(path, created)  # of a version that is no more
    assert (raised.value.status, raised.value.conflict) == (409, True)
    assert not raised.value.already_exists
    with pytest.raises(KubernetesError) as raised:
        await api.delete(path, resource_version=created["metadata"]["resourceVersion"])
    assert raised.value.conflict
    with pytest.raises(KubernetesError) as raised:
        await api.delete(path, uid="another")
    assert raised.value.conflict
    await api.delete(path, uid=replaced["metadata"]["uid"])
    assert await api.delete(path, missing_ok=True) == {}


async def test_errors_name_the_request_and_the_reason(cluster: ClusterUnderTest):
    api = cluster.admin
    with pytest.raises(KubernetesError) as raised:
        await api.get(cluster.path("configmaps", "missing"))
    error = raised.value
    assert (error.status, error.reason, error.verb) == (404, "NotFound", "get")
    assert (error.kind, error.namespace, error.name) == ("configmaps", cluster.namespace, "missing")
    assert error.message == 'configmaps "missing" not found'
    assert error.not_found
    assert not error.retryable
    assert str(error) == (
        f"get configmaps 'missing' in namespace '{cluster.namespace}': 404 NotFound: configmaps \"missing\" not found"
    )
    await api.create(cluster.path("configmaps"), config_map("a"))
    with pytest.raises(KubernetesError) as raised:
        await api.create(cluster.path("configmaps"), config_map("a"))
    assert (raised.value.status, raised.value.already_exists, raised.value.name) == (409, True, "a")


async def test_only_a_404_that_names_the_object_says_that_it_is_missing(embedded_cluster: ClusterUnderTest) -> None:
    """Any other one is a load balancer's, or of a replica of the control plane that does not serve the kind."""
    cluster = embedded_cluster
    path = cluster.path("configmaps", "a")
    await cluster.admin.create(cluster.path("configmaps"), config_map("a"))
    faults = (
        Fault.answer(404),
        Fault(Outcome.ANSWER, 404, b"404 page not found\n"),
        Fault(Outcome.ANSWER, 404, b"<html>no route</html>"),
        Fault.answer(404, "NoRoute", name="a"),
        Fault.answer(404, name=["a"]),
    )
    async with (
        cluster.fault_proxy() as proxy,
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api,
    ):
        for fault in faults:
            for request in (api.get(path), api.delete(path, missing_ok=True), api.patch(path, {}), api.list(path)):
                proxy.fail(fault)
                with pytest.raises(KubernetesError) as raised:
                    await request
                assert (raised.value.not_found, raised.value.is_unserved) == (False, True), fault
                assert raised.value.retryable
        proxy.fail(Fault.answer(404, name="a", kind="configmaps"))
        assert await api.delete(path, missing_ok=True) == {}
        assert (await api.get(path))["metadata"]["name"] == "a"


async def test_a_list_that_is_none_or_is_older_than_before_is_an_error(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    path = cluster.path("configmaps")
    wrong: list[Any] = [
        {},
        {"status": "ok"},
        {"kind": "ConfigMapList", "metadata": {"resourceVersion": "999999"}},
        {"kind": "ConfigMapList", "metadata": {"resourceVersion": "999999"}, "items": None},
        {"kind": "ConfigMapList", "metadata": [], "items": []},
        {"kind": "Status", "metadata": {}, "items": []},
        {"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []},
    ]
    async with (
        cluster.fault_proxy() as proxy,
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api,
    ):
        before = await api.list(path)
        for answer in wrong:
            proxy.fail(Fault.json(answer), verb="list")
            with pytest.raises(KubernetesError) as raised:
                await api.list(path)
            assert (raised.value.reason, raised.value.retryable) == ("BadAnswer", True), answer
        assert await api.list(path) == before
        assert (await api.list(path, resource_version="0"))["items"] == before["items"], "of the cache, at any version"


async def test_invalid_object_is_refused_with_the_reason(real_cluster: ClusterUnderTest):
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "Not A Label", "exactly": {"deviceClassName": "c"}}]}}},
    }
    with pytest.raises(KubernetesError) as raised:
        await real_cluster.admin.create(real_cluster.path("resourceclaimtemplates"), template)
    assert (raised.value.status, raised.value.reason) == (422, "Invalid")
    assert "spec.spec.devices.requests[0].name" in raised.value.message


async def test_patches(cluster: ClusterUnderTest):
    api, merged = cluster.admin, {"data": {"old": None, "new": "2"}}
    patch = [{"op": "remove", "path": "/data/old"}, {"op": "add", "path": "/data/new", "value": "2"}]
    found = {}
    for kind, body in ((PatchType.MERGE, merged), (PatchType.STRATEGIC, merged), (PatchType.JSON, patch)):
        name = kind.name.lower()
        await api.create(cluster.path("configmaps"), config_map(name, old="1", kept="1"))
        found[kind] = (await api.patch(cluster.path("configmaps", name), body, patch_type=kind))["data"]
    assert list(found.values()) == [{"kept": "1", "new": "2"}] * 3, found


async def test_strategic_patch_merges_lists_by_key(cluster: ClusterUnderTest):
    body = pod("a", ["true"], tolerations=[{"key": "one", "operator": "Exists"}])
    await cluster.admin.create(cluster.path("pods"), body)
    conditions = [{"type": "Test", "status": "True"}, {"type": "Other", "status": "True"}]
    for condition in conditions:
        patch = {"status": {"conditions": [condition]}}
        await cluster.admin.patch(cluster.path("pods", "a", "status"), patch, patch_type=PatchType.STRATEGIC)
    found = (await cluster.admin.get(cluster.path("pods", "a")))["status"]["conditions"]
    assert {"Test", "Other"} <= {each["type"] for each in found}


async def test_lists_select_and_page(cluster: ClusterUnderTest):
    for number in range(5):
        await cluster.admin.create(cluster.path("secrets"), {**config_map(f"s{number}"), "kind": "Secret", "data": {}})
    whole = await cluster.admin.list(cluster.path("secrets"), label_selector="app=test")
    assert len(whole["items"]) == 5
    assert whole["metadata"]["resourceVersion"]
    paged = await cluster.admin.list(cluster.path("secrets"), label_selector="app=test", page_size=2)
    assert [each["metadata"]["uid"] for each in paged["items"]] == [each["metadata"]["uid"] for each in whole["items"]]
    assert "continue" not in paged["metadata"]
    one = await cluster.admin.list(cluster.path("secrets"), field_selector="metadata.name=s3")
    assert [each["metadata"]["name"] for each in one["items"]] == ["s3"]
    assert (await cluster.admin.list(cluster.path("secrets"), label_selector="app=other"))["items"] == []


async def test_watch_returns_changes_in_order(cluster: ClusterUnderTest):
    api, path = cluster.admin, cluster.path("configmaps")
    version = (await api.list(path))["metadata"]["resourceVersion"]
    await api.create(path, config_map("a", key="1"))
    await api.patch(f"{path}/a", {"data": {"key": "2"}})
    await api.delete(f"{path}/a")
    seen = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event_type, obj in api.watch(path, resource_version=version, label_selector="app=test"):
            seen.append((event_type, obj["metadata"]["name"], obj["data"]["key"]))
            if event_type is WatchEventType.DELETED:
                break
    assert seen == [("ADDED", "a", "1"), ("MODIFIED", "a", "2"), ("DELETED", "a", "2")]


async def test_watch_ends_when_the_server_closes_the_connection(cluster: ClusterUnderTest):
    path = cluster.path("secrets")
    version = (await cluster.admin.list(path))["metadata"]["resourceVersion"]
    began = asyncio.get_running_loop().time()
    changes = [event async for event in cluster.admin.watch(path, resource_version=version, watch_seconds=1)]
    assert changes == []
    assert 0.5 < asyncio.get_running_loop().time() - began < PATIENCE_SECONDS


async def test_watch_carries_objects_larger_than_a_read_buffer(cluster: ClusterUnderTest):
    api, path = cluster.admin, cluster.path("configmaps")
    large = "x" * 900_000
    await api.create(path, config_map("large", text=large))
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for _, obj in api.watch(path, field_selector="metadata.name=large"):
            assert obj["data"]["text"] == large
            break


EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 1 (123456)",
    "reason": "Expired",
    "code": 410,
}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param("200 OK", {"type": "ERROR", "object": EXPIRED}, id="as an event"),
        pytest.param("410 Gone", EXPIRED, id="as the answer"),
    ],
)
async def test_watch_from_a_forgotten_version(tmp_path: Path, status: str, body: dict[str, Any]):
    """Scripted: a real API server forgets only after five minutes or many thousand events."""
    answer = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{json.dumps(body)}\n".encode()
    async with scripted_api(tmp_path, answer) as api:
        with pytest.raises(ResourceExpired, match="too old resource version") as raised:
            await anext(api.watch("/api/v1/pods", resource_version="1"))
    assert (raised.value.status, raised.value.reason, raised.value.kind) == (410, "Expired", "pods")


async def test_watch_that_breaks_off_within_an_event(tmp_path: Path):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    answer = head + f"{len(line):x}\r\n".encode() + line + b"\r\n10\r\n{"
    async with scripted_api(tmp_path, answer) as api:
        changes = api.watch("/api/v1/pods")
        assert (await anext(changes))[1]["metadata"]["name"] == "a"
        with pytest.raises(KubernetesUnavailable):
            await anext(changes)


async def test_kubespawners_own_client_will_do(cluster: ClusterUnderTest):
    """As `spawner.api.api_client`: configured by the library's own loader, not closed by us."""
    configuration = client.Configuration()
    await config.load_kube_config(config_file=str(cluster.hub_kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api_client:
        async with KubernetesApi(api_client) as api:
            await api.list(cluster.path("pods"))
        assert await client.CoreV1Api(api_client).list_namespaced_pod(cluster.namespace)


async def test_nobody_listens(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{unused.getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": server}, "token", "default")
        async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
            with pytest.raises(KubernetesUnavailable) as raised:
                await api.get("/api/v1/nodes/a")
    assert not isinstance(raised.value, KubernetesTimeout)
    assert (raised.value.status, raised.value.reason, raised.value.name) == (0, "Unavailable", "a")
    assert raised.value.retryable


async def test_no_answer_in_time(tmp_path: Path):
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with await KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=0.2) as api:
            with pytest.raises(KubernetesTimeout, match=r"no answer within 0\.2 s"):
                await api.get("/api/v1/nodes/a")
            with pytest.raises(KubernetesTimeout):
                await api.create("/api/v1/nodes", {}, timeout_seconds=0.1)


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        pytest.param(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>", 502, "<html>", id="a proxy's page"),
        pytest.param(b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n\r\n", 503, "no message", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n<html>", 0, "no JSON object", id="success that is none"),
    ],
)
async def test_answers_of_others_than_an_api_server(tmp_path: Path, answer: bytes, status: int, message: str):
    async with scripted_api(tmp_path, answer) as api:
        with pytest.raises(KubernetesError, match=message) as raised:
            await api.get("/api/v1/nodes/a")
    assert raised.value.status == status
    assert raised.value.retryable
    assert raised.value.retry_after_seconds == (3 if status == 503 else None)


#: What a server says first that begins, or has too much to do, and whether each request is sent again.
PUT_OFF = {
    "a read, while the server begins": ("get", 429, "0.01", True),
    "a list, while the server begins": ("list", 429, "0.01", True),
    "its clock": ("date", 429, "0.01", True),
    "a read of a proxy": ("get", 503, "0.01", True),
    "a list that took too long": ("list", 504, "0.01", True),
    "a creation of which nothing was done": ("create", 429, "0.01", True),
    "a change of which nothing was done": ("patch", 429, "0.01", True),
    "a deletion of which nothing was done": ("delete", 429, "0.01", True),
    "a creation that a proxy may have passed on": ("create", 503, "0.01", False),
    "a change that may be done": ("patch", 504, "0.01", False),
    "without a time": ("get", 429, "", False),
    "a time that is too long": ("get", 429, "86400", False),
    "another error with a time": ("get", 500, "0.01", False),
}


@all_of_them("verb, status, after, is_repeated", PUT_OFF)
async def test_requests_that_are_put_off(tmp_path: Path, verb: str, status: int, after: str, is_repeated: bool) -> None:
    header = f"Retry-After: {after}\r\n" if after else ""
    put_off = f"HTTP/1.1 {status} Later\r\n{header}Content-Length: 0\r\n\r\n".encode()
    found = {"kind": "NodeList", "metadata": {}, "items": []} if verb == "list" else {"metadata": {"name": "a"}}
    body = json.dumps(found).encode()
    success = b"HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with scripted_api(tmp_path, put_off, put_off, success) as api:
        requests: dict[str, Callable[[], Awaitable[Any]]] = {
            "get": lambda: api.get("/api/v1/nodes/a"),
            "list": lambda: api.list("/api/v1/nodes"),
            "date": api.date,
            "create": lambda: api.create("/api/v1/nodes", found),
            "patch": lambda: api.patch("/api/v1/nodes/a", {}),
            "delete": lambda: api.delete("/api/v1/nodes/a"),
        }
        if is_repeated:
            assert await requests[verb]() == ("today" if verb == "date" else found)
        else:
            with pytest.raises(KubernetesError) as raised:
                await requests[verb]()
            assert raised.value.status == status


async def test_a_request_is_put_off_no_longer_than_its_own_time(tmp_path: Path) -> None:
    put_off = b"HTTP/1.1 429 Later\r\nRetry-After: 0.1\r\nContent-Length: 0\r\n\r\n"
    async with scripted_api(tmp_path, put_off) as api:
        with pytest.raises(KubernetesError, match="429"):
            await api.get("/api/v1/nodes/a", timeout_seconds=0.5)


@asynccontextmanager
async def scripted_api(directory: Path, *answers: bytes) -> AsyncIterator[KubernetesApi]:
    """A client of a server that gives `answers` in their order, and the last one again and again."""
    left = [*answers]

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kubeconfig = write_kubeconfig(directory / "kubeconfig", {"server": url}, "token", "default")
        async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
            yield api

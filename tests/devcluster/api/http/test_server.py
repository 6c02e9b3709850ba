"""The API over HTTP: connections, and common clients."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from kubernetes_asyncio import client, watch

from dra_spawner.commands.checking.render_command import RenderOptions, run_render
from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.http.encoding import ObjectEncoder
from dra_spawner.devcluster.api.http.requests import Target, parse_bool, parse_target
from dra_spawner.devcluster.api.http.server import MAX_BODY_BYTES, ApiServer
from dra_spawner.devcluster.api.http.tables import human_duration
from dra_spawner.devcluster.api.resource_types import RESOURCE_TYPES
from dra_spawner.devcluster.api.storage.store import Store
from tests.all_of_them import all_of_them
from tests.polling import PATIENCE_SECONDS, eventually

TOKEN = "a-secret"


def logs(pod: Any, container: str) -> str | None:
    return f"{container} of {pod['metadata']['name']}\nsecond\n" if container != "silent" else None


@pytest.fixture
def store() -> Store:
    return Store(lambda: datetime.now(UTC), history_limit=20)


@pytest_asyncio.fixture
async def server(store: Store) -> AsyncIterator[ApiServer]:
    server = ApiServer(store, TOKEN, logs=logs)
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def session(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        yield session


@pytest_asyncio.fixture
async def api(server: ApiServer) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration(host=server.url)
    configuration.api_key = {"BearerToken": TOKEN}
    configuration.api_key_prefix = {"BearerToken": "Bearer"}
    async with client.ApiClient(configuration) as api:
        yield api


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, *containers: str) -> dict[str, Any]:
    spec = {"containers": [{"name": each, "image": "i"} for each in containers or ("c",)], "nodeName": "n"}
    return {"metadata": {"name": name}, "spec": spec}


# --- access ------------------------------------------------------------------------------------------


async def test_only_requests_with_the_token_are_answered(server: ApiServer) -> None:
    wrong = ("Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer gürtel")
    headers = [{}, *({"Authorization": each} for each in wrong)]
    refused = list(product(("/api/v1/pods", "/api", "/apis", "/nonsense"), headers))
    refused += [("/token/wrong/api/v1/namespaces", {}), ("/token/api/v1/namespaces", {})]
    async with aiohttp.ClientSession() as session:
        for path, each in refused:
            async with session.get(server.url + path, headers=each) as response:
                status = await response.json()
                assert (response.status, status["kind"], status["reason"]) == (401, "Status", "Unauthorized"), (
                    path,
                    each,
                )
        for url in (
            f"{server.url_with_token}/api/v1/namespaces",
            *(f"{server.url}/{each}" for each in ("healthz", "readyz", "livez", "version")),
        ):
            async with session.get(url) as response:
                assert response.status == 200, url


async def test_the_server_listens_on_loopback_only(server: ApiServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")


# --- refusals ----------------------------------------------------------------------------------------


JSON, CONFIGMAPS = "application/json", "/api/v1/namespaces/default/configmaps"
REFUSED: list[tuple[str, str, bytes, str, int, str]] = [
    ("GET", "/api/v1/nonsense", b"", JSON, 404, "NotFound"),
    ("GET", "/apis/example.com/v1", b"", JSON, 404, "NotFound"),
    ("GET", "/", b"", JSON, 404, "NotFound"),
    ("GET", "/api/v1/namespaces/default/pods/p/exec", b"", JSON, 404, "NotFound"),
    ("GET", "/api/v1/pods/p", b"", JSON, 404, "NotFound"),
    ("GET", "/api/v1/namespaces/default/nodes", b"", JSON, 404, "NotFound"),
    ("POST", "/api/v1/configmaps", b"{}", JSON, 404, "NotFound"),
    ("PUT", CONFIGMAPS, b"{}", JSON, 405, "MethodNotAllowed"),
    ("DELETE", "/api/v1/namespaces", b"", JSON, 405, "MethodNotAllowed"),
    ("POST", CONFIGMAPS, b"{", JSON, 400, "BadRequest"),
    ("POST", CONFIGMAPS, b"[]", JSON, 400, "BadRequest"),
    ("POST", CONFIGMAPS, b'{"a": NaN}', JSON, 400, "BadRequest"),
    ("POST", CONFIGMAPS, b"[" * 9999, JSON, 400, "BadRequest"),
    ("POST", CONFIGMAPS, b"\xff", JSON, 400, "BadRequest"),
    ("POST", CONFIGMAPS, b"a: b", "text/yaml", 415, "UnsupportedMediaType"),
    ("POST", CONFIGMAPS, b"k8s", "application/vnd.kubernetes.protobuf", 415, "UnsupportedMediaType"),
    ("PATCH", f"{CONFIGMAPS}/a", b"{}", JSON, 415, "UnsupportedMediaType"),
    ("PATCH", f"{CONFIGMAPS}/a", b"{}", "application/apply-patch+yaml", 415, "UnsupportedMediaType"),
    ("DELETE", f"{CONFIGMAPS}/a", b"5", JSON, 400, "BadRequest"),
    ("GET", "/api/v1/pods?continue=nonsense", b"", JSON, 400, "BadRequest"),
    ("GET", "/api/v1/pods?continue=e30", b"", JSON, 400, "BadRequest"),
    ("GET", "/api/v1/pods?resourceVersion=99999", b"", JSON, 504, "Timeout"),
    ("GET", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact", b"", JSON, 410, "Expired"),
    ("GET", "/api/v1/pods?labelSelector=%3D&watch=1", b"", JSON, 400, "BadRequest"),
]


async def test_refusals_are_statuses(session: aiohttp.ClientSession) -> None:
    problems = []
    for method, path, body, content_type, status, reason in REFUSED:
        async with session.request(method, path, data=body, headers={"Content-Type": content_type}) as response:
            refusal = await response.json()
        found = (response.status, refusal["kind"], refusal["status"], refusal["code"], refusal["reason"])
        if found != (status, "Status", "Failure", status, reason) or not refusal["message"]:
            problems.append(f"{method} {path} {body[:20]!r} {content_type}: {found}")
    assert not problems, "\n".join(problems)


async def test_bodies_are_limited(session: aiohttp.ClientSession) -> None:
    body = json.dumps(config_map("a", k="v" * MAX_BODY_BYTES))
    headers = {"Content-Type": "application/json"}
    async with session.post("/api/v1/namespaces/default/configmaps", data=body, headers=headers) as response:
        assert response.status == 413
        assert (await response.json())["reason"] == "RequestEntityTooLarge"


async def test_a_bug_is_answered_as_a_status(
    session: aiohttp.ClientSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(store, "get", fail)
    async with session.get("/api/v1/nodes/n") as response:
        assert response.status == 500
        assert (await response.json())["reason"] == "InternalError"


# --- watches -----------------------------------------------------------------------------------------


async def read_events(response: aiohttp.ClientResponse, count: int) -> list[Any]:
    events: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(events) < count:
            line = await response.content.readline()
            assert line, f"the watch ended after {events}"
            events.append(json.loads(line))
    return events


async def test_changes_arrive_while_watching(session: aiohttp.ClientSession, store: Store) -> None:
    store.create(types.CONFIGMAPS, config_map("a"), "default")
    async with session.get("/api/v1/namespaces/default/configmaps?watch=True") as response:
        (first,) = await read_events(response, 1)
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
        store.create(types.CONFIGMAPS, config_map("elsewhere"), "kube-system")
        store.create(types.PODS, pod("p"), "default")
        store.patch(types.CONFIGMAPS, "default", "a", {"data": {"k": "v"}})
        store.delete(types.CONFIGMAPS, "default", "a")
        later = await read_events(response, 2)
    assert [event["type"] for event in later] == ["MODIFIED", "DELETED"]
    assert {event["object"]["kind"] for event in later} == {"ConfigMap"}


async def test_a_watch_of_one_object(session: aiohttp.ClientSession, store: Store) -> None:
    for name in ("a", "b"):
        store.create(types.CONFIGMAPS, config_map(name), "default")
    async with session.get("/api/v1/namespaces/default/configmaps/b?watch=1&timeoutSeconds=1") as response:
        (first,) = await read_events(response, 1)
        assert first["object"]["metadata"]["name"] == "b"


async def test_a_watch_ends_in_time_with_a_bookmark(session: aiohttp.ClientSession, store: Store) -> None:
    query = f"watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={store.resource_version}"
    async with asyncio.timeout(PATIENCE_SECONDS), session.get(f"/api/v1/pods?{query}") as response:
        lines = (await response.text()).splitlines()
    (bookmark,) = map(json.loads, lines)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == store.resource_version


async def test_initial_events_end_with_a_bookmark(session: aiohttp.ClientSession) -> None:
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with session.get(f"/api/v1/namespaces?{query}") as response:
        events = await read_events(response, 5)
    assert [event["type"] for event in events] == ["ADDED"] * 4 + ["BOOKMARK"]
    assert events[4]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_from_a_forgotten_version_has_expired(session: aiohttp.ClientSession, store: Store) -> None:
    for index in range(30):
        store.create(types.CONFIGMAPS, config_map(f"c{index}"), "default")
    async with session.get("/api/v1/configmaps?watch=1&resourceVersion=1") as response:
        assert response.status == 200
        (event,) = map(json.loads, (await response.text()).splitlines())
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_stopping_ends_watches_at_once(server: ApiServer, session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/pods?watch=1&resourceVersion=0") as response:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.stop()
            assert await response.text() == ""


async def test_watches_of_clients_that_left_are_forgotten(server: ApiServer, session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/pods?watch=1") as response:
        assert response.status == 200
        assert server.watch_count == 1
        response.close()
    await eventually(lambda: server.watch_count == 0, "the watch is forgotten", PATIENCE_SECONDS)


async def test_a_client_that_does_not_read_loses_its_watch(
    session: aiohttp.ClientSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_spawner.devcluster.api.http.watches.MAX_UNSENT_BYTES", 2000)
    async with session.get("/api/v1/configmaps?watch=1&resourceVersion=0") as response:
        for index in range(20):  # in one go: the connection's task gets no turn
            store.create(types.CONFIGMAPS, config_map(f"c{index}", k="v" * 100), "default")
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = (await response.text()).splitlines()
    assert 0 < len(lines) < 20


# --- clients -----------------------------------------------------------------------------------------


async def test_the_client_of_kubespawner(api: client.ApiClient) -> None:
    """Typed objects, strategic merge patches by default, ``watch=True``, ``NotOlderThan``."""
    core = client.CoreV1Api(api)
    container = client.V1Container(name="c", image="i", env=[client.V1EnvVar(name="a", value="b")])
    body = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p", labels={"component": "singleuser-server"}),
        spec=client.V1PodSpec(containers=[container], restart_policy="OnFailure"),
    )
    created = await core.create_namespaced_pod("default", body)
    assert created.status.phase == "Pending"
    patched = await core.patch_namespaced_pod("p", "default", {"metadata": {"annotations": {"a": "b"}}})
    assert patched.spec.containers[0].env[0].value == "b"
    listed = await core.list_namespaced_pod(
        "default",
        label_selector="component=singleuser-server",
        resource_version="0",
        resource_version_match="NotOlderThan",
        _preload_content=False,
    )
    listing = json.loads(await listed.read())
    assert listing["items"][0]["metadata"]["namespace"] == "default"
    seen = []
    async with watch.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=created.metadata.resource_version, timeout_seconds=1
    ) as stream:
        seen = [(event["type"], event["object"].metadata.annotations) async for event in stream]
    assert seen == [("MODIFIED", {"a": "b"})]
    deleted = await core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
    assert deleted.metadata.name == "p"
    with pytest.raises(client.ApiException) as failure:
        await core.read_namespaced_pod("p", "default")
    assert (failure.value.status, json.loads(failure.value.body)["reason"]) == (404, "NotFound")


async def test_logs(session: aiohttp.ClientSession, store: Store) -> None:
    store.create(types.PODS, pod("p"), "default")
    store.create(types.PODS, pod("q", "a", "silent"), "default")
    path = "/api/v1/namespaces/default/pods/{}/log"
    for query, status, text in (
        ("p", 200, "c of p\nsecond\n"),
        ("p?tailLines=1", 200, "second\n"),
        ("p?tailLines=0", 200, ""),
        ("q?container=a", 200, "a of q\nsecond\n"),
        ("q", 400, None),
        ("q?container=z", 400, None),
        ("q?container=silent", 404, None),
        ("none", 404, None),
    ):
        name, _, options = query.partition("?")
        async with session.get(f"{path.format(name)}?{options}") as response:
            assert response.status == status, query
            assert text in (None, await response.text())


@pytest.mark.needs_program("kubectl")
async def test_kubectl(server: ApiServer, store: Store, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server.url_with_token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(config))

    async def kubectl(*arguments: str, stdin: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, output.decode()
        return output.decode()

    store.create(types.PODS, pod("p"), "default")
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a", k="v")})
    assert "created" in await kubectl("apply", "-f", "-", stdin=manifest)
    assert "unchanged" in await kubectl("apply", "-f", "-", stdin=manifest)
    rendered, values = io.StringIO(), Path(__file__).parents[4] / "helm-values" / "minimal.yaml"
    assert run_render(RenderOptions((str(values),)), io.BytesIO(), rendered, sys.stderr) == 0
    applied = (await kubectl("apply", "--dry-run=server", "-f", "-", stdin=rendered.getvalue())).splitlines()
    assert applied
    assert all(line.endswith("created (server dry run)") for line in applied)
    assert "labeled" in await kubectl("label", "pod", "p", "a=b")
    assert (await kubectl("get", "po", "-l", "a=b", "-o", "wide")).split()[:2] == ["NAME", "READY"]
    assert "0/1" in await kubectl("get", "pods", "-A")
    for plural in ("resourceclaims", "deviceclasses", "nodes", "events", "events.events.k8s.io", "ns"):
        await kubectl("get", plural)
    assert "second" in await kubectl("logs", "p")
    assert "deleted" in await kubectl("delete", "pod", "p", "--now", "--wait=false")
    assert "Terminating" in await kubectl("get", "pod", "p")
    assert "Server Version: v1." in await kubectl("version")


# --- the parts ---------------------------------------------------------------------------------------


class _Object(dict[str, Any]):
    """An object that can be referenced weakly."""


@pytest.mark.parametrize("is_stored", [False, True])
def test_only_texts_of_stored_objects_are_cached(is_stored: bool) -> None:
    """A watch also shows the last states of deleted objects."""
    encoder = ObjectEncoder(lambda obj: is_stored)
    obj = _Object(kind="Pod", apiVersion="v1", metadata={"uid": "1"})
    found = weakref.ref(obj)
    encoder.whole(obj)
    del obj
    assert (found() is not None) is is_stored


@all_of_them(
    "text, value",
    [
        *((text, False) for text in (None, "0", "false", "False", "FALSE")),
        *((text, True) for text in ("1", "t", "True", "TRUE", "yes", "")),
    ],
)
def test_flags(text: str | None, value: bool) -> None:
    assert parse_bool(text) is value


@all_of_them("resource_type", RESOURCE_TYPES)
def test_every_path_leads_to_its_kind(resource_type: types.ResourceType) -> None:
    namespace = "ns" if resource_type.namespaced else None
    group, version = resource_type.group, resource_type.version
    skip = 3 if group else 2
    for name in ("", "x"):
        parts = resource_type.path(namespace, name).strip("/").split("/")[skip:]
        assert parse_target(group, version, parts) == Target(resource_type, namespace, name)
    if resource_type.status:
        parts = resource_type.path(namespace, "x", "status").strip("/").split("/")[skip:]
        assert parse_target(group, version, parts) == Target(resource_type, namespace, "x", "status")


@all_of_them(
    "seconds, text",
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text

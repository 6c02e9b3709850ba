"""Informers skip one wrong object, both when they read it and when a receiver fails on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.informers import Informer, InformerEnded, InformerSettings, wait_informers_ended
from dra_spawner.kube.resource import Resource
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Knowledge
from tests.local_server import serving
from tests.polling import eventually
from tests.running import running

RESOURCE = Resource("ConfigMap", "v1", "configmaps")
DEEP = "[" * 5000 + "]" * 5000


def config_map(name: str, version: str = "1", more: str = "1") -> str:
    metadata = json.dumps({"name": name, "namespace": "n", "uid": name, "resourceVersion": version})
    return f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"more":{more}}}'


@asynccontextmanager
async def answering(items: list[str], events: list[str]) -> AsyncIterator[KubernetesApi]:
    """An API server that lists texts once, and then sends events."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            page = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{",".join(items)}]}}'
            return web.Response(text=page, content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(event.encode() + b"\n")
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/api/v1/configmaps", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = ApiClient(Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))
        async with KubernetesApi(client, owns_client=True) as api:
            yield api
    finally:
        await runner.cleanup()


class Receiving:
    """Records its events; fails on some objects."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.unbearable: set[str] = set()

    def put(self, obj: JsonObject) -> None:
        if obj["metadata"]["name"] in self.unbearable:
            raise LookupError("unbearable (injected by a test)")
        self.names.append(obj["metadata"]["name"])

    def remove(self, key: ObjectKey) -> None:
        if key.name in self.unbearable:
            raise LookupError("unbearable (injected by a test)")
        self.names.remove(key.name)


def event(kind: str, obj: str) -> str:
    return f'{{"type":"{kind}","object":{obj}}}'


async def test_one_object_that_is_wrong_costs_no_other() -> None:
    items = [
        "{}",
        "5",
        '{"metadata":{"name":["x"]}}',
        config_map("deep", more=DEEP),
        config_map("bad"),
        config_map("a"),
    ]
    events = [
        event("ADDED", config_map("later", "2", DEEP)),
        event("MODIFIED", config_map("bad", "3")),
        event("DELETED", config_map("a", "4", DEEP)),
        event("ADDED", config_map("b", "5")),
    ]
    receiver = Receiving()
    receiver.unbearable.add("bad")
    async with answering(items, events) as api:
        informer = Informer(api, RESOURCE, receiver)
        async with running(informer.run()):
            await eventually(lambda: "b" in receiver.names, "all events are received")
            assert receiver.names == ["deep", "later", "b"]
            status = informer.status
            assert (status.lists, status.events, status.objects) == (1, 4, 4)
            assert status.problem == "ConfigMap n/bad cannot be taken in (LookupError: unbearable (injected by a test))"
            assert informer.resource_version == "5"


async def test_an_ended_informer_reports_its_cause() -> None:
    def clock() -> float:
        raise OSError("no clock (injected by a test)")

    async with answering([], []) as api:
        informer = Informer(api, RESOURCE, Receiving(), clock=clock)
        task = asyncio.create_task(informer.run(), name="informer of configmaps")
        with pytest.raises(InformerEnded, match="the informer of configmaps has ended") as ended:
            await wait_informers_ended((task,))
        assert isinstance(ended.value.__cause__, OSError)


def test_a_collection_that_fails_is_asked_as_often_as_one_that_works() -> None:
    """So pages find back soon after an outage of any length, which costs the API server nothing."""
    settings = InformerSettings()
    assert settings.longest_delay_seconds <= settings.watch_seconds


class ServedVersions:
    """An API server whose versions of a resource come and go with its upgrades."""

    def __init__(self) -> None:
        self.served: dict[str, list[str]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        _, _, group, version, *rest = request.path.split("/")
        if version in self.served and not rest:
            group_version = f"{group}/{version}"
            resources = [{"name": "others"}, *([{"name": "rules"}] if self.served[version] else [])]
            return web.json_response({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources})
        names = self.served.get(version)
        if not names or rest != ["rules"]:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if "watch" in request.query:
            return web.Response()
        # Another version of a list for each state, as of a real server.
        number = str(1 + len(self.served))
        items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names]
        return web.json_response({"metadata": {"resourceVersion": number}, "items": items})


async def test_the_version_that_discovery_names_is_followed() -> None:
    server = ServedVersions()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    receiving = Names()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = ApiClient(Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))
        settings = InformerSettings(first_delay_seconds=0.01, longest_delay_seconds=0.02, off_delay_seconds=0.02)
        async with KubernetesApi(client, owns_client=True) as api:
            informer = Informer(
                api,
                Resource("Rule", "x.example.com/v1", "rules"),
                receiving,
                settings=settings,
                may_be_absent=True,
                versions=("x.example.com/v1", "x.example.com/v1beta2", "x.example.com/v1alpha3"),
            )
            async with running(informer.run()):
                server.served = {"v1": [], "v1beta2": []}
                await eventually(lambda: informer.knowledge is Knowledge.ABSENT, "no version is served")
                server.served = {"v1": [], "v1beta2": ["beta"]}
                await eventually(lambda: receiving.names == {"beta"}, "the beta version is followed")
                server.served = {"v1": ["beta", "new"], "v1beta2": [], "v1alpha3": []}
                await eventually(lambda: receiving.names == {"beta", "new"}, "after the upgrade, the newer one")
                assert informer.resource.group_version == "x.example.com/v1"
    finally:
        await runner.cleanup()


class Names:
    """The names of the objects that there are."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def put(self, obj: JsonObject) -> None:
        self.names.add(obj["metadata"]["name"])

    def remove(self, key: ObjectKey) -> None:
        self.names.discard(key.name)


class RestoredCluster:
    """An API server that is away until it comes back from a backup."""

    def __init__(self) -> None:
        self.is_away = asyncio.Event()
        self.refused = 0
        self.page = f'{{"metadata":{{"resourceVersion":"10"}},"items":[{config_map("a", "5")},{config_map("b", "9")}]}}'

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.is_away.is_set():
            self.refused += 1
            return web.Response(status=503)
        if "watch" not in request.query:
            return web.Response(text=self.page, content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        await self.is_away.wait()
        return response


async def test_after_an_outage_nothing_stays_known_that_a_backup_lacks() -> None:
    """Versions of a restored cluster may be newer again when it is reached, so that a watch would simply go on."""
    server, receiver, now = RestoredCluster(), Receiving(), 0.0
    async with (
        serving(server.answer) as url,
        KubernetesApi(ApiClient(Configuration(host=url)), owns_client=True) as api,
    ):
        settings = InformerSettings(first_delay_seconds=0.01, longest_delay_seconds=0.02)
        informer = Informer(api, RESOURCE, receiver, settings=settings, clock=lambda: now)
        async with running(informer.run()):
            await eventually(lambda: informer.knowledge is Knowledge.KNOWN, "all are known")
            server.is_away.set()
            await eventually(lambda: informer.knowledge is Knowledge.UNKNOWN, "the outage is noticed")
            assert receiver.names == ["a", "b"]
            now += settings.relist_seconds + 1
            # What was asked before is no question of then.
            asked = server.refused + 1
            await eventually(lambda: server.refused > asked, "it is asked again")
            server.page = f'{{"metadata":{{"resourceVersion":"12"}},"items":[{config_map("a", "4")}]}}'
            server.is_away.clear()
            await eventually(lambda: informer.knowledge is Knowledge.KNOWN, "all are known again")
            assert receiver.names == ["a"]
            assert informer.status.lists == 2

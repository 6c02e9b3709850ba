"""Costs of the service's API with 5,000 nodes: availability, and open event streams.

Run ``python -m tests.bench.service_api``. The service's web application answers over loopback, in this process; another process
asks, with keep-alive connections, as programs do. Availability is ``GET api/profiles`` with the service's own token. It is
asked while nothing changes, while nodes report ten times a second, and while their labels change so often. Then streams of ``api/events`` are opened.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
from kubernetes_asyncio.client import ApiClient

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.event_handler import EventsHandler
from dra_spawner.service.http.requests.limited_server import LimitedServer
from dra_spawner.service.http.web_application import web_application
from dra_spawner.service.web_settings import WebSettings
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.bench.event_stream import NAMESPACE, Cluster
from tests.bench.figures import options_parser, resident_megabytes, times
from tests.local_server import serving_tornado
from tests.placeholders.controller.objects import WHOLE, shape
from tests.service.open_service import open_to_all

TOKEN = "0" * 32
_AT_ONCE = 4
_REPORTS_A_SECOND = 10
_ASKER = """
import asyncio, json, sys, time, aiohttp
async def main(url, token, seconds, at_once):
    times, end = [], time.perf_counter() + seconds
    async with aiohttp.ClientSession(headers={"Authorization": "token " + token}) as session:
        async def ask():
            while time.perf_counter() < end:
                began = time.perf_counter()
                async with session.get(url) as answer:
                    await answer.read()
                    assert answer.status == 200
                times.append(time.perf_counter() - began)
        await asyncio.gather(*(ask() for _ in range(at_once)))
    print(json.dumps(times))
asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
"""


class _Watch(ClusterWatch):
    @property
    def synced(self) -> bool:
        return True


@dataclass
class Service:
    context: ServiceContext
    cluster: Cluster
    watch: ClusterWatch
    url: str


@asynccontextmanager
async def service(nodes: int, pods: int) -> AsyncIterator[Service]:
    """The web application over a generated cluster."""
    api = KubernetesApi(ApiClient.__new__(ApiClient))
    watch = _Watch(api)
    cluster = Cluster(nodes, pods, seed=1)
    for kind, obj in cluster.lists():
        watch.put(kind, json.loads(json.dumps(obj)))
    settings = ControllerSettings(NAMESPACE, {"whole": ReplicaRange(0, 9)}, placeholders=PlaceholderSettings(NAMESPACE))
    controller = ScaleAheadController(api, watch, DecisionLog(), settings)
    shapes = {"whole": shape(WHOLE), "small": shape(WHOLE, cpu="2"), "cpu": shape({}, cpu="1")}
    controller.shapes.put(published_config_map(PublishedShapes(shapes, {}), NAMESPACE, {}))
    web = WebSettings("/", own_token=TOKEN)
    context = ServiceContext(web, DecisionLog(), max_staleness_seconds=60)
    context.follow(watch, controller)
    more = (("stream", open_to_all(EventsHandler)),)
    server = LimitedServer(web_application(context, cookie_secret=b"x" * 32, more=more))
    gc.collect()
    gc.freeze()
    async with serving_tornado(server) as url:
        yield Service(context, cluster, watch, url)


async def ask(url: str, seconds: float, at_once: int) -> list[float]:
    """Seconds of each answer; asked by another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASKER, url, TOKEN, str(seconds), str(at_once), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    found: list[float] = json.loads(out)
    return found


def show(label: str, spent: list[float], seconds: float) -> None:
    print(f"{label}: {len(spent) / seconds:.0f} a second, {times(spent)}")


async def change(found: Service, begun: asyncio.Event, number: int = 100, *, decides: bool = False) -> None:
    """Ten reports of nodes a second, made before; each changes a label if they are to decide."""
    lines = []
    for each in range(number):
        node = found.cluster.node(found.cluster.random.choice(found.cluster.names))
        if decides:
            node["metadata"]["labels"]["example.com/changed"] = str(each)
        lines.append(json.dumps(node))
    while True:
        for line in lines:
            found.watch.put(Kind.NODE, json.loads(line))
            begun.set()
            await asyncio.sleep(1 / _REPORTS_A_SECOND)  # the load itself: it never waits


async def _read_until(answer: aiohttp.ClientResponse, text: str) -> None:
    """Read a stream of events up to the line with this text."""
    async for line in answer.content:
        if text in line.decode():
            return
    raise AssertionError(f"the stream ended before {text}")


async def streams(found: Service, count: int) -> None:
    before = resident_megabytes()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        answers = [await session.get(f"{found.url}/stream") for _ in range(count)]
        for number in range(20):
            found.context.feed.publish("changed", {"resources": ["nodes"], "number": number})
            await asyncio.gather(*(_read_until(each, f'"number":{number}') for each in answers))
        print(f"{count} streams: {resident_megabytes() - before:.0f} MB more, those of their clients here included")
        for each in answers:
            each.close()


async def measure(options: argparse.Namespace) -> None:
    async with service(options.nodes, options.pods) as found:
        print(f"{options.nodes} nodes, {8 * options.nodes} devices, {options.pods} pods, {resident_megabytes():.0f} MB")
        url = f"{found.url}/api/profiles"
        await ask(url, 1, 1)
        show("one after the other", await ask(url, options.seconds, 1), options.seconds)
        show(f"{_AT_ONCE} at once", await ask(url, options.seconds, _AT_ONCE), options.seconds)
        for label, decides in (("while nodes report", False), ("while nodes change", True)):
            begun = asyncio.Event()
            changing = asyncio.create_task(change(found, begun, decides=decides))
            await begun.wait()
            show(label, await ask(url, options.seconds, 1), options.seconds)
            changing.cancel()
            with suppress(asyncio.CancelledError):
                await changing
        await streams(found, options.streams)


def main() -> int:
    asyncio.run(measure(options_parser(__doc__, nodes=5000, pods=10000, streams=200, seconds=5.0).parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Costs of open pages for the hub: spawn forms with fresh availability, and progress pages of pending servers.

Run it with ``python -m tests.bench.open_pages``. The hub, its proxy and the service are processes of their own on the
embedded cluster, as the shipped configuration starts them. 200 users log in and open the form. Each page then asks as its
script does, every three seconds. Meanwhile all nodes are cordoned, and later uncordoned, several times: the
delay of a page is from that moment to the first answer with another label. Then servers are started that must wait, and
each progress page is a stream of events.

Memory is what is resident in the hub's process, processor time that of the hub alone. Where the hub waits for a
processor most of the time, the machine is too busy for the delays to say anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp

from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.bench.figures import options_parser, times
from tests.cluster.background import BackgroundLoop
from tests.integration.devices import classes, node_with, priority_class, shareable
from tests.integration.hub_process import HubProcess
from tests.integration.hub_with_service import CONFIG
from tests.integration.service_process import free_url
from tests.polling import eventually

IMAGE: Final = "this-machine/quick-server:1"
NAMESPACE: Final = "jupyterhub"
_ASK_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.5
_SIZES: Final = tuple(f"{5 * number}Gi" for number in range(1, 9))


def config(profiles: int, kubeconfig: Path, service_url: str) -> str:
    """The hub's: its service, and profiles with eight choices each."""
    choices = {
        size: {
            "display_name": size,
            "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}},
        }
        for size in _SIZES
    }
    profile_list = [
        {
            "display_name": f"Profile {number}",
            "slug": f"profile-{number}",
            "kubespawner_override": {
                "device_claims": {"gpu": {"device_class": "gpu-share.example.com"}},
                "mem_limit": f"{number + 1}G",
            },
            "profile_options": {"memory": {"display_name": "Memory", "choices": choices}},
        }
        for number in range(profiles)
    ]
    environment = {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE}
    return f"""
load_subconfig({str(CONFIG)!r})
c.JupyterHub.services[-1]["url"] = {service_url!r}
c.JupyterHub.services[-1]["environment"] |= {environment!r}
c.JupyterHub.services[-1]["command"] += ["--DRASpawnerService.placeholders={{'profile-0': {{'min': 0, 'max': 1}}}}"]
c.JupyterHub.concurrent_spawn_limit = 0
c.DRASpawner.profile_list = {profile_list!r}
c.DRASpawner.start_timeout = 900
"""


class Use:
    """Processor time of a process, its waits for a processor, and memory, in seconds and MB."""

    def __init__(self, process: int) -> None:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        self.seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.waited = int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
        self.megabytes = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        self.at = time.monotonic()

    def since(self, before: Use) -> str:
        """Changed labels."""
        seconds = self.at - before.at
        load, waits = (self.seconds - before.seconds) / seconds, (self.waited - before.waited) / seconds
        memory = f"{self.megabytes - before.megabytes:+.1f} MB to {self.megabytes:.0f} MB"
        return f"{memory}, {100 * load:.0f} % of a core ({100 * waits:.0f} % of the time it waits for one)"


class OpenForm:
    """An open form of a user of its own."""

    def __init__(self, hub: HubProcess, user: str) -> None:
        self._hub = hub
        self._user = user
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.label = ""
        self.seen: dict[str, float] = {}
        self.latencies: list[float] = []
        self.bytes = 0

    async def log_in(self) -> None:
        """As the page of the hub does."""
        url = f"{self._hub.url}/hub/login"
        async with self.session.get(url) as answer:
            await answer.read()
        xsrf = next(cookie.value for cookie in self.session.cookie_jar if cookie.key == "_xsrf")
        data = {"username": self._user, "password": "any", "_xsrf": xsrf}
        async with self.session.post(url, data=data, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()

    async def open(self) -> float:
        """Open the form; return the seconds."""
        began = time.monotonic()
        async with self.session.get(f"{self._hub.url}/hub/spawn") as answer:
            text = await answer.text()
            assert answer.status == 200, text
            assert "dra-availability" in text
        return time.monotonic() - began

    async def ask(self) -> None:
        """Ask once, as the script does."""
        began = time.monotonic()
        async with self.session.get(f"{self._hub.url}/hub/dra-spawner/availability?user={self._user}") as answer:
            assert answer.status == 200, await answer.text()
            body = await answer.read()
        now = time.monotonic()
        self.latencies.append(now - began)
        self.bytes += len(body)
        # The first choice's label; reading all would cost the clients more than the hub.
        label = body.partition(b'"label": "')[2].partition(b'"')[0].decode()
        if label != self.label:
            self.label = label
            self.seen[label] = now

    async def keep_asking(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(random.uniform(0.0, _ASK_SECONDS))
        while True:
            next_at = time.monotonic() + _ASK_SECONDS
            await self.ask()
            await asyncio.sleep(max(next_at - time.monotonic(), _PAUSE_SECONDS))


async def cordon(api: KubernetesApi, is_cordoned: bool) -> None:
    """Close all nodes, or open them."""
    for node in (await api.list(resource_path("v1", "nodes")))["items"]:
        path = resource_path("v1", "nodes", None, node["metadata"]["name"])
        await api.patch(path, {"spec": {"unschedulable": is_cordoned}})


@contextlib.asynccontextmanager
async def running_hub(directory: Path, nodes: int, profiles: int) -> AsyncIterator[tuple[HubProcess, KubernetesApi]]:
    """The embedded cluster with its nodes, and a hub with the service."""
    with BackgroundLoop("cluster") as background:
        embedded = EmbeddedCluster(directory / "embedded", run_pods=False)
        await background.await_(embedded.start())
        try:
            async with await KubernetesApi.from_kubeconfig(embedded.kubeconfig) as api:
                await api.create(resource_path("v1", "namespaces"), {"metadata": {"name": NAMESPACE}})
                for each in classes():
                    await api.create(resource_path("resource.k8s.io/v1", "deviceclasses"), each)
                await api.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), priority_class())
                for number in range(nodes):
                    node, devices = node_with(
                        f"node-{number}", *(shareable(f"gpu-{index}") for index in range(8)), images=[IMAGE]
                    )
                    await api.create(resource_path("v1", "nodes"), node)
                    await api.create(resource_path("resource.k8s.io/v1", "resourceslices"), devices)
                text = config(profiles, embedded.kubeconfig, free_url())
                async with HubProcess(directory / "hub", embedded.kubeconfig, NAMESPACE, text) as hub:
                    yield hub, api
        finally:
            await background.await_(embedded.stop())


async def forms(hub: HubProcess, api: KubernetesApi, pages: int, changes: int) -> None:
    """Measure open forms."""
    opened = [OpenForm(hub, f"user-{number}") for number in range(pages)]
    async with contextlib.AsyncExitStack() as stack:
        for each in opened:
            await stack.enter_async_context(each.session)
        first = opened[0]
        await first.log_in()
        await first.open()

        async def is_known() -> bool:
            await first.ask()
            return first.label == "free now"

        await eventually(is_known, "the form shows free devices", within_seconds=90, shows=lambda: first.label)
        size, first.bytes = first.bytes // len(first.latencies), 0
        first.latencies.clear()
        before = Use(hub.process.pid)
        for each in opened[1:]:
            await each.log_in()
        logged_in = Use(hub.process.pid)
        print(f"{pages} logins: {logged_in.since(before)}")
        opening = [await each.open() for each in opened]
        are_open = Use(hub.process.pid)
        print(f"{pages} forms, one after the other: {are_open.since(logged_in)}; {times(opening)} each")

        tasks = [asyncio.create_task(each.keep_asking()) for each in opened]
        await asyncio.sleep(2 * _ASK_SECONDS)
        begin = Use(hub.process.pid)
        for each in opened:
            each.latencies.clear()
        delays: list[float] = []
        firsts: list[float] = []
        for change in range(changes):
            is_cordoned = change % 2 == 0
            for each in opened:
                each.seen.clear()
            await cordon(api, is_cordoned)
            changed = time.monotonic()

            await eventually(lambda: all(each.seen for each in opened), "all pages have seen the change", 60)
            seen = [next(iter(each.seen.values())) - changed for each in opened]
            delays += seen
            firsts.append(min(seen))
            # The next change is at any moment of the pages' and the hub's intervals.
            await asyncio.sleep(random.uniform(0.0, _ASK_SECONDS))
        end = Use(hub.process.pid)
        latencies = [latency for each in opened for latency in each.latencies]
        print(f"{pages} open forms: {end.since(begin)}; {end.megabytes - logged_in.megabytes:+.1f} MB since the logins")
        print(
            f"  {len(latencies) / (end.at - begin.at):.0f} answers of {size / 1000:.1f} kB a second, {times(latencies)}"
        )
        print(f"  from a change to an open form, {changes} changes: {times(delays, 's')}")
        print(f"  to the first of them: {times(firsts, 's')}")
        for task in tasks:
            task.cancel()
        failed = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(each, Exception)]
        assert not failed, failed


async def progress(hub: HubProcess, api: KubernetesApi, pages: int, servers: int) -> None:
    """Measure progress pages of servers that wait."""
    await cordon(api, True)
    users = [f"waiting-{number}" for number in range(servers)]
    for user in users:
        await hub.add_user(user)
        status, body = await hub.spawn(user, {"profile": "profile-0"})
        assert status == 202, body
    await asyncio.sleep(10)
    begin = Use(hub.process.pid)
    events = [0] * pages

    async def follow(session: aiohttp.ClientSession, number: int) -> None:
        user = users[number % servers]
        async with session.get(f"{hub.url}/hub/api/users/{user}/server/progress") as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                events[number] += line.startswith(b"data:")

    timeout = aiohttp.ClientTimeout(total=None)
    headers = {"Authorization": f"token {hub.token}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout) as session:
        tasks = [asyncio.create_task(follow(session, number)) for number in range(pages)]
        await eventually(lambda: all(events), "all progress pages show something", within_seconds=60)
        are_open = Use(hub.process.pid)
        await asyncio.sleep(30)
        end = Use(hub.process.pid)
        print(
            f"{pages} progress pages of {servers} servers: opened {are_open.since(begin)}; then {end.since(are_open)}"
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run(pages: int, nodes: int, profiles: int, changes: int, servers: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with running_hub(Path(directory), nodes, profiles) as (hub, api):
            await forms(hub, api, pages, changes)
            await progress(hub, api, pages, servers)


if __name__ == "__main__":
    given = options_parser(__doc__, pages=200, nodes=10, profiles=10, changes=6, servers=20).parse_args()
    asyncio.run(run(given.pages, given.nodes, given.profiles, given.changes, given.servers))

"""A hub's side whose requests to the cluster go through a proxy that can fail them."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web
from jupyterhub.user import User

from dra_spawner.spawner.progress.durations import clean_up_seconds
from tests.cluster.fake_runtime import OneAddress
from tests.cluster.fault_proxy import Fault, FaultProxy, Request
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.local_server import serving
from tests.polling import eventually
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

TEMPLATES = "resourceclaimtemplates"
LEFT_BEHIND = ("pods", "resourceclaims", TEMPLATES)
#: An older pod of ada's server.
OLDER_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "jupyter-ada", "labels": {"component": "singleuser-server"}},
    "spec": {"containers": [{"name": "notebook", "image": "example/notebook:1", "command": ["x"]}]},
}
T = TypeVar("T")
_CHANGES = ("create", "get", "patch", "delete", "update")


@contextlib.asynccontextmanager
async def hub_behind_proxy(
    cluster: ClusterUnderTest, proxy_class: Callable[..., FaultProxy] = FaultProxy, **kubelet_options: Any
) -> AsyncIterator[tuple[FaultProxy, HubSide]]:
    """The proxy, and the hub's side behind it; pods only pretend to run, and all servers answer at once."""
    await cluster.start_kubelet(fake=True, addresses=OneAddress("127.0.0.1"), **kubelet_options)
    async with serving(_answer) as url, proxy_class(cluster.url, cluster.certificate_authority) as proxy:
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        with kubernetes_of(kubeconfig):
            side = HubSide(kubeconfig, cluster.namespace)
            side.spawner_config.port = int(url.rpartition(":")[2])
            try:
                yield proxy, side
            finally:
                proxy.heal()
                await end_hub_side()


async def _answer(_: web.Request) -> web.Response:
    """The answer of every user's server."""
    return web.json_response({}, headers={"X-JupyterHub-Version": "5"})


def without_patience(side: HubSide) -> None:
    """Let servers to come wait for an answer of the cluster for five seconds only: for requests that have none."""
    side.spawner_config.k8s_api_request_timeout = 5
    side.spawner_config.k8s_api_request_retry_timeout = 20


class Faulty:
    """A hub's side whose requests go through a proxy that can fail them."""

    def __init__(self, cluster: ClusterUnderTest, proxy: FaultProxy, side: HubSide) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.side = side
        self._users: dict[str, User] = {}

    async def restart(self) -> None:
        """Be a new hub with the same configuration, which knows no user."""
        await end_hub_side()
        config = self.side.config
        self.side = HubSide(self.side.kubeconfig, self.cluster.namespace)
        self.side.config = config
        self._users.clear()

    def user(self, name: str = "ada", *groups: str) -> User:
        """Return the user of a name: the same object each time, as in a hub."""
        if name not in self._users:
            self._users[name] = self.side.user(name, *groups)
        return self._users[name]

    async def spawn(self, user: str = "ada", server: str = "", **options: Any) -> BaseException | None:
        """Start as JupyterHub does; the error if it failed."""
        try:
            await self.user(user).spawn(server, options)
        except Exception as error:
            return error
        return None

    async def stop(self, user: str = "ada", server: str = "") -> None:
        await self.user(user).stop(server)

    async def stop_last(self) -> None:
        """Stop ada's server, of which nothing stays, nor of any other."""
        await self.stop()
        await self.nothing_is_left()

    async def start_and_stop(self, user: str = "ada", **options: Any) -> None:
        """Start a server that runs, or fails with a sentence for the user; stop it."""
        error = await self.spawn(user, **options)
        if error is None:
            await self.stop(user)
        else:
            assert getattr(error, "jupyterhub_message", ""), f"no sentence for the user: {error!r}"

    async def give_up(self, user: str = "ada", text: str = "", *, when: Callable[[], Any] = lambda: True) -> Any:
        """Start a server that waits, and let its time be over as soon as it does; the error.

        Parameters
        ----------
        text
            A part of a message that the user reads first.
        when
            A further condition.
        """
        loop = asyncio.get_running_loop()
        spawner = self.user(user).spawner
        ends = loop.time() + spawner.start_timeout
        starting = asyncio.create_task(self.spawn(user))
        await self.cluster.wait_event(f"jupyter-{user}", "FailedScheduling")
        await eventually(
            lambda: starting.done() or (when() and any(text in each for each in self.messages(user))),
            f"{user} reads {text!r}",
            shows=lambda: self.messages(user),
        )
        # The last part of the time is for the clean-up.
        advance_clock(ends - clean_up_seconds(spawner.start_timeout) - loop.time())
        await eventually(starting.done, f"the start of {user} ends", shows=_awaited)
        return starting.result()

    def messages(self, user: str = "ada") -> list[str]:
        """The messages on the progress page."""
        return [event["message"] for event in self.user(user).spawner.events]

    async def items(self, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.cluster.admin.list(self.cluster.path(plural)))["items"]
        return found

    async def pod(self, user: str = "ada") -> dict[str, Any]:
        return await self.cluster.admin.get(self.cluster.path("pods", f"jupyter-{user}"))

    async def nothing_is_left(self, *more: str) -> None:
        """Wait until no object of a start is left, nor one of a further kind."""
        left: list[str] = []

        async def is_gone() -> bool:
            left[:] = [
                f"{plural} {each['metadata']['name']}"
                for plural in (*LEFT_BEHIND, *more)
                for each in await self.items(plural)
                if each["metadata"]["name"] != "kube-root-ca.crt"
            ]
            return not left

        await eventually(is_gone, "nothing is left", shows=lambda: left)

    def requests(self, *, verbs: tuple[str, ...] = _CHANGES) -> list[str]:
        """Requests of the hub, in order, that change an object or read a single one."""
        return [f"{r.verb} {r.resource}" for r in self.proxy.requests if r.verb in verbs]

    def is_about(self, user: str, request: Request) -> bool:
        """Whether a request is about an object of a user."""
        return user in request.name

    def fail_for(self, user: str, fault: Fault, verb: str, resource: str, **which: Any) -> list[Request]:
        """Fail requests about a user's objects; the requests that match, as they come."""
        met: list[Request] = []

        def is_of_user(request: Request) -> bool:
            found = self.is_about(user, request)
            met.extend([request] * found)
            return found

        self.proxy.fail(fault, verb=verb, resource=resource, matching=is_of_user, **which)
        return met


async def with_a_user_each(
    rows: Mapping[str, tuple[Any, ...]], run: Callable[..., Awaitable[None]], at_once: int = 100
) -> None:
    """Run the rows of a table, some at once, each with the name of a user of its own; fail with all problems."""
    limit = asyncio.Semaphore(at_once)

    async def problem(user: str, row: str) -> str:
        try:
            async with limit:
                await run(user, *rows[row])
        except Exception as error:
            return f"{row} ({user}): {error!r}"
        return ""

    found = await asyncio.gather(*(problem(f"user-{number:02}", row) for number, row in enumerate(rows)))
    assert not any(found), "\n".join(filter(None, found))


def faults_at(faults: Mapping[str, Fault], requests: list[tuple[str, str]]) -> dict[str, tuple[Fault, str, str]]:
    """A table of each fault at each request, by verb and resource."""
    return {
        f"{name} at {verb} {resource}": (fault, verb, resource)
        for verb, resource in requests
        for name, fault in faults.items()
    }


def _awaited() -> str:
    """What each task of the event loop waits for."""
    found = io.StringIO()
    for task in asyncio.all_tasks():
        print(task.get_name(), file=found)
        awaited: Any = task.get_coro()
        while awaited is not None:
            print("   ", awaited, file=found)
            awaited = getattr(awaited, "cr_await", None)
    return found.getvalue()


def advance_clock(seconds: float) -> None:
    """Set the event loop's time ahead: what waits for so long goes on at once."""
    loop = asyncio.get_running_loop()
    time = loop.time
    setattr(loop, "time", lambda: time() + seconds)  # noqa: B010 - a method, for mypy


async def hurried(work: Awaitable[T]) -> T:
    """Do work while the event loop's time passes more quickly: for work that waits between its tries."""
    task = asyncio.ensure_future(work)

    def is_done() -> bool:
        advance_clock(0.2)
        return task.done()

    await eventually(is_done, "the work is done", pause_seconds=0.05)
    return task.result()


@contextlib.asynccontextmanager
async def faulty_on(cluster: ClusterUnderTest, gpus: int = 1, **kubelet_options: Any) -> AsyncIterator[Faulty]:
    """A hub's side on a cluster with one node and shareable GPUs."""
    async with hub_behind_proxy(cluster, **kubelet_options) as (proxy, side):
        await cluster.publish(*classes(), *node_with("node-a", *(shareable(f"gpu-{each}") for each in range(gpus))))
        config = side.spawner_config
        config.start_timeout = 90
        config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
        yield Faulty(cluster, proxy, side)

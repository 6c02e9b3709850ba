"""A real JupyterHub, as an administrator without Helm configures it, against a test cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.fork_server import ForkedProcess, fork_program
from tests.polling import PATIENCE_SECONDS, eventually
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
#: The file that administrators copy.
SHIPPED_CONFIG = ROOT / "jupyterhub_config.d" / "10-dra-spawner.py"
#: A server that answers as a notebook server does, and starts at once.
QUICK_SERVER = Path(__file__).with_name("quick_server.py")

#: A file of the hub, see `HubProcess.let_forms_wait`.
_FORMS_WAIT = "forms-wait"
_PROXY = "dra_spawner.devcluster.demo.streaming_proxy"
_LOOK_SECONDS = 0.1
#: More than a start may take.
_SERVER_SECONDS = 200.0


class HubProcess:
    """One JupyterHub process with its own database, ports and proxy.

    The proxy is no child of the hub, as in zero-to-jupyterhub: a hub that starts one itself ends if that takes longer than
    ten seconds.

    Parameters
    ----------
    directory
        Of its own; a hub started again there goes on with the same users.
    kubeconfig
        Of the account it uses.
    namespace
        Where servers are started.
    more_config
        Python text that follows the shipped configuration file.
    address
        Where the hub itself listens; servers must reach it.
    """

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        namespace: str,
        more_config: str = "",
        *,
        address: str = "127.0.0.1",
    ) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig
        self.token = secrets.token_hex(16)
        self.log = directory / "hub.log"
        self._address = address
        self._ports = {name: free_port() for name in ("public", "hub", "proxy")}
        self._process: ForkedProcess | None = None
        self._proxy: ForkedProcess | None = None
        self._session: aiohttp.ClientSession | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "jupyterhub_config.py"
        self._config.write_text(self._config_text(namespace) + more_config)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['public']}"

    @property
    def api_url(self) -> str:
        """Where the hub itself listens, without its proxy and its base URL."""
        return f"http://{self._address}:{self._ports['hub']}"

    @property
    def session(self) -> aiohttp.ClientSession:
        """As the service that may do everything; while the hub runs."""
        assert self._session is not None
        return self._session

    @property
    def process(self) -> ForkedProcess:
        """The hub's; from its start on."""
        assert self._process is not None
        return self._process

    def _config_text(self, namespace: str) -> str:
        return f"""
from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "connect")
def never_wait_for_the_disk(connection, _):
    # A hub does nothing else while it waits, which takes seconds on a busy machine.
    connection.execute("PRAGMA synchronous = OFF")


import asyncio
import os
import types
import jupyterhub.handlers.pages


def wait(tasks, timeout):
    return asyncio.wait(tasks, timeout=600 if os.path.exists({_FORMS_WAIT!r}) else timeout)


jupyterhub.handlers.pages.asyncio = types.SimpleNamespace(**{{**vars(asyncio), "wait": wait}})


c = get_config()
load_subconfig({str(SHIPPED_CONFIG)!r})
c.JupyterHub.bind_url = {self.url!r}
c.JupyterHub.hub_bind_url = {self.api_url!r}
c.JupyterHub.hub_connect_url = c.JupyterHub.hub_bind_url
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret = {self.token + self.token!r}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.allow_named_servers = True
c.JupyterHub.services = [{{"name": "test", "api_token": {self.token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "access:servers", "read:hub"]}}
]
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{self._ports["proxy"]}"
c.ConfigurableHTTPProxy.auth_token = {self.token!r}
c.DRASpawner.namespace = {namespace!r}
c.DRASpawner.image = "this-machine/quick-server:1"
c.DRASpawner.cmd = [{sys.executable!r}, {str(QUICK_SERVER)!r}]
# This machine may be busy with other things.
c.DRASpawner.start_timeout = 180
c.DRASpawner.k8s_api_request_timeout = 20
c.DRASpawner.http_timeout = 120
c.JupyterHub.cleanup_servers = False
"""

    def let_forms_wait(self, wait: bool = True) -> None:
        """Let the spawn form wait for the end of a start, and so say why it has failed.

        JupyterHub's form waits for one second, which a busy machine may need for any start.
        """
        file = self.directory / _FORMS_WAIT
        file.touch() if wait else file.unlink(missing_ok=True)

    async def start(self, wait: bool = True) -> None:
        self._session = aiohttp.ClientSession(headers={"Authorization": f"token {self.token}"})
        # Not in another thread: the server of forks would end with it.
        self._proxy = self._fork(_PROXY, self._proxy_arguments(), {"CONFIGPROXY_AUTH_TOKEN": self.token})
        self._process = self._fork("jupyterhub", ["--config", str(self._config)], {"KUBECONFIG": str(self.kubeconfig)})
        if wait:
            await eventually(self.answers, "the hub answers", pause_seconds=_LOOK_SECONDS)

    def _fork(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> ForkedProcess:
        return fork_program(
            module,
            arguments,
            directory=self.directory,
            log=self.log,
            environment={**os.environ, **environment},
            new_session=True,
        )

    def _proxy_arguments(self) -> list[str]:
        addresses = {
            "--ip": "127.0.0.1",
            "--port": str(self._ports["public"]),
            "--api-ip": "127.0.0.1",
            "--api-port": str(self._ports["proxy"]),
            "--error-target": f"{self.api_url}/hub/error",
        }
        return [part for option in addresses.items() for part in option]

    async def answers(self) -> bool:
        """Whether its API answers; fails if the process has ended."""
        if self.process.poll() is not None:
            raise AssertionError(f"the hub ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        try:
            # The hub before its proxy, which would look for the page of an error for each question before the hub listens.
            async with self.session.get(f"{self.api_url}/"):
                pass
            async with self.session.get(f"{self.url}/hub/api/") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def exit_code(self, within_seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for the hub to end by itself."""
        return await asyncio.to_thread(self.process.wait, within_seconds)

    async def kill(self) -> None:
        """End it at once, as a lost node does; and its proxy and services."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it in order."""
        await self._end(signal.SIGTERM)

    async def lose(self) -> None:
        """End the hub alone at once; its proxy goes on, and answers 503."""
        self.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait, PATIENCE_SECONDS)

    async def come_back(self) -> None:
        """Start a hub that was lost, beside its proxy."""
        self._process = self._fork("jupyterhub", ["--config", str(self._config)], {"KUBECONFIG": str(self.kubeconfig)})
        await eventually(self.answers, "the hub answers again", pause_seconds=_LOOK_SECONDS)

    async def _end(self, number: int) -> None:
        if self._session:
            await self._session.close()
        if self._process is None:
            return
        if self._process.poll() is None:
            children = _children_of(self._process.pid)
            self._process.send_signal(number)
            await asyncio.to_thread(self._process.wait, PATIENCE_SECONDS)
            # Each is in a session of its own, and a hub that is killed or still starts does not end them.
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
                os.close(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._proxy is not None:
            self._proxy.kill()
            await asyncio.to_thread(self._proxy.wait, PATIENCE_SECONDS)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # The REST API

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and decoded body of a request to the hub's API."""
        async with self.session.request(method, f"{self.url}/hub/api{path}", json=body) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def add_user(self, name: str) -> None:
        status, body = await self.request("POST", f"/users/{name}")
        assert status in (201, 409), body

    async def refusal(self, user: str, options: Any = None, server: str = "") -> tuple[int, Any]:
        """Ask for a server that is refused; a hub that is slow says after ten seconds only that it is on its way."""

        async def answer() -> tuple[int, Any] | None:
            status, body = await self.spawn(user, options, server)
            return (status, body) if status >= 400 else None

        return await eventually(answer, "the hub refuses the start")

    async def spawn(self, user: str, options: Any = None, server: str = "") -> tuple[int, Any]:
        """Ask for a server; 201 it runs, 202 it is on its way, else refused."""
        await self.add_user(user)
        return await self.request("POST", _server_path(user, server), options)

    async def until_ready(
        self, user: str, server: str = "", within_seconds: float = _SERVER_SECONDS
    ) -> list[dict[str, Any]]:
        """Follow the progress page's events to the end; the server must be ready then."""
        events = await self.progress(user, server, within_seconds=within_seconds)
        assert events[-1].get("ready"), f"{events}\n{self.log.read_text()[-3000:]}"
        return events

    async def progress(
        self,
        user: str,
        server: str = "",
        until: Callable[[dict[str, Any]], bool] = lambda event: False,
        within_seconds: float = PATIENCE_SECONDS,
    ) -> list[dict[str, Any]]:
        """Events of the progress page, up to the last one or to the first for which ``until`` holds."""
        events: list[dict[str, Any]] = []

        async def follow() -> None:
            async for event in self._progress_events(user, server):
                events.append(event)
                if until(event):
                    return

        try:
            await asyncio.wait_for(follow(), within_seconds)
        except TimeoutError:
            raise AssertionError(f"no end within {within_seconds} s: {events}") from None
        return events

    async def _progress_events(self, user: str, server: str) -> AsyncIterator[dict[str, Any]]:
        async with self.session.get(f"{self.url}/hub/api{_server_path(user, server)}/progress") as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])

    async def stop_server(self, user: str, server: str = "") -> None:
        status, body = await self.request("DELETE", _server_path(user, server))
        assert status in (202, 204), body

        async def gone() -> bool:
            _, model = await self.request("GET", f"/users/{user}")
            return server not in model["servers"]

        await eventually(gone, f"server {server!r} of {user} is stopped")

    async def server_environment(self, user: str, server: str = "") -> dict[str, str]:
        """The environment of the running server."""
        path = f"/user/{user}/{server}/environment" if server else f"/user/{user}/environment"
        async with self.session.get(self.url + path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()


def _server_path(user: str, server: str) -> str:
    return f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"


def _children_of(process: int) -> list[int]:
    """Descriptors, which never come to mean another process."""
    children = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            children.append(os.pidfd_open(int(child)))
    return children


async def let_starts_end(cluster: ClusterUnderTest) -> None:
    """Mark the starts of all objects as over. A hub that is away for longer than a start finds the same."""
    for plural in ("resourceclaims", "resourceclaimtemplates"):
        for each in (await cluster.admin.list(cluster.path(plural)))["items"]:
            metadata = each["metadata"]
            annotations = {
                name: metadata["creationTimestamp"]
                for name in metadata.get("annotations", {})
                if name == names.START_ENDS or name.startswith(names.START_PREFIX)
            }
            try:
                path = cluster.path(plural, metadata["name"])
                await cluster.admin.patch(path, {"metadata": {"annotations": annotations}})
            except KubernetesError as error:
                if not error.not_found:  # else Kubernetes has just removed it
                    raise

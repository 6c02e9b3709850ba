"""``dra-spawner demo``: a cluster, a hub and five profiles, on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import json
import os
import random
import secrets
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import NODES, PODS
from dra_spawner.devcluster.demo import server_users
from dra_spawner.devcluster.demo.example_nodes import DRIVERS_PREPARE_FOR, example_objects
from dra_spawner.devcluster.demo.profiles import profiles_for_classes
from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.profiles.drivers import drivers_prepare_for

_LOOPBACK = "127.0.0.1"
_ADMIN = "admin"
#: Systems give higher ports to outgoing connections (Linux from 32768), which could take one before the hub listens.
#: Of lower ones browsers refuse some: 10080 is the last (WHATWG Fetch, "bad port").
_FREE_PORTS = range(10_081, 32_768)
_HEALTH_PATH = "/hub/health"
#: JupyterHub logs the first if it ends because of its proxy, and the second if the proxy has ended by itself.
_NO_PROXY, _PROXY_ENDED = "Failed to start proxy", "Proxy failed to start with exit code"
_HUB_START_SECONDS = 300
_HUB_STOP_SECONDS = 30
#: Placeholders on the embedded cluster: profile and number.
_PLACEHOLDERS = ("gpu-slice", 2)
_WARM_WAIT_SECONDS = 15
#: Name of the servers' image on the embedded cluster, whose pods are processes of this machine.
_IMAGE = "this-machine/jupyterlab:installed"
_PROXY = "dra_spawner.devcluster.demo.streaming_proxy"
_SERVICE = "dra_spawner.devcluster.demo.service_process"


class DemoError(Exception):
    """Raised if the demo cannot run; the message is a sentence."""


class DemoStoppedError(Exception):
    """Raised if the demo is stopped before it is ready."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line.

    Attributes
    ----------
    port
        Port of JupyterHub; 0 for any free port.
    kubeconfig
        Kubeconfig of an existing cluster, instead of the embedded cluster.
    image
        Image of servers on an existing cluster; empty for KubeSpawner's default. Not used on the embedded cluster.
    open_browser
        Whether to open the address.
    debug
        Whether to show JupyterHub's log, instead of writing it to a file.
    """

    port: int = 8000
    kubeconfig: Path | None = None
    namespace: str = "default"
    image: str = ""
    open_browser: bool = True
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A running demo: addresses and credentials."""

    address: str
    admin: str
    password: str
    api_token: str
    kubeconfig: Path
    log_file: Path | None
    has_placeholders: bool = False
    about_servers: str = ""


async def run_demo(options: DemoOptions, say: Callable[[str], None]) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP; then stop every process of the demo, and no other.

    Raises
    ------
    DemoError
        If a requirement is missing, or a part does not start or ends by itself.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # With nohup, the demo must outlive the terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    with contextlib.suppress(DemoStoppedError):
        async with demo(options, say, stop) as running:
            say(welcome(running))
            if options.open_browser:
                # Some browsers block their caller until they are closed, so the demo does not wait.
                threading.Thread(target=webbrowser.open, args=(running.address,), daemon=True).start()
            await stop.wait()
            say("Stopping …")
    say("Stopped.")


@contextlib.asynccontextmanager
async def demo(options: DemoOptions, say: Callable[[str], None], stop: asyncio.Event) -> AsyncIterator[Running]:
    """Start or connect to a cluster, and start a hub; stop both at the end.

    Parameters
    ----------
    stop
        Event that ends the demo. It is also set if the hub ends by itself.

    Raises
    ------
    DemoError
        If a requirement is missing or a part does not start; at the end, if the hub ended by itself.
    DemoStoppedError
        If `stop` was set before the hub was ready.
    """
    _require_extras()
    if options.kubeconfig and not options.kubeconfig.is_file():
        raise DemoError(f"There is no kubeconfig file {options.kubeconfig}.")
    port = _port_to_listen_on(options.port) if options.port else _free_ports(1)[0]
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-spawner-demo-")))
        kubeconfig = options.kubeconfig
        cluster: EmbeddedCluster | None = None
        why_same_user = ""
        if kubeconfig is None:
            cluster, why_same_user = await _start_cluster(stack, directory, say)
            kubeconfig = cluster.kubeconfig
        profiles, hub_address = await _inspect_cluster(kubeconfig)
        settings = hub_settings(options, directory, port) | {"profiles": profiles, "hub_address": hub_address}
        settings["own_users"] = cluster is not None and not why_same_user
        if stop.is_set():
            raise DemoStoppedError
        say("Starting JupyterHub …")
        log_file = None if options.debug else directory / "hub.log"
        stack.callback(_end_left_over, directory / "proxy.pid", _PROXY)
        stack.callback(_end_left_over, directory / "service.pid", _SERVICE)
        address = f"http://{_LOOPBACK}:{port}"
        # The hub before its proxy, which would look for the page of an error for each question before the hub listens.
        health = [f"http://{hub_address}:{settings['hub_port']}{_HEALTH_PATH}", address + _HEALTH_PATH]
        start = functools.partial(_start_hub, settings, directory, kubeconfig, log_file)
        hub = await _hub_that_answers(stack, start, health, log_file, stop)
        watch = asyncio.create_task(_end_with(hub, stop, log_file))
        stack.callback(watch.cancel)
        if cluster is not None:
            await _until_warm(cluster, stop, say)
        yield Running(
            address,
            _ADMIN,
            settings["password"],
            settings["api_token"],
            kubeconfig,
            log_file,
            has_placeholders=cluster is not None,
            about_servers=server_users.about_servers(why_same_user) if cluster is not None else "",
        )
        if watch.done():
            watch.result()


async def _start_cluster(
    stack: contextlib.AsyncExitStack, directory: Path, say: Callable[[str], None]
) -> tuple[EmbeddedCluster, str]:
    """The embedded cluster, and why its servers run as this user; empty if they run as other users."""
    say("Starting the embedded cluster: nodes with GPUs to share, to cut and to take whole, and network cards …")
    # Not below the hub's own directory, which other users cannot enter.
    servers = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-spawner-servers-")))
    why_same_user = await asyncio.to_thread(server_users.why_same_user, servers)
    prepared = {**drivers_prepare_for(), **DRIVERS_PREPARE_FOR}
    options = {"directory": servers, "drivers_prepare_for": prepared}
    cluster = EmbeddedCluster(directory / "cluster", kubelet_options=options)
    await cluster.start()
    stack.push_async_callback(cluster.stop)
    cluster.publish(_objects_to_publish())
    return cluster, why_same_user


def hub_settings(options: DemoOptions, directory: Path, port: int) -> dict[str, Any]:
    """Settings for `hub_config`, with new secrets and free ports."""
    embedded = options.kubeconfig is None
    hub_port, proxy_api_port, service_port = _free_ports(3, other_than=port)
    return {
        "directory": str(directory),
        "namespace": options.namespace,
        "image": _IMAGE if embedded else options.image,
        "own_processes": embedded,
        "public_address": _LOOPBACK,
        "port": port,
        "hub_port": hub_port,
        "proxy_api_port": proxy_api_port,
        "service_port": service_port,
        # The administrator of an existing cluster decides about placeholders.
        "placeholders": {_PLACEHOLDERS[0]: {"min": _PLACEHOLDERS[1], "max": 2 * _PLACEHOLDERS[1]}} if embedded else {},
        "placeholder_priority_class": names.PRIORITY_CLASS,
        "named_servers": True,
        "admin": _ADMIN,
        "password": secrets.token_urlsafe(6),
        "api_token": secrets.token_hex(16),
    }


def welcome(running: Running) -> str:
    """The text that the demo prints when it is ready: addresses, credentials and first steps."""
    has_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    bold, plain = ("\033[1m", "\033[0m") if has_colours else ("", "")
    log = f"\n  JupyterHub's log   {running.log_file}" if running.log_file else ""
    return f"""
  Open               {bold}{running.address}{plain}
  User, password     {bold}{running.admin}{plain} (or any other name), {bold}{running.password}{plain}
  API token          {running.api_token}
  kubeconfig         {running.kubeconfig}{log}

  Pick a profile, for example "GPU slice". In the notebook, the variables DRA_* tell which device it got.
{_page_hint(running)}  Or start a server without a browser:

    curl -X POST -H "Authorization: token {running.api_token}" -d '{{"profile": "gpu-slice"}}' \\
      {running.address}/hub/api/users/{running.admin}/server

{running.about_servers}  Ctrl-C stops everything."""


def _page_hint(running: Running) -> str:
    if not running.has_placeholders:
        return ""
    return f"""  Services > dra-spawner shows who uses which device, and the placeholders:
  {running.address}/services/dra-spawner/
  There the user "teacher" announces classes, and all others ask for them.
"""


def _require_extras() -> None:
    missing = [name for name in ("configurable_http_proxy", "jupyterlab") if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoError(f"The demo needs {' and '.join(missing)}. Install them with: pip install 'dra-spawner[demo]'")


def _port_to_listen_on(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, wanted))
        except OSError as error:
            raise DemoError(
                f"Port {wanted} cannot be used ({error.strerror}). Choose another, or any free one: --port 0"
            ) from error
        return int(probe.getsockname()[1])


def _free_ports(number: int, other_than: int = 0) -> list[int]:
    """Different ports that nothing listens at."""
    found: list[int] = []
    for port in random.sample(_FREE_PORTS, len(_FREE_PORTS)):
        if port != other_than:
            with contextlib.suppress(DemoError):
                found.append(_port_to_listen_on(port))
        if len(found) == number:
            return found
    raise DemoError(f"The demo needs {number} free ports, and nearly all are in use. End other programs and try again.")


async def _inspect_cluster(kubeconfig: Path) -> tuple[list[dict[str, object]], str]:
    """Profiles for a cluster's device classes, and this machine's address for its pods."""
    try:
        async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
            classes = await api.list(resource_path(names.RESOURCE_API, "deviceclasses"))
            host = urlsplit(api.server)
    except KubernetesError as error:
        hint = " Device claims need Kubernetes 1.34 or later." if error.status == 404 else ""
        raise DemoError(f"The cluster of {kubeconfig} cannot be used: {error}.{hint}") from error
    except Exception as error:  # the client raises many kinds for a malformed file
        raise DemoError(f"{kubeconfig} is no usable kubeconfig: {error}") from error
    profiles = profiles_for_classes(item["metadata"]["name"] for item in classes["items"])
    # No packet is sent: connecting a datagram socket only chooses the route.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host.hostname or _LOOPBACK, host.port or 443))
        return profiles, probe.getsockname()[0]


async def _start_hub(
    settings: dict[str, Any], directory: Path, kubeconfig: Path, log_file: Path | None
) -> asyncio.subprocess.Process:
    config = Path(__file__).with_name("hub_config.py")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "DRA_SPAWNER_DEMO": json.dumps(settings)}
    with contextlib.ExitStack() as files:
        log = files.enter_context(log_file.open("wb")) if log_file else None
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "jupyterhub", "--config", str(config)),
            cwd=directory,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Only the demo handles Ctrl-C; it stops the hub before the cluster.
            start_new_session=True,
        )


async def _hub_that_answers(
    stack: contextlib.AsyncExitStack,
    start: Callable[[], Awaitable[asyncio.subprocess.Process]],
    health: Sequence[str],
    log_file: Path | None,
    stop: asyncio.Event,
) -> asyncio.subprocess.Process:
    """Start the hub, and wait until it answers; `stack` stops it.

    JupyterHub ends if its proxy does not listen after ten seconds, as may happen on a busy machine; then both are
    started again.
    """
    end = asyncio.get_running_loop().time() + _HUB_START_SECONDS
    while True:
        hub = await start()
        async with contextlib.AsyncExitStack() as hub_stack:
            hub_stack.push_async_callback(_stop_process, hub)
            is_ready = await _is_ready(hub, health, stop, end)
            if stop.is_set():
                raise DemoStoppedError
            if is_ready:
                stack.push_async_exit(hub_stack.pop_all())
                return hub
            if hub.returncode is None:
                raise DemoError(f"JupyterHub did not answer within {_HUB_START_SECONDS} seconds.{_tail(log_file)}")
            if not _was_its_proxy_late(log_file):
                raise DemoError(f"JupyterHub ended with exit code {hub.returncode}.{_tail(log_file)}")


async def _is_ready(hub: asyncio.subprocess.Process, health: Sequence[str], stop: asyncio.Event, end: float) -> bool:
    """Wait until all addresses answer, one after the other; False if the hub, the demo or the time ends before."""
    waiting = list(health)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while asyncio.get_running_loop().time() < end and hub.returncode is None and not stop.is_set():
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(waiting[0]) as response:
                    if response.status == 200:
                        del waiting[0]
            if not waiting:
                return True
            await asyncio.sleep(0.2)
    return False


def _was_its_proxy_late(log_file: Path | None) -> bool:
    text = log_file.read_text(errors="replace") if log_file is not None else ""
    return _NO_PROXY in text and _PROXY_ENDED not in text


def _objects_to_publish() -> list[dict[str, Any]]:
    """The objects of the example; every node has the servers' image."""
    priority = {
        "apiVersion": names.SCHEDULING_API,
        "kind": "PriorityClass",
        "metadata": {"name": names.PRIORITY_CLASS},
        "value": -10,
    }
    objects = example_objects()
    for node in (each for each in objects if each["kind"] == "Node"):
        node["status"]["images"] = [{"names": [_IMAGE], "sizeBytes": 1}]
    return [priority, *objects]


async def _until_warm(cluster: EmbeddedCluster, stop: asyncio.Event, say: Callable[[str], None]) -> None:
    """Wait a limited time for warm placeholders, so that the first server gets a warm claim."""
    profile, number = _PLACEHOLDERS
    end = asyncio.get_running_loop().time() + _WARM_WAIT_SECONDS
    while asyncio.get_running_loop().time() < end and not stop.is_set():
        ready = {
            node["metadata"]["name"]
            for node in cluster.store.objects(NODES)
            if names.IMAGES_READY in node["metadata"].get("labels", {})
        }
        warm = [
            pod
            for pod in cluster.store.objects(PODS)
            if pod["metadata"].get("labels", {}).get(names.COMPONENT) == names.PLACEHOLDER
            and pod["spec"].get("nodeName") in ready
        ]
        if len(warm) >= number:
            say(
                f'{number} placeholders of profile "{profile}" are warm: '
                "a server gets the device of one, and a new placeholder starts."
            )
            return
        await asyncio.sleep(0.05)


async def _end_with(hub: asyncio.subprocess.Process, stop: asyncio.Event, log_file: Path | None) -> None:
    code = await hub.wait()
    if not stop.is_set():
        stop.set()
        raise DemoError(f"JupyterHub ended by itself with exit code {code}.{_tail(log_file)}")


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM, so that the hub stops its servers and its proxy; after a time limit, kill its process group."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _HUB_STOP_SECONDS)
    # The group has only the hub (start_new_session). The hub starts its proxy and its service in other sessions;
    # _end_left_over ends these.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _end_left_over(pid_file: Path, module: str) -> None:
    """End a process that a killed hub has left behind; a process that ends normally removes its pid file."""
    try:
        pid = int(pid_file.read_text().split()[0])
        command_line = Path(f"/proc/{pid}/cmdline")
        # Another process may have this number now; without /proc this cannot be checked.
        if Path("/proc/self/cmdline").exists() and module.encode() not in command_line.read_bytes():
            return
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError, IndexError):
        return  # the file does not exist or is empty, or the process has ended


def _tail(log_file: Path | None, lines: int = 15) -> str:
    if log_file is None or not log_file.is_file():
        return ""
    text = log_file.read_text(errors="replace").splitlines()
    return "\nThe end of its log:\n  " + "\n  ".join(text[-lines:])

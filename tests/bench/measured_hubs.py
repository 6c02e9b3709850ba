"""Hubs on which `tests.bench.first_cell` measures: the demo's, and one whose servers are containers of a real node."""

from __future__ import annotations

import compileall
import json
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from dra_spawner import names
from dra_spawner.devcluster.demo.profiles import EXAMPLE_PROFILES
from tests.bench.figures import Progress
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on
from tests.cluster.harness_binary import control_plane_binary
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import priority_class
from tests.integration.hub_process import SHIPPED_CONFIG, HubProcess
from tests.integration.hub_with_service import CONFIG
from tests.integration.service_process import free_url
from tests.node.devices import device_classes
from tests.node.images import NOTEBOOK, PAUSE, QUICK_SERVER, notebook_volumes
from tests.node.machine import examine
from tests.node.node_binaries import node_binaries
from tests.node.real_node import RealNode

__all__ = ["LONGEST_SECONDS", "MeasuredHub", "Servers", "demo", "real_node"]

Servers = Literal["jupyterlab", "launcher", "quick", "kubespawner"]

LONGEST_SECONDS: Final = 600.0
_LOG_CHARACTERS: Final = 3000
_ROOT: Final = Path(__file__).parents[2]
_NOTEBOOK_SERVER: Final = "dra_spawner.devcluster.demo.user_server"
_DEVICES: Final = """
load_subconfig({service_config_file!r})
c.JupyterHub.services[-1]["url"] = {service_url!r}
c.JupyterHub.services[-1]["command"] += ["--config", {settings!r}]
c.JupyterHub.services[-1]["environment"] |= {{"KUBECONFIG": {kubeconfig!r}, "POD_NAMESPACE": {namespace!r}}}
c.DRASpawner.profile_list = {profiles!r}
"""
_CONFIG: Final = """
c.JupyterHub.load_roles[0]["scopes"] += ["list:users", "read:metrics"]
c.DRASpawner.image_pull_policy = "IfNotPresent"
c.DRASpawner.delete_grace_period = 1
c.DRASpawner.cpu_guarantee = 0.02
c.DRASpawner.mem_guarantee = "64M"
"""
_QUICK: Final = f"""
c.DRASpawner.image = {QUICK_SERVER!r}
c.DRASpawner.cmd = ["/quick-server"]
"""
_PLAIN: Final = """
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.KubeSpawner.update(c.DRASpawner)
c.KubeSpawner.profile_list = [{"display_name": "No device", "slug": "cpu"}]
"""
_NOTEBOOK: Final = """
c.DRASpawner.image = {image!r}
c.DRASpawner.cmd = [{python!r}, "-m", {module!r}]
c.DRASpawner.uid = 1000
c.DRASpawner.volumes = {volumes!r}
c.DRASpawner.volume_mounts = {mounts!r}
c.DRASpawner.working_dir = "/home/jovyan"
c.DRASpawner.environment = {{"HOME": "/home/jovyan", "DRA_SPAWNER_FIRST_KERNEL": {first_kernel!r}}}
c.DRASpawner.default_url = {default_url!r}
"""
_SERVICE: Final = f"""
c.DRASpawnerService.placeholders = {{"gpu-slice": {{"min": 2, "max": 4}}}}
c.DRASpawnerService.placeholder_image = {PAUSE!r}
"""


@dataclass
class MeasuredHub:
    """A hub at work.

    Attributes
    ----------
    address
        Of the hub's proxy.
    user, password
        Of the user whose browser is measured.
    token
        For the hub's API and the service's metrics.
    cluster, cluster_token, authority
        The address of the cluster's API, an administrator's token, and the certificate's authority if it has one.
    namespace
        Where servers are.
    server
        A word of the command line of the users' servers.
    has_devices
        Whether servers can have devices, and placeholders and the service are there.
    """

    address: str
    user: str
    password: str
    token: str
    cluster: str
    cluster_token: str
    namespace: str
    server: str
    authority: Path | None = None
    has_devices: bool = True

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the hub's API."""
        data = None if body is None else json.dumps(body).encode()
        return self._ask(urllib.request.Request(f"{self.address}/hub/api{path}", data, method=method))

    def until_ready(self, user: str) -> None:
        """Follow the progress of a user's start to its end."""
        request = urllib.request.Request(f"{self.address}/hub/api/users/{user}/server/progress")
        events = [line for line in self._ask(request).splitlines() if line.startswith("data:")]
        assert json.loads(events[-1][5:]).get("ready"), events

    def service(self, path: str) -> str:
        """The answer of the service."""
        return str(self._ask(urllib.request.Request(f"{self.address}/services/dra-spawner/{path}")))

    def _ask(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=LONGEST_SECONDS) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def pods(self, query: str = "") -> Any:
        """The cluster's answer about the pods of servers and placeholders, to be read."""
        return self._read("pods", query)

    def _read(self, plural: str, query: str) -> Any:
        url = f"{self.cluster}/api/v1/namespaces/{self.namespace}/{plural}{query}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.cluster_token}"})
        trusts = ssl.create_default_context(cafile=str(self.authority)) if self.authority else None
        return urllib.request.urlopen(request, timeout=LONGEST_SECONDS, context=trusts)

    def warm(self) -> int:
        """Number of placeholders that run."""
        with self.pods() as answer:
            pods = json.load(answer)["items"]
        return sum(
            each["metadata"].get("labels", {}).get(names.COMPONENT) == names.PLACEHOLDER
            and each["status"].get("phase") == "Running"
            and "deletionTimestamp" not in each["metadata"]
            for each in pods
        )

    def warnings(self) -> list[str]:
        """Warnings of the cluster about pods, for a start that took long."""
        with self._read("events", "?fieldSelector=type=Warning") as answer:
            items = json.load(answer)["items"]
        # Nodes of tests have no DNS of the cluster.
        found = {each["reason"]: each["message"] for each in items if each["reason"] != "MissingClusterDNS"}
        return [f"{reason}: {message[:200]}" for reason, message in sorted(found.items())]

    def placement_seconds(self) -> float:
        """Time that the service has spent with answers about placements so far."""
        if not self.has_devices:
            return 0.0
        found = re.search(r"^dra_spawner_placement_answer_seconds_sum (\S+)", self.service("metrics"), re.M)
        return float(found[1]) if found else 0.0


@contextmanager
def demo() -> Iterator[MeasuredHub]:
    """A demo until the end of the block."""
    command = [str(Path(sys.executable).with_name("dra-spawner")), "demo", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C stops everything" in line:
                break
        text = "".join(said)
        address, password, token, kubeconfig = (
            re.findall(pattern, text)[0]
            for pattern in (r"Open +(http\S+)", r"User, password .*, (\S+)", r"API token +(\S+)", r"kubeconfig +(\S+)")
        )
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        yield MeasuredHub(address, "admin", password, token, cluster, user, "default", _NOTEBOOK_SERVER)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=LONGEST_SECONDS)


@contextmanager
def real_node(servers: Servers = "jupyterlab") -> Iterator[MeasuredHub]:
    """A control plane, a node with the demo's devices, and a hub with the service.

    Parameters
    ----------
    servers
        What users start: JupyterLab as in the demo, or with its launcher instead of a notebook; or a small program that
        answers at once; or that program with KubeSpawner, without devices and without this project.

    Raises
    ------
    NoRealNode
        If this machine cannot run a node.
    BinaryUnavailable
        If the programs of the cluster are neither there nor can be built.
    """
    machine, report = examine(), Progress("first cell")
    binaries = node_binaries(control_plane_binary(report), report)
    # Containers cannot write beside the packages, so an image brings compiled files.
    compileall.compile_dir(sys.prefix, quiet=2)
    compileall.compile_dir(_ROOT / "dra_spawner", quiet=2)
    with tempfile.TemporaryDirectory(prefix="first-cell-") as path, BackgroundLoop("hub") as loop:
        plane = ControlPlane(binaries.harness, Path(path, "plane"), node_grace_seconds=None)
        with plane, RealNode(plane, binaries, machine, Path(path, "node")) as node:
            report("the node is ready")
            hub = _hub_on(node, plane, loop, Path(path, "hub"), servers)
            running = loop.run(hub.__aenter__())
            try:
                report("the hub is ready")
                yield running
            except Exception:  # whatever failed: the log tells why, and is deleted afterwards
                sys.stderr.write(Path(path, "hub", "hub", "hub.log").read_text()[-_LOG_CHARACTERS:])
                raise
            finally:
                loop.run(hub.__aexit__(None, None, None))


@asynccontextmanager
async def _hub_on(
    node: RealNode, plane: ControlPlane, loop: BackgroundLoop, directory: Path, servers: Servers
) -> AsyncIterator[MeasuredHub]:
    async with namespace_on(plane, loop, directory, keeps_nodes=True, clears=False) as cluster:
        await cluster.publish(*device_classes(), priority_class())
        kind = _PlainHub if servers == "kubespawner" else HubProcess
        config = _hub_config(cluster, servers)
        async with kind(
            directory / "hub", cluster.hub_kubeconfig, cluster.namespace, config, address=node.address
        ) as hub:
            yield MeasuredHub(
                address=hub.url,
                user="ada",
                password="any",
                token=hub.token,
                cluster=cluster.url,
                cluster_token=cluster.admin_token,
                namespace=cluster.namespace,
                server="/quick-server" if servers in ("quick", "kubespawner") else _NOTEBOOK_SERVER,
                authority=cluster.certificate_authority,
                has_devices=servers != "kubespawner",
            )


class _PlainHub(HubProcess):
    """A hub without this project."""

    def _config_text(self, namespace: str) -> str:
        text = super()._config_text(namespace)
        shipped = f"load_subconfig({str(SHIPPED_CONFIG)!r})"
        assert shipped in text
        return text.replace(shipped, "")


def _hub_config(cluster: ClusterUnderTest, servers: Servers) -> str:
    if servers == "kubespawner":
        return _CONFIG + _QUICK + _PLAIN
    settings = cluster.directory / "service.py"
    settings.write_text(_SERVICE)
    hub = _CONFIG + _DEVICES.format(
        service_config_file=str(CONFIG),
        service_url=free_url(),
        settings=str(settings),
        kubeconfig=str(cluster.admin_kubeconfig),
        namespace=cluster.namespace,
        profiles=list(EXAMPLE_PROFILES),
    )
    if servers == "quick":
        return hub + _QUICK
    volumes, mounts = notebook_volumes()
    # An image would have it installed.
    volumes.append({"name": "package", "hostPath": {"path": str(_ROOT / "dra_spawner")}})
    mounts.append({"name": "package", "mountPath": str(_ROOT / "dra_spawner"), "readOnly": True})
    return hub + _NOTEBOOK.format(
        image=NOTEBOOK,
        python=sys.executable,
        module=_NOTEBOOK_SERVER,
        volumes=volumes,
        mounts=mounts,
        default_url="/lab" if servers == "launcher" else "/lab/tree/welcome.ipynb",
        first_kernel=str(int(servers != "launcher")),
    )

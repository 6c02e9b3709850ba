"""Containers of the charts' pods as processes: each with its rendered command, environment, files and account's token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, ProcessRuntime, RunningContainer
from dra_spawner.devcluster.kubelet.pod_environment import expand
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.chart.pod_network import PodNetwork
from tests.cluster.access import account_token
from tests.cluster.control_plane import ControlPlane
from tests.integration.fork_server import ForkedProcess, fork_program

#: Commands that run on this machine instead of the image's program, by container and program in both charts.
_PROGRAMS: Final = {
    ("hub", "jupyterhub"): ["jupyterhub"],
    ("chp", "configurable-http-proxy"): ["dra_spawner.devcluster.demo.streaming_proxy"],
    ("service", "dra-spawner"): ["dra_spawner.service"],
    ("test", "python3"): [],
}
_END_SECONDS: Final = 120
_MOUNTED: Final = "/usr/local/etc/jupyterhub/"
#: This machine may lack libcurl; and it is busy with other things.
_CURL: Final = 'AsyncHTTPClient.configure("tornado.curl_httpclient.CurlAsyncHTTPClient")'


@dataclass(slots=True)
class _Forked:
    container_id: str
    process: ForkedProcess

    async def wait(self) -> int:
        # Threads are few, and looking up names needs them.
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.process.pid)
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        code = await asyncio.to_thread(self.process.wait, _END_SECONDS)
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()


class ChartRuntime(ProcessRuntime):
    """Runs hub, proxy, service and ``helm test`` as their charts say, and everything else as its pod says."""

    def __init__(self, plane: ControlPlane, api: KubernetesApi, network: PodNetwork, directory: Path) -> None:
        self._plane = plane
        self._api = api
        self._network = network
        self._directory = directory
        self.logs: dict[str, Path] = {}

    async def start(self, launch: ContainerLaunch) -> RunningContainer:
        program = _PROGRAMS.get((launch.container, launch.command[0])) if launch.command else None
        if program is None:
            # The user of a security context cannot read this checkout.
            return await super().start(replace(launch, user=None))
        namespace, _, name = launch.pod.partition("/")
        environment = {
            **launch.environment,
            **self._network.service_variables(namespace),
            "SERVICE_NAMES": str(self._network.names_file(namespace)),
        }
        account = await self._kubeconfig(namespace, name)
        if account is not None:
            environment["KUBECONFIG"] = str(account)
        # The proxy of this machine takes an empty address for the machine's own.
        own = {f"--{option}=": f"--{option}={environment['POD_IP']}" for option in ("ip", "api-ip")}
        arguments = [expand(own.get(word, word), environment) for word in launch.command[1:]]
        if program == ["dra_spawner.service"]:
            assert arguments.pop(0) == "service"
        if program == ["jupyterhub"]:
            _redirect(Path(arguments[1]), launch.working_directory)
            arguments[1] = str(launch.working_directory / "jupyterhub_config.py")
        log = self._directory / f"{namespace}-{name}.log"
        self.logs[launch.pod] = log
        process = await asyncio.to_thread(
            fork_program,
            "tests.chart.in_pod",
            [*program, *arguments],
            directory=launch.working_directory,
            log=log,
            environment=environment,
            new_session=True,
        )
        return _Forked(f"process://{process.pid}", process)

    async def _kubeconfig(self, namespace: str, name: str) -> Path | None:
        """With a token as the kubelet mounts it; None for a pod without."""
        pod = await self._api.get(resource_path("v1", "pods", namespace, name))
        account = pod["spec"].get("serviceAccountName")
        if not account or pod["spec"].get("automountServiceAccountToken") is False:
            return None
        token = await account_token(self._api, namespace, account, pod)
        kubeconfig = self._directory / f"{namespace}-{name}.kubeconfig"
        return self._plane.write_kubeconfig(kubeconfig, token, namespace=namespace)


def _redirect(config: Path, directory: Path) -> None:
    """Give the hub its mounted files in its own directory, as `_MOUNTED` is the same for all processes."""
    volumes = config.parents[1]
    for name, volume in (("config", "config"), ("secret", "secret")):
        if not (directory / name).exists():  # it starts again
            (directory / name).symlink_to(volumes / volume)
    for name in ("jupyterhub_config.py", "z2jh.py"):
        text = (volumes / "config" / name).read_text()
        assert name != "jupyterhub_config.py" or _CURL in text
        (directory / name).write_text(text.replace(_MOUNTED, f"{directory}/").replace(_CURL, ""))

"""A container runtime without processes, and one address for all pods: for tests and benchmarks that need no more."""

from __future__ import annotations

import asyncio
import secrets

from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, FakeContainer

__all__ = ["FakeRuntime", "OneAddress"]


class FakeRuntime:
    """Runs fake containers."""

    runs_processes = False

    def __init__(self) -> None:
        self._containers: dict[tuple[str, str], FakeContainer] = {}

    async def start(self, launch: ContainerLaunch) -> FakeContainer:
        container = FakeContainer(f"fake://{secrets.token_hex(32)}", asyncio.get_running_loop().create_future())
        self._containers[launch.pod, launch.container] = container
        return container

    def exit(self, namespace: str, pod: str, container: str, exit_code: int) -> None:
        """End a running container as if its program had ended by itself.

        Raises
        ------
        KeyError
            If it never ran.
        """
        self._containers[f"{namespace}/{pod}", container].exit(exit_code)


class OneAddress:
    """The same address for all pods, for example the address of a benchmark's only server."""

    def __init__(self, address: str) -> None:
        self._address = address

    def acquire(self) -> str:
        return self._address

    def release(self, address: str) -> None:
        pass

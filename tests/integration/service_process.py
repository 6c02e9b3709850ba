"""The service as a process of its own, as ``python -m dra_spawner.service`` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.fork_server import ForkedProcess, fork_program
from tests.polling import PATIENCE_SECONDS, eventually
from tests.ports import free_port

ACCOUNT_VARIABLES = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")


def free_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


class ServiceProcess:
    """The command alone, without a hub."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self.url = free_url()
        self.log = directory / f"service-{self.url[-5:]}.log"
        inherited = {name: value for name, value in os.environ.items() if name not in ACCOUNT_VARIABLES}
        self.arguments = [f"--url={self.url}", *arguments]
        self.environment = {**inherited, **environment}
        self.directory = directory
        self.process: ForkedProcess | None = None

    def __enter__(self) -> ServiceProcess:
        self.process = fork_program(
            "dra_spawner.service",
            self.arguments,
            directory=self.directory,
            log=self.log,
            environment=self.environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    async def __aenter__(self) -> ServiceProcess:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    async def answer(self, path: str) -> tuple[int, Any]:
        """Status and answer; status 0 while the service does not listen."""
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
                return answer.status, await answer.json()
        return 0, {}

    async def until(self, status: int, role: str) -> None:
        async def is_so() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            found, body = await self.answer("/readyz")
            return (found, body.get("role")) == (status, role)

        await eventually(is_so, f"{status} {role}")

    async def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, PATIENCE_SECONDS)

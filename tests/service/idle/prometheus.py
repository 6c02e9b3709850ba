"""Debian's Prometheus, which scrapes a text."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.cluster.programs import end_with_parent
from tests.local_server import serving
from tests.polling import eventually
from tests.ports import free_port

__all__ = ["Prometheus", "prometheus"]


@dataclass
class Prometheus:
    """Its address, and what it scrapes each second."""

    url: str
    text: str

    async def has(self, query: str) -> None:
        """Wait until a query has an answer."""

        async def is_there() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(f"{self.url}/api/v1/query", params={"query": query}) as answer,
                ):
                    return answer.status == 200 and bool((await answer.json())["data"]["result"])
            return False

        await eventually(is_there, f"Prometheus answers {query}")


@contextlib.asynccontextmanager
async def prometheus(directory: Path, text: str) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes this text, and keeps the labels of its samples as real scrapes of exporters do."""
    found = Prometheus(f"http://127.0.0.1:{free_port()}", text)

    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(text=found.text, content_type="text/plain")

    async with serving(metrics) as exporter:
        # The job has the labels of its own pod, so those of the samples become exported_namespace and exported_pod.
        target = {
            "targets": [exporter.removeprefix("http://")],
            "labels": {"namespace": "monitoring", "pod": "exporter"},
        }
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "moved", "static_configs": [target]},
                {"job_name": "kept", "honor_labels": True, "static_configs": [target]},
            ],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))
        process = subprocess.Popen(  # noqa: ASYNC220 (it is begun at once; its end is awaited in a thread)
            [
                "prometheus",
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={found.url.removeprefix('http://')}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,
        )
        try:
            yield found
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)

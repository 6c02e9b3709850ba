"""Services of a test cluster: their names, and their addresses, which pass connections on to pods that they select."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.pod_addresses import LoopbackAddresses
from dra_spawner.kube.client.api import KubernetesApi, resource_path

#: Below it, only root may listen.
_FIRST_PORT = 1024
_CHUNK_BYTES = 64 * 1024


class PodNetwork:
    """Work of kube-proxy and the cluster's DNS, for programs that `tests.chart.in_pod` starts."""

    def __init__(self, api: KubernetesApi, directory: Path, addresses: LoopbackAddresses) -> None:
        self._api = api
        self._directory = directory
        self._addresses = addresses
        self._found: dict[tuple[str, str], str] = {}
        self._variables: dict[str, dict[str, str]] = {}
        self._servers: list[asyncio.Server] = []

    def names_file(self, namespace: str) -> Path:
        """Names that pods of a namespace know, with addresses."""
        return self._directory / f"{namespace}.names.json"

    def service_variables(self, namespace: str) -> dict[str, str]:
        """Variables that the kubelet adds to the environment of a namespace's pods."""
        return self._variables.get(namespace, {})

    async def serve(self, service: JsonObject) -> None:
        """Serve a Service."""
        metadata, spec = service["metadata"], service["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        address = self._addresses.acquire()
        variable = name.upper().replace("-", "_")
        variables = self._variables.setdefault(namespace, {})
        variables[f"{variable}_SERVICE_HOST"] = address
        variables[f"{variable}_SERVICE_PORT"] = str(spec["ports"][0]["port"])
        for port in spec["ports"]:
            if port["port"] >= _FIRST_PORT:
                self._servers.append(
                    await asyncio.start_server(self._passing_on(namespace, spec, port), address, port["port"])
                )
        self._found[namespace, name] = address
        for known in {namespace for namespace, _ in self._found}:
            names = {f"{name}.{of}": address for (of, name), address in self._found.items()}
            names |= {name: address for (of, name), address in self._found.items() if of == known}
            self.names_file(known).write_text(json.dumps(names))

    async def stop(self) -> None:
        """Serve nothing more."""
        for server in self._servers:
            server.close()

    def _passing_on(self, namespace: str, spec: JsonObject, port: JsonObject) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError), contextlib.closing(writer):
                target = await self._endpoint(namespace, spec["selector"], port.get("targetPort") or port["port"])
                if target is None:
                    return
                their_reader, their_writer = await asyncio.open_connection(*target)
                with contextlib.closing(their_writer):
                    await asyncio.gather(_copy(reader, their_writer), _copy(their_reader, writer))

        return answer

    async def _endpoint(self, namespace: str, selector: dict[str, str], port: int | str) -> tuple[str, int] | None:
        """Address and port of a running pod that the selector selects."""
        wanted = ",".join(f"{key}={value}" for key, value in selector.items())
        for pod in (await self._api.list(resource_path("v1", "pods", namespace), label_selector=wanted))["items"]:
            address = pod.get("status", {}).get("podIP")
            if address and "deletionTimestamp" not in pod["metadata"]:
                ports = {
                    each["name"]: each["containerPort"]
                    for container in pod["spec"]["containers"]
                    for each in container.get("ports", ())
                }
                return address, port if isinstance(port, int) else ports[port]
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

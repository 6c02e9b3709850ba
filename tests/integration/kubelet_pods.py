"""Pods that tell what they see, for tests of the kubelet stand-in."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.json_types import JsonObject
from tests.cluster.example_objects import pod

# Writes its environment to a file and waits to be ended.
REPORT = (
    "import json, os, pathlib, signal\n"
    "seen = dict(os.environ, CWD=os.getcwd(), PID=str(os.getpid()))\n"
    "pathlib.Path(os.environ['REPORT']).write_text(json.dumps(seen))\n"
    "while True: signal.pause()\n"
)
NODE = node_manifest("node-a")


def reporting_pod(name: str, directory: Path, **options: Any) -> JsonObject:
    body = pod(name, [sys.executable, "-c", REPORT], **options)
    body["spec"]["containers"][0]["env"] = [{"name": "REPORT", "value": str(directory / f"{name}.json")}]
    return body


async def report(directory: Path, name: str) -> dict[str, str]:
    """What the pod's process has seen."""
    async with asyncio.timeout(20):
        while True:
            try:
                return json.loads((directory / f"{name}.json").read_text())
            except (FileNotFoundError, ValueError):
                await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def container_status(obj: JsonObject) -> JsonObject:
    """Of the pod's only container; empty as long as there is none."""
    return (obj["status"].get("containerStatuses") or [{}])[0]


def waiting_reason(obj: JsonObject) -> str:
    return container_status(obj).get("state", {}).get("waiting", {}).get("reason", "")


async def until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)

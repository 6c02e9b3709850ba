"""Pods that report their environment, for tests of the kubelet stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.cluster.example_objects import pod
from tests.polling import eventually

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
    """The report of the pod's process."""

    def read() -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads((directory / f"{name}.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    return await eventually(read, f"{name} reports")


def container_status(obj: JsonObject) -> JsonObject:
    """Of the pod's only container; empty as long as there is none."""
    return (obj["status"].get("containerStatuses") or [{}])[0]


def waiting_reason(obj: JsonObject) -> str:
    return container_status(obj).get("state", {}).get("waiting", {}).get("reason", "")

"""Small clusters, and a way to ask about them."""

from __future__ import annotations

import io
import json
from typing import Any

from dra_spawner.commands.fitting.fit_command import FitOptions, run_fit

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fit(*files: Any, stdin: str | bytes = "", terminal: bool = False, **options: Any) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    output, messages = io.StringIO(), Terminal() if terminal else io.StringIO()
    content = stdin.encode() if isinstance(stdin, str) else stdin
    asked = FitOptions(files=tuple(map(str, files)), **options)
    code = run_fit(asked, io.BytesIO(content), output, messages)
    return code, output.getvalue(), messages.getvalue()


def answers(*files: Any, stdin: str = "", refused: bool = False, **options: Any) -> list[Any]:
    """The answers in JSON; with ``refused``, where an object that the API server would refuse leaves them open."""
    code, output, messages = fit(*files, stdin=stdin, as_json=True, **options)
    if refused:
        assert code == 2
        assert messages.startswith("dra-spawner fit: the API server would refuse this: ")
        assert messages.count("\n") == 1
    else:
        assert code in (0, 1), messages
        assert messages == ""
    return [json.loads(line) for line in output.splitlines()]


def node(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def gpu_slice(node_name: str, *devices: Any) -> Any:
    spec = {
        "driver": DRIVER,
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node_name}-gpu"}, "spec": spec}


def gpu(name: str = "gpu-0", memory: str = "40Gi", shared: bool = False, **policy: Any) -> Any:
    entry = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return {"name": name, "capacity": {"memory": entry}, **({"allowMultipleAllocations": True} if shared else {})}


def device_class(expression: str = f"device.driver == '{DRIVER}'") -> Any:
    selectors = [{"cel": {"expression": expression}}]
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}


def claim(name: str = "wanted", memory: str = "", device: tuple[str, str] | None = None, **exactly: Any) -> Any:
    """A claim for a device or a share; with ``device`` (pool and name), one that has it."""
    wanted: dict[str, Any] = {"deviceClassName": "gpu", **exactly}
    if memory:
        wanted["capacity"] = {"requests": {"memory": memory}}
    obj: dict[str, Any] = {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}},
    }
    if device is not None:
        result: dict[str, Any] = {"request": "gpu", "driver": DRIVER, "pool": device[0], "device": device[1]}
        if memory:
            result |= {"shareID": f"00000000-0000-4000-8000-{abs(hash(name)) % 10**12:012}"}
            result |= {"consumedCapacity": {"memory": memory}}
        obj["status"] = {"allocation": {"devices": {"results": [result]}}}
    return obj


def api_list(*items: Any) -> Any:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}

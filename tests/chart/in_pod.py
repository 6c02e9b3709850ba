"""Runs a program with the network of a pod: ``python -m tests.chart.in_pod <module> <arguments>``.

Names of Services have addresses, and to listen on all addresses means to listen on the pod's. Programs of a machine share
its network; those of a pod do not. ``POD_IP`` and ``SERVICE_NAMES``, a JSON file, say what the pod has.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp.connector

_EVERYWHERE = (None, "", b"", "0.0.0.0", "::")
_known = socket.getaddrinfo


def resolve(host: Any, port: Any, *arguments: Any, **more: Any) -> Any:
    """As `socket.getaddrinfo` in the pod."""
    if host in _EVERYWHERE:
        host = os.environ["POD_IP"]
    else:
        name = host.decode() if isinstance(host, bytes) else host
        # A Service that is installed later is found, too.
        host = json.loads(Path(os.environ["SERVICE_NAMES"]).read_text()).get(name, host)
    return _known(host, port, *arguments, **more)


def main() -> None:
    """Become the program; ``-c`` and its text is one, too."""
    socket.getaddrinfo = resolve
    # Where the other one is installed, aiohttp takes it, which asks no function of Python.
    aiohttp.connector.DefaultResolver = aiohttp.ThreadedResolver
    # It reads the environment while it is imported, which the server of forks has done.
    sys.modules.pop("jupyterhub.services.auth", None)
    _, module, *arguments = sys.argv
    if module == "-c":
        sys.argv = ["-c"]
        exec(arguments[0], {"__name__": "__main__"})
    else:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

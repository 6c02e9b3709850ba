"""Ports for programs with a setting for their port."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
from collections.abc import Iterator
from typing import Final

__all__ = ["free_port"]

#: Below the ports that the kernel gives to outgoing connections, and above the last that browsers refuse.
_PORTS: Final = range(10_081, 32_768)


def free_port() -> int:
    """A port that nothing listens at, and that no other worker of this test run is given.

    Returns
    -------
    int
        Not given again before all ports of this worker were.
    """
    for port in _ports_of_this_worker:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable: the ports go round")


def _in_turn() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = _PORTS[worker::workers]
    # Another test run on this machine begins elsewhere.
    return itertools.cycle(random.sample(own, len(own)))


_ports_of_this_worker = _in_turn()

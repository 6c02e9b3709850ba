"""A bridge of its own for each node, on this machine: pods have addresses of its subnet, and reach the machine there."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_FIRST, _NODES = 64, 32


@dataclass(frozen=True, slots=True)
class Bridge:
    """An interface of this machine, and the subnet behind it."""

    name: str
    subnet: str
    address: str
    """Of this machine in the subnet: the node's own address, too."""

    @classmethod
    def create(cls) -> Bridge:
        """Make one that no other test run has."""
        _sweep()
        for number in range(_NODES):
            block = _FIRST + 4 * number
            bridge = cls(f"dra-node-{number}", f"10.213.{block}.0/22", f"10.213.{block}.1")
            if _ip("link", "add", bridge.name, "type", "bridge", check=False):
                continue
            _ip("link", "set", bridge.name, "alias", _owner(os.getpid()))
            _ip("address", "add", f"{bridge.address}/22", "dev", bridge.name)
            _ip("link", "set", bridge.name, "up")
            return bridge
        raise AssertionError(f"{_NODES} nodes of tests are on this machine already")

    def remove(self) -> None:
        _ip("link", "delete", self.name, check=False)

    @property
    def exists(self) -> bool:
        return Path("/sys/class/net", self.name).exists()

    @property
    def owner(self) -> str:
        """The process that made the interface of this name; empty if there is none."""
        return _alias(Path("/sys/class/net", self.name))


def owners() -> set[str]:
    """The processes that made the bridges of this machine, those that have ended too."""
    return {_alias(path) for path in Path("/sys/class/net").glob("dra-node-*")}


def _owner(pid: int) -> str:
    """Names a process for good: ids are used again, with another start time."""
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        started = "gone"
    return f"dra-spawner tests, process {pid} {started}"


def _sweep() -> None:
    """Remove bridges of test runs that were killed."""
    for path in Path("/sys/class/net").glob("dra-node-*"):
        alias = _alias(path)
        if alias and alias != _owner(int(alias.split()[-2])):
            _ip("link", "delete", path.name, check=False)


def _alias(interface: Path) -> str:
    try:
        return (interface / "ifalias").read_text().strip()
    except OSError:  # another test run has just removed it
        return ""


def _ip(*arguments: str, check: bool = True) -> int:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert not (check and done.returncode), f"ip {' '.join(arguments)}: {done.stderr}"
    return done.returncode

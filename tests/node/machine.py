"""Abilities of this machine for a real node: missing ones, and settings that depend on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.polling import eventually_sync

_CGROUPS = Path("/sys/fs/cgroup")
_TOOLS = {"runc": "runc", "ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "mount": "mount"}
# Without these the kubelet does not start.
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


class NoRealNode(Exception):
    """This machine cannot run a real node; the message is the reason to skip."""


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The machine's control groups, of either version."""

    version: int
    hierarchies: tuple[Path, ...]
    """Where each is mounted. Version 2 has one; beside version 1 it may be mounted, too, and runc makes groups there."""

    def create(self, name: str) -> None:
        """Make a group in each hierarchy, with all controllers that a kubelet wants."""
        for hierarchy in self.hierarchies:
            group = hierarchy / name
            group.mkdir(exist_ok=True)
            # In version 1 a new group has no processors, and nothing may enter it.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if self.version == 1 and (group / file).exists():
                    (group / file).write_text((hierarchy / file).read_text())

    def remove(self, name: str) -> None:
        """Remove a group and all in it; its processes have ended, or are about to."""
        last = ""

        def is_gone() -> bool:
            nonlocal last
            for top in self.left(name):
                for path, _, _ in os.walk(top, topdown=False):
                    try:
                        Path(path).rmdir()
                    except OSError as error:
                        last = f"{path}: {error}"
            return not self.left(name)

        eventually_sync(is_gone, f"control group {name} is removed", shows=lambda: last)

    def sweep(self) -> None:
        """Remove groups of test runs that were killed."""
        for name in {path.name for hierarchy in self.hierarchies for path in hierarchy.glob("dra-node-*")}:
            if not Path("/proc", name.rpartition("-")[2]).exists():
                self.remove(name)

    def left(self, name: str) -> list[Path]:
        """Where the group still is."""
        return [hierarchy / name for hierarchy in self.hierarchies if (hierarchy / name).exists()]


@dataclass(frozen=True, slots=True)
class Machine:
    """Findings of `examine`."""

    cgroups: Cgroups

    def snapshotter(self, directory: Path) -> str:
        """How container images can be kept in `directory`; an overlay cannot lie on another one."""
        found = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True)
        return "native" if found.stdout.strip() == "overlayfs" else "overlayfs"


def examine() -> Machine:
    """Abilities of this machine.

    Raises
    ------
    NoRealNode
        If something is missing.
    """
    if sys.platform != "linux":
        raise NoRealNode("a kubelet runs on Linux only")
    if os.geteuid() != 0:
        raise NoRealNode("a kubelet needs root")
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise NoRealNode(f"{tool} is not installed (Debian package {package})")
    command = "unshare --mount --pid --fork --mount-proc mount -t tmpfs none /mnt"
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode:
        raise NoRealNode(f"private mounts are not possible here: {done.stderr.strip()}")
    return Machine(_find_cgroups())


def _find_cgroups() -> Cgroups:
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    kinds = {Path(words[4]): words[words.index("-") + 1] for words in mounts}
    if kinds.get(_CGROUPS) == "cgroup2":
        cgroups = Cgroups(2, (_CGROUPS,))
        _hand_down_controllers()
        return cgroups
    hierarchies = tuple(path for path, kind in kinds.items() if kind.startswith("cgroup") and _CGROUPS in path.parents)
    found = {name for path in hierarchies for name in path.name.split(",")}
    if missing := sorted(set(_CONTROLLERS) - found):
        raise NoRealNode(f"control groups lack {', '.join(missing)}")
    if not os.access(hierarchies[0], os.W_OK):
        raise NoRealNode(f"{hierarchies[0]} is read-only")
    return Cgroups(1, hierarchies)


def _hand_down_controllers() -> None:
    """Let groups below the uppermost one use all controllers (version 2)."""
    available = (_CGROUPS / "cgroup.controllers").read_text().split()
    if missing := sorted(set(_CONTROLLERS) - set(available)):
        raise NoRealNode(f"control groups lack {', '.join(missing)}")
    handed_down = _CGROUPS / "cgroup.subtree_control"
    if set(_CONTROLLERS) <= set(handed_down.read_text().split()):
        return
    try:
        # A container's uppermost group may not hand down anything while processes are in it.
        if (_CGROUPS / "cgroup.type").exists():
            _move_processes(_CGROUPS / "init")
        handed_down.write_text(" ".join(f"+{name}" for name in available))
    except OSError as error:
        raise NoRealNode(f"control groups cannot be used: {error}") from None


def _move_processes(group: Path) -> None:
    group.mkdir(exist_ok=True)
    for pid in (_CGROUPS / "cgroup.procs").read_text().split():
        try:
            (group / "cgroup.procs").write_text(pid)
        except ProcessLookupError:
            continue

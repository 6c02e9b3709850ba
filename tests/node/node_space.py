"""A node's own view of this machine: mounts and processes of its own, so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.polling import eventually_sync

_START_SECONDS = 60.0
_POLL_SECONDS = 0.01

# Settings that a kubelet would change on the whole machine.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


@dataclass(eq=False)
class NodeSpace:
    """Namespaces of mounts and processes; from `start` to `stop` a node is up.

    ``/run`` is empty at each start, as after a reboot. ``/var/lib/kubelet`` and ``/var/lib/containerd`` are folders of
    `directory`, and stay. Other writes below ``/var/lib`` and ``/var/log`` are lost. All processes end with the first
    one, and that ends with this process.
    """

    directory: Path
    """Of the node."""
    first_process: Path
    """The ``pause`` program."""
    _controller: subprocess.Popen[bytes] | None = None
    _first_pid: int = 0

    def start(self) -> None:
        for name in ("kubelet", "containerd", "writes", "masks"):
            (self.directory / name).mkdir(exist_ok=True)
        log = self.directory / "space.log"
        with log.open("wb") as output:
            # The pipe closes when this process ends, however it ends, and the node's first process ends with that.
            self._controller = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "/bin/sh", "-e", "-c", self._script()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        controller, ready = self._controller, self.directory / "masks" / "ready"

        def is_ready() -> bool:
            assert controller.poll() is None, f"namespaces cannot be made: {log.read_text()}"
            return ready.exists()

        eventually_sync(
            is_ready, "namespaces are ready", _START_SECONDS, shows=log.read_text, pause_seconds=_POLL_SECONDS
        )
        ready.unlink()
        (self._first_pid,) = children(controller.pid)

    def _script(self) -> str:
        """Commands of the first process before it becomes ``pause``."""
        directory, masks = shlex.quote(str(self.directory)), self.directory / "masks"
        lines = [f"mount -t tmpfs none {directory}/writes"]
        for path in ("/var/lib", "/var/log"):
            name = path.replace("/", "-")
            lines += [
                f"mkdir {directory}/writes/up{name} {directory}/writes/work{name}",
                f"mount -t overlay none -o lowerdir={path},upperdir={directory}/writes/up{name},"
                f"workdir={directory}/writes/work{name} {path}",
            ]
        for name in ("kubelet", "containerd"):
            lines += [f"mkdir -p /var/lib/{name}", f"mount --bind {directory}/{name} /var/lib/{name}"]
        lines.append("mount -t tmpfs -o mode=755 none /run")
        for name in _SYSCTLS:
            setting = Path("/proc/sys", name)
            if setting.exists():
                mask = masks / setting.name
                mask.write_text(setting.read_text())
                lines.append(f"mount --bind {shlex.quote(str(mask))} {setting}")
        # By this the kubelet sees that the machine was started again.
        (masks / "boot_id").write_text(f"{uuid.uuid4()}\n")
        lines.append(f"mount --bind {directory}/masks/boot_id /proc/sys/kernel/random/boot_id")
        lines += [f"touch {directory}/masks/ready", f"exec {shlex.quote(str(self.first_process))} --until-eof"]
        return "\n".join(lines)

    def popen(self, command: Sequence[str | Path], output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program in the node; the process is ``nsenter``, its only child the program."""
        return subprocess.Popen(
            [*self._enter(), *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )

    def send(self, pid: int, number: int) -> None:
        """Send a signal to the program of a process that `popen` started."""
        for child in children(pid):
            os.kill(child, number)

    def run(self, *command: str | Path, timeout_seconds: float = 60.0) -> str:
        """Run a program in the node to its end; its output.

        Raises
        ------
        AssertionError
            If it failed; with its output.
        """
        done = subprocess.run(
            [*self._enter(), *map(str, command)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
        return done.stdout

    def path(self, inside: str) -> Path:
        """Where a file of the node is seen from here, while the node is up."""
        return Path(f"/proc/{self._first_pid}/root{inside}")

    @property
    def pids(self) -> list[int]:
        """All processes of the node."""
        try:
            return _in_namespace(Path(f"/proc/{self._first_pid}/ns/pid").readlink()) if self._first_pid else []
        except OSError:
            return []

    def stop(self) -> None:
        """End all processes at once, as if the power failed; mounts and network namespaces go with them."""
        if self._controller is None:
            return
        if self._first_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._first_pid, signal.SIGKILL)
        assert self._controller.stdin is not None
        self._controller.stdin.close()
        self._controller.wait()
        self._controller, self._first_pid = None, 0

    def _enter(self) -> list[str]:
        assert self._first_pid, "the node is not up"
        return ["nsenter", "--target", str(self._first_pid), "--mount", "--pid", "--"]


def children(pid: int) -> list[int]:
    """Processes that `pid` started, as long as it is there."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _in_namespace(name: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "ns" / "pid").readlink() == name:
                found.append(int(path.name))
        except OSError:
            continue
    return found

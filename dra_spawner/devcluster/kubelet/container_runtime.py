"""Containers of a development node: local processes, or fake containers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dra_spawner.devcluster.kubelet.process_user import ProcessUser

log = logging.getLogger(__name__)

#: Exit code after SIGTERM or SIGKILL, as container runtimes report it.
EXIT_CODE_TERMINATED = 128 + signal.SIGTERM
EXIT_CODE_KILLED = 137
#: Time that a fake container takes to end after SIGTERM, as a real runtime takes some time.
_FAKE_END_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """Parameters of one run of a container.

    Attributes
    ----------
    pod
        ``namespace/name``, for messages.
    command
        Program and arguments; empty if the pod names no program.
    environment
        The complete environment; variables of the machine are not added.
    log
        File for standard output and error.
    user
        User of the process; None for this process's user.
    """

    pod: str
    container: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: Path
    log: Path
    user: ProcessUser | None = None


class ContainerStartFailed(Exception):
    """Raised if a container could not be started; the message is that of the pod's event."""


class RunningContainer(Protocol):
    """A running or ended container."""

    container_id: str

    async def wait(self) -> int:
        """Exit code; 128 + n if signal n ended it."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """End the container and all its child processes."""
        ...


class ContainerRuntime(Protocol):
    """Starts containers."""

    #: Whether pods need directories and environments.
    runs_processes: bool

    async def start(self, launch: ContainerLaunch) -> RunningContainer:
        """Start a container.

        Raises
        ------
        ContainerStartFailed
            If the container cannot be started.
        """
        ...


@dataclass(slots=True)
class FakeContainer:
    """A fake container, which runs until it is ended."""

    container_id: str
    _ended: asyncio.Future[int] = field(repr=False)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def exit(self, exit_code: int) -> None:
        """End as if the program had ended by itself."""
        if not self._ended.done():
            self._ended.set_result(exit_code)

    def terminate(self) -> None:
        asyncio.get_running_loop().call_later(_FAKE_END_SECONDS, self.exit, EXIT_CODE_TERMINATED)

    def kill(self) -> None:
        self.exit(EXIT_CODE_KILLED)


def _fake_container() -> FakeContainer:
    return FakeContainer(f"fake://{secrets.token_hex(32)}", asyncio.get_running_loop().create_future())


class ProcessRuntime:
    """Runs each container's command as a process of this machine, in a process group of its own.

    There is no isolation: the processes share this machine's network and files, and this user's files if they run as
    this user. Containers of an image named ``pause`` get no process.
    """

    runs_processes = True

    async def start(self, launch: ContainerLaunch) -> RunningContainer:
        if not launch.command:
            if launch.image.partition("@")[0].rpartition("/")[2].partition(":")[0] == "pause":
                return _fake_container()
            raise ContainerStartFailed(
                f"no command specified: image {launch.image!r} is not pulled here, so the pod must set command or args"
            )
        launch.log.parent.mkdir(parents=True, exist_ok=True)
        with launch.log.open("ab") as log_file:
            try:
                process = await asyncio.create_subprocess_exec(
                    *launch.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=asyncio.subprocess.STDOUT,
                    env=dict(launch.environment),
                    cwd=launch.working_directory,
                    start_new_session=True,
                    preexec_fn=_before_exec(launch.user),
                    **_identity(launch.user),
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                raise ContainerStartFailed(f'exec: "{launch.command[0]}": {reason}') from error
        log.debug(
            "Started a container's process: pod=%s container=%s pid=%d", launch.pod, launch.container, process.pid
        )
        return _ProcessContainer(f"process://{process.pid}", process)


@dataclass(slots=True)
class _ProcessContainer:
    container_id: str
    process: asyncio.subprocess.Process
    _strays: dict[int, str] = field(default_factory=dict)

    async def wait(self) -> int:
        code = await self.process.wait()
        self._kill_left_over()
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        self._strays.update(_descendants(self.process.pid))
        self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        self._strays.update(_descendants(self.process.pid))
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        # The group's number can be reused once the process has been waited for.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _kill_left_over(self) -> None:
        """Kill all descendants, in other sessions, too, as a container ends with its first process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # A process group keeps its number while it has members.
            os.killpg(self.process.pid, signal.SIGKILL)
        for pid, start_time in self._strays.items():
            if _start_time(pid) == start_time:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self._strays.clear()


def _stat(pid: int | str) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the third (state) on; empty if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _start_time(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _descendants(pid: int) -> dict[int, str]:
    """Descendants of a process with their start times; empty without ``/proc``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _stat(entry.name):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found[child] = _start_time(child)
            waiting.append(child)
    return found


def _identity(user: ProcessUser | None) -> dict[str, Any]:
    """Arguments of ``subprocess`` to run as another user."""
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)}


def _before_exec(user: ProcessUser | None) -> Callable[[], None] | None:
    """Function that the child process runs as its own user, just before its program; None if it needs none."""
    if sys.platform != "linux":
        return None

    def prepare() -> None:
        # The process ends with the kubelet, even if the kubelet is killed.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if user is not None:
            # A set-user-ID program cannot make the process root again.
            _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    return prepare


if sys.platform == "linux":
    _LIBC = ctypes.CDLL(None)
    _PR_SET_PDEATHSIG = 1
    _PR_SET_NO_NEW_PRIVS = 38

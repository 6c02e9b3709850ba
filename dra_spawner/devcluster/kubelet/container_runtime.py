"""What a container is on a development node: a local process, or nothing at all."""

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

#: Exit code of a process that SIGTERM or SIGKILL ended, as container runtimes report it.
EXIT_CODE_TERMINATED = 128 + signal.SIGTERM
EXIT_CODE_KILLED = 137
#: No container that does nothing ends sooner: kubelet and runtime take so long.
_FAKE_END_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """All that is needed to run one container once.

    Attributes
    ----------
    pod
        ``namespace/name``, for messages.
    command
        Program and arguments; empty if neither pod nor image name one.
    environment
        The whole environment; nothing else of the machine's gets in.
    log
        Takes standard output and error.
    user
        As whom it runs; None for the user of this process.
    """

    pod: str
    container: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: Path
    log: Path
    user: ProcessUser | None = None


class StartFailed(Exception):
    """The container could not be started; the message is worded for the pod's event."""


class RunningContainer(Protocol):
    """A container that was started."""

    container_id: str

    async def wait(self) -> int:
        """Exit code; 128 + n if signal n ended it."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """End it, and all that it started."""
        ...


class ContainerRuntime(Protocol):
    """Starts containers."""

    #: Whether pods need directories, environments and the like prepared.
    runs_processes: bool

    async def start(self, launch: ContainerLaunch) -> RunningContainer:
        """Start a container.

        Raises
        ------
        StartFailed
        """
        ...


@dataclass(slots=True)
class FakeContainer:
    """A container that does nothing until it is told to end."""

    container_id: str
    _ended: asyncio.Future[int] = field(repr=False)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def exit(self, exit_code: int) -> None:
        """End as if by itself."""
        if not self._ended.done():
            self._ended.set_result(exit_code)

    def terminate(self) -> None:
        asyncio.get_running_loop().call_later(_FAKE_END_SECONDS, self.exit, EXIT_CODE_TERMINATED)

    def kill(self) -> None:
        self.exit(EXIT_CODE_KILLED)


class FakeRuntime:
    """Pretends, for benchmarks and for tests of everything but the processes."""

    runs_processes = False

    def __init__(self) -> None:
        self._containers: dict[tuple[str, str], FakeContainer] = {}

    async def start(self, launch: ContainerLaunch) -> FakeContainer:
        container = _fake_container()
        self._containers[launch.pod, launch.container] = container
        return container

    def exit(self, namespace: str, pod: str, container: str, exit_code: int) -> None:
        """Let a running container end by itself.

        Raises
        ------
        KeyError
            If it never ran.
        """
        self._containers[f"{namespace}/{pod}", container].exit(exit_code)


def _fake_container() -> FakeContainer:
    return FakeContainer(f"fake://{secrets.token_hex(32)}", asyncio.get_running_loop().create_future())


class ProcessRuntime:
    """Runs each container's command as a process of this machine, in a process group of its own.

    Nothing is isolated: the processes share this machine's network and files, and those of this user where they run as
    no other. Containers of an image named ``pause`` do nothing, so they get no process.
    """

    runs_processes = True

    async def start(self, launch: ContainerLaunch) -> RunningContainer:
        if not launch.command:
            if launch.image.partition("@")[0].rpartition("/")[2].partition(":")[0] == "pause":
                return _fake_container()
            raise StartFailed(
                f"no command specified: image {launch.image!r} is not really pulled here, "
                "so the pod has to say what to run (command or args)"
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
                raise StartFailed(f'exec: "{launch.command[0]}": {reason}') from error
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
        # Only while the process is not yet waited for is its group's number certain to be still its own.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _kill_left_over(self) -> None:
        """As with a container, nothing outlives its first process, whatever session it has moved to."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # A process group keeps its number as long as it has members; without members this finds none.
            os.killpg(self.process.pid, signal.SIGKILL)
        for pid, start_time in self._strays.items():
            if _start_time(pid) == start_time:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self._strays.clear()


def _stat(pid: int | str) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the third (state) on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _start_time(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _descendants(pid: int) -> dict[int, str]:
    """Processes below `pid` with their start times; empty where there is no ``/proc``."""
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
    """Arguments of ``subprocess`` for another user."""
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)}


def _before_exec(user: ProcessUser | None) -> Callable[[], None] | None:
    """What the child does last, already as its own user."""
    if sys.platform != "linux":
        return None

    def prepare() -> None:
        # End with the kubelet, even if that is killed without a chance to clean up.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if user is not None:
            # Not even a set-user-ID program makes it root again.
            _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    return prepare


if sys.platform == "linux":
    _LIBC = ctypes.CDLL(None)
    _PR_SET_PDEATHSIG = 1
    _PR_SET_NO_NEW_PRIVS = 38

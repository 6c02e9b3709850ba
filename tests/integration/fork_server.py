"""A process that has imported JupyterHub and its proxy, and forks for each program that a test starts.

A hub imports for five seconds of processor time, and the tests start hundreds. What is forked is a process like any other:
with its own memory, session, environment and log, and it can be killed.

Run as a program it is the server: it reads requests from its standard input, a socket, and answers there.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster.programs import end_with_parent
from tests.no_authorities import trust_no_authorities

__all__ = ["ForkedProcess", "fork_program"]

#: Libraries alone, which read nothing of the environment while they are imported, except for `_AGAIN`.
_IMPORTED: Final = (
    "jupyterhub.app",
    "jupyterhub.services.auth",
    "configurable_http_proxy.cli",
    "alembic.command",
    "sqlalchemy.dialects.sqlite",
    "kubernetes_asyncio.client",
)
#: Reads ``$KUBECONFIG``.
_AGAIN: Final = "kubernetes_asyncio.config"
_START_SECONDS: Final = 120.0
_MAX_BYTES: Final = 1 << 20


class ForkedProcess:
    """A program that was started; as far as tests need it, it is used like a `subprocess.Popen`."""

    def __init__(self, server: _Server, pid: int) -> None:
        self.pid = pid
        self._server = server
        # It never comes to mean another process. A program that has ended already has none.
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    @property
    def returncode(self) -> int | None:
        """Its exit code, or its signal as a negative number; None while it runs."""
        return self._server.code_of(self.pid)

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises
        ------
        subprocess.TimeoutExpired
        """
        return self._server.wait(self.pid, timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._descriptor is not None and self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def fork_program(
    module: str,
    arguments: Sequence[str],
    *,
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
    new_session: bool = False,
) -> ForkedProcess:
    """Start a module as ``python -m`` does.

    Parameters
    ----------
    log
        Takes what it prints, after what is there.
    environment
        The whole of it.
    new_session
        Whether signals to the test run do not reach it.
    """
    log.touch()  # it is there to be read from the beginning
    request = {
        "module": module,
        "arguments": list(arguments),
        "directory": str(directory),
        "log": str(log),
        "environment": dict(environment),
        "new_session": new_session,
    }
    return _the_server().start(request)


# --- the side of the tests --------------------------------------------------------------------------------------------


class _Server:
    """The server as the tests see it; one for each process of the test run."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.fork_server"],
                cwd=Path(__file__).parents[2],
                stdin=theirs.fileno(),
                preexec_fn=end_with_parent,
                start_new_session=True,
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._started: list[int] = []
        self._codes: dict[int, int] = {}
        threading.Thread(target=self._read, daemon=True, name="fork server").start()

    def start(self, request: Mapping[str, Any]) -> ForkedProcess:
        with self._lock:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            with self._changed:
                assert self._changed.wait_for(lambda: self._started, _START_SECONDS), "the fork server does not answer"
                return ForkedProcess(self, self._started.pop())

    def code_of(self, pid: int) -> int | None:
        with self._changed:
            return self._codes.get(pid)

    def wait(self, pid: int, timeout: float | None) -> int:
        with self._changed:
            if not self._changed.wait_for(lambda: pid in self._codes, timeout):
                raise subprocess.TimeoutExpired(f"process {pid}", timeout or 0.0)
            return self._codes[pid]

    def end(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                pid, code = json.loads(line)
                with self._changed:
                    if code is None:
                        self._codes.pop(pid, None)  # of an earlier process with this number
                        self._started.append(pid)
                    else:
                        self._codes[pid] = code
                    self._changed.notify_all()


_servers: dict[int, _Server] = {}


def _the_server() -> _Server:
    pid = os.getpid()
    if pid not in _servers:
        _servers[pid] = server = _Server()
        atexit.register(server.end)
    return _servers[pid]


# --- the side of the server -------------------------------------------------------------------------------------------


def _serve() -> dict[str, Any] | None:
    """Fork for each request, and report how each program ends; the request in the forked process, None at the end."""
    connection = socket.socket(fileno=os.dup(0))
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker)
    waiting = selectors.DefaultSelector()
    waiting.register(connection, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    received = b""

    def report_end(pid: int, code: int | None) -> None:
        connection.sendall(json.dumps([pid, code]).encode() + b"\n")

    while True:
        ready = {key.fileobj for key, _ in waiting.select()}
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for pid, status in _ended():
                report_end(pid, os.waitstatus_to_exitcode(status))
        if connection in ready:
            part = connection.recv(_MAX_BYTES)
            if not part:
                return None
            *lines, received = (received + part).split(b"\n")
            for line in lines:
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    waiting.close()
                    connection.close()
                    os.close(woken)
                    os.close(waker)
                    return dict(json.loads(line))
                report_end(pid, None)


def _ended() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (each := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(each)
    return found


def _run(request: Mapping[str, Any]) -> None:
    """Become the program."""
    if request["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(log)
    for name in [name for name in sys.modules if name == _AGAIN or name.startswith(f"{_AGAIN}.")]:
        del sys.modules[name]
    importlib.import_module(_AGAIN)
    sys.argv = [request["module"], *request["arguments"]]
    sys.path[0] = request["directory"]  # as -m does
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    """Be the server, or what was forked."""
    trust_no_authorities()
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = _serve()
    if request is not None:
        _run(request)


if __name__ == "__main__":
    main()

"""Programs that a test's cluster consists of: each has a log, and none ends unnoticed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

__all__ = ["Programs", "Startable", "end_with_parent", "popen_for_life"]

_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_TAIL_LINES = 40

Popen = Callable[[Sequence[str | Path], IO[bytes]], "subprocess.Popen[bytes]"]


@dataclass(eq=False)
class Programs:
    """Starts programs, waits for them, and ends them."""

    directory: Path
    """Of the logs, ``<name>.log``; a program that is started again goes on with its log."""
    error: type[Exception]
    """Raised where a program fails; its message holds the ends of all logs."""
    popen: Popen
    """Starts a process with a command and a file for its output."""
    send: Callable[[int, int], None] = os.kill
    """Sends a signal to the program of a process."""
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def __iter__(self) -> Iterator[str]:
        """Names, in the order in which the programs were started."""
        return iter(self._running)

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, *command: str | Path) -> None:
        """Start a program; it may not be ready yet."""
        assert name not in self._running, f"{name} is running already"
        with self._log(name).open("ab") as log:
            self._running[name] = self.popen(command, log)

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a program by a signal and wait for its end; it is killed if that takes long."""
        process = self._running.pop(name)
        if process.poll() is not None:
            return
        self.send(process.pid, number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.send(process.pid, signal.SIGKILL)
            process.wait()

    def end_all(self) -> None:
        """End all programs, the one that was started last first."""
        for name in reversed(list(self._running)):
            self.end(name)

    def forget_ended(self) -> None:
        """Programs that have ended can be started again."""
        self._running = {name: process for name, process in self._running.items() if process.poll() is None}

    def wait_all(self) -> None:
        """Wait until all programs have ended; the caller does not end them."""
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def check(self) -> None:
        """Raise the error if a program has ended by itself."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise self.error(f"{name} ended with exit code {code}\n{self._tails(name)}")

    def until(self, condition: Callable[[], bool], what: Callable[[], str], seconds: float) -> None:
        """Wait for a condition; raise the error if a program ends before, or if it takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            if condition():
                return
            if time.monotonic() > deadline:
                raise self.error(f"not in {seconds:g} s: {what()}\n{self._tails()}")
            time.sleep(_POLL_SECONDS)

    def log_tail(self, name: str, lines: int = _TAIL_LINES) -> str:
        """The end of a program's log."""
        log = self._log(name)
        text = log.read_text(errors="replace") if log.exists() else ""
        return f"--- end of {log}\n" + "\n".join(text.splitlines()[-lines:])

    def _tails(self, last: str = "") -> str:
        """The ends of all logs, one of them last, where people look first."""
        names = sorted(self._running, key=lambda name: name == last)
        return "\n".join(map(self.log_tail, names))

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"


class Startable(ABC):
    """Something of programs that is started and stopped, or is up for as long as a ``with`` block lasts."""

    _programs: Programs

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def check(self) -> None:
        """Raise if a program has ended by itself; the error has the ends of all logs."""
        self._programs.check()


def popen_for_life(command: Sequence[str | Path], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one, on Linux even if this one is killed."""
    return subprocess.Popen(
        list(map(str, command)),
        # Programs in Go spend a third less on collecting garbage, and have the memory.
        env={"GOGC": "300", **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # Ctrl-C is for the test run, which then ends the programs in order.
        process_group=0,
        preexec_fn=end_with_parent if sys.platform == "linux" else None,
    )


if sys.platform == "linux":
    _LIBC = ctypes.CDLL(None)
    _PR_SET_PDEATHSIG = 1

    def end_with_parent() -> None:
        """In the child: be killed with the test run, even if that is killed without a chance to clean up."""
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)

"""Runs commands one after the other, each in a process of its own that is measured and limited.

``python -m tests.adversary.command_runner`` reads a line of JSON (arguments) and writes a line of JSON (an `Ending`).
Everything is imported once; each command runs in a fork.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Far above the needed time; a command that takes more is killed.
_CPU_SECONDS = 90
_MAX_SHOWN = 4_000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended.

    Attributes
    ----------
    code
        Exit code; negative where a signal ended it.
    bytes_more
        Most memory that it had, above what it had when it began.
    """

    code: int
    bytes_more: int
    output: str
    messages: str


class CommandRunner:
    """The other side of the process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> Ending:
        """Run ``dra-spawner`` with these arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return Ending(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _run(arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        child = os.fork()
        if not child:
            _command(arguments, output.fileno(), messages.fileno())
        _, status, used = os.wait4(child, 0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "bytes_more": used.ru_maxrss * 1024 - _resident_bytes(),
            "output": _text(output),
            "messages": _text(messages),
        }


def _command(arguments: list[str], output: int, messages: int) -> None:
    from dra_spawner.cli import main

    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(messages, 2)
        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode(errors="replace")
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN // 2]}\n...\n{text[-_MAX_SHOWN // 2 :]}"


def _serve() -> None:
    # Imports of the commands.
    import dra_spawner.cli
    import dra_spawner.commands.checking.check_command
    import dra_spawner.commands.checking.render_command
    import dra_spawner.commands.fitting.fit_command
    import dra_spawner.commands.fitting.utilization_command
    import dra_spawner.commands.history_files.import_command
    import dra_spawner.commands.replaying.replay_command  # noqa: F401

    # Garbage collection in a fork would copy all that was imported.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()

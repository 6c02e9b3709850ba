"""A PostgreSQL server of Debian's package, in a directory of its own, for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["NoPostgresql", "PostgresqlServer", "postgresql_server"]

_DIRECTORIES = "/usr/lib/postgresql"
_SECONDS = 60


class NoPostgresql(Exception):
    """There is no server that could be started."""


class PostgresqlServer:
    """A server that listens on a socket in its directory, and nowhere else."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self.directory = directory
        self._programs = programs
        self._data = directory / "data"
        self._databases = 0

    def initialize(self) -> None:
        """Create its files, owned by an account that may run it."""
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        self._run("initdb", "--auth=trust", "--username=dra", "--no-sync", "--encoding=UTF8", "-D", str(self._data))

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.directory} -c fsync=off"
        log = self.directory / "log"
        self._run("pg_ctl", "start", "--wait", "-D", str(self._data), "-l", str(log), "-o", options)

    def stop(self) -> None:
        """End at once; connections break."""
        self._run("pg_ctl", "stop", "--wait", "-D", str(self._data), "-m", "immediate")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend its processes: connections stay, and no question is answered."""
        processes = self._processes()
        for each in processes:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                with suppress(ProcessLookupError):  # one whose client is gone ends as soon as the first goes on
                    os.kill(each, signal.SIGCONT)

    def _processes(self) -> list[int]:
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._databases += 1
        name = f"history{self._databases}"
        self._run("createdb", "-h", str(self.directory), "-U", "dra", name)
        return f"postgresql://dra@/{name}?host={self.directory}"

    def query(self, url: str, statement: str) -> str:
        """Output of psql."""
        name = url.partition("?")[0].rpartition("/")[2]
        return self._run("psql", "-h", str(self.directory), "-U", "dra", "-At", "-c", statement, name)

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        # PostgreSQL does not run as root.
        options: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        log = self.directory / f"{program}.log"
        # Not a pipe: the server would keep it open.
        with log.open("w") as output:
            done = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, cwd="/", timeout=_SECONDS, check=False, **options
            )
        assert done.returncode == 0, f"{' '.join(command)}: {log.read_text()}"
        return log.read_text().strip()


def _programs() -> Path:
    found = sorted(Path(_DIRECTORIES).glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        raise NoPostgresql(
            f"PostgreSQL is not installed ({_DIRECTORIES} is missing); Debian: apt-get install postgresql"
        )
    return found[-1]


@contextmanager
def postgresql_server(directory: Path) -> Iterator[PostgresqlServer]:
    """A server that runs.

    Raises
    ------
    NoPostgresql
    """
    server = PostgresqlServer(_programs(), directory)
    server.initialize()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)

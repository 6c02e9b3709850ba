"""Programs as a container runs them: a read-only root, a user that is not root, no rights, a few variables."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.images.containerfile import ROOT

TOOLS: Final = ("unshare", "setpriv", "chroot", "mount")
_USER = "1000"
#: The first argument is an empty directory; then `<outside>:<inside>` for folders that can be written; then read-only
#: paths; after `--`, the command. All mounts end with the process.
_SCRIPT = """
root=$1; shift
mount -t tmpfs -o mode=755 tmpfs "$root"
bind() { mkdir -p "$root$2"; mount --bind "$1" "$root$2"; }
while [ "$1" != -- ]; do
  case $1 in
    *:*) bind "${1%%:*}" "${1##*:}" ;;
    *) bind "$1" "$1"; mount -o remount,bind,ro "$root$1" ;;
  esac
  shift
done
shift
for name in bin lib lib64 sbin; do [ ! -L "/$name" ] || ln -s "usr/$name" "$root/$name"; done
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
: > "$root/dev/null"; mount --bind /dev/null "$root/dev/null"
: > "$root/dev/urandom"; mount --bind /dev/urandom "$root/dev/urandom"
mount -o remount,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid USER --regid USER --clear-groups --bounding-set=-all --no-new-privs -- "$@"
""".replace("USER", _USER)


def unavailable() -> str:
    """Why this machine cannot do it; empty if it can."""
    if os.geteuid() != 0:
        return "needs root for mounts"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def start(
    directory: Path,
    writable: Mapping[Path, str],
    readable: Sequence[Path],
    command: Sequence[str],
    environment: Mapping[str, str],
    log: IO[bytes],
) -> subprocess.Popen[bytes]:
    """Start a program of this environment.

    Parameters
    ----------
    directory
        An empty one, which becomes the root.
    writable
        Directories of this machine, and where the program sees them.
    readable
        Files and directories besides those of Python.
    """
    for path in writable:
        os.chown(path, int(_USER), int(_USER))
    system = [Path("/usr"), *(Path(name) for name in ("/lib", "/lib64") if not Path(name).is_symlink())]
    paths = [*system, Path(sys.base_prefix), Path(sys.prefix), ROOT / "dra_spawner", *readable]
    read_only = [str(path) for path in paths if not any(other in path.parents for other in paths)]
    mounts = [f"{outside}:{inside}" for outside, inside in writable.items()]
    script = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _SCRIPT, "sh", str(directory)]
    variables = {
        "PATH": f"{Path(sys.prefix, 'bin')}:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    given = [*script, *mounts, *read_only, "--", *command]
    return subprocess.Popen(given, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def stop(process: subprocess.Popen[bytes], within_seconds: float = 120.0) -> int:
    """End a program as the kubelet does; returns its exit code.

    ``unshare`` ignores the signal, and its own end would not end the program, which has another user.
    """
    if (code := process.poll()) is not None:
        return code
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)
        try:
            return process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            continue
    raise TimeoutError(f"process {process.pid} does not end")

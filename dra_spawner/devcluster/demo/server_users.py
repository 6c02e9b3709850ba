"""Users of this machine as whom the demo's servers run, apart from the one who started the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dra_spawner.devcluster.kubelet.process_user import can_switch_users

#: Numbers that neither Linux distributions nor systemd give to any user.
FIRST_UID = 60_600
NUMBER_OF_UIDS = 500
_PROBE_SECONDS = 20
#: Found and readable is enough; importing them takes seconds.
_PROBE = """
import importlib.util, os, pathlib
for name in ("jupyterhub", "jupyterlab", "jupyter_server", "dra_spawner"):
    pathlib.Path(importlib.util.find_spec(name).origin).read_bytes()
pathlib.Path(os.environ["HOME"], "probe").touch()
"""


def uid_of(hub_user: int) -> int:
    """User of this machine for a user of the hub, by the latter's number in the hub's database."""
    return FIRST_UID + hub_user % NUMBER_OF_UIDS


def why_not_apart(directory: Path) -> str:
    """Why servers run as the user who started the demo, as a sentence; empty if they run as others.

    Parameters
    ----------
    directory
        Where servers have their files; made accessible to their users.
    """
    if not can_switch_users():
        return "Only root on Linux can run them as others."
    directory.chmod(0o711)
    home = directory / "probe"
    home.mkdir(mode=0o700)
    os.chown(home, FIRST_UID, FIRST_UID)
    try:
        probe = subprocess.run(  # noqa: S603 - a program of our own
            [sys.executable, "-c", _PROBE],
            cwd="/",
            env={"HOME": str(home), "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            user=FIRST_UID,
            group=FIRST_UID,
            extra_groups=[],
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return f"Another user cannot run {sys.executable}."
    finally:
        shutil.rmtree(home)
    return f"Another user cannot read what is installed in {sys.prefix}." if probe.returncode else ""


def about_servers(why_not_apart: str) -> str:
    """A server's access to this machine, for a person who gives others access."""
    if why_not_apart:
        return f"""  Servers are processes of this machine and run as you do: whoever uses one can read your files,
  the hub's token and its database. Let in only people to whom you would give your own account.
  {why_not_apart}

"""
    return """  Servers are processes of this machine. They run as users of their own, who cannot read the hub's
  token or your private files, but they share its network, its processors and its memory.

"""

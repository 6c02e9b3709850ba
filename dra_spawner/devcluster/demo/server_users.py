"""Separate users of this machine for the demo's servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dra_spawner.devcluster.kubelet.process_user import can_switch_users

#: First of the uids for servers; neither Linux distributions nor systemd use them.
FIRST_UID = 60_600
NUMBER_OF_UIDS = 500
#: Far above what the probe needs: if a busy machine were too slow for it, servers would run as the demo's own user.
_PROBE_SECONDS = 120
#: Program that checks whether a user can read the packages; importing them would take seconds.
_PROBE = """
import importlib.util, os, pathlib
for name in ("jupyterhub", "jupyterlab", "jupyter_server", "dra_spawner"):
    pathlib.Path(importlib.util.find_spec(name).origin).read_bytes()
pathlib.Path(os.environ["HOME"], "probe").touch()
"""


def uid_of(hub_user: int) -> int:
    """The uid for the servers of a hub's user, by the user's number in the hub's database."""
    return FIRST_UID + hub_user % NUMBER_OF_UIDS


def why_same_user(directory: Path) -> str:
    """Sentence on why servers run as the user who started the demo; empty if they run as separate users.

    Parameters
    ----------
    directory
        Directory of the servers' files; made accessible to their users.
    """
    if not can_switch_users():
        return "Only root on Linux can run them as separate users."
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


def about_servers(why_same_user: str) -> str:
    """Text about a server's access to this machine, for a person who lets others use the demo."""
    if why_same_user:
        return f"""  Servers are processes of this machine and run as you: each user of a server can read your files,
  the hub's token and its database. Let in only people to whom you would give your own account.
  {why_same_user}

"""
    return """  Servers are processes of this machine. They run as separate users, which cannot read the hub's token
  or your private files, but they share its network, its processors and its memory.

"""

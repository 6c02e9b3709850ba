"""A real JupyterLab with the extension as the server of a hub's users."""

from __future__ import annotations

import os
from pathlib import Path

import dra_spawner

__all__ = ["jupyterlab"]

PACKAGE = Path(dra_spawner.__file__).parent / "user_server"


def _installed(directory: Path) -> dict[str, str]:
    """Variables by which Jupyter finds the extension, laid out as in the wheel."""
    labextensions = directory / "share" / "labextensions"
    settings = directory / "etc" / "jupyter_server_config.d"
    for path in (labextensions, settings, directory / "home"):
        path.mkdir(parents=True)
    (labextensions / "dra-spawner").symlink_to(PACKAGE / "labextension")
    (settings / "dra-spawner.json").symlink_to(PACKAGE / "jupyter_server_config.json")
    home = {"HOME": str(directory / "home"), "JUPYTER_CONFIG_DIR": str(directory / "home" / "jupyter")}
    return {"JUPYTER_PATH": str(labextensions.parent), "JUPYTER_CONFIG_PATH": str(settings.parent), **home}


def jupyterlab(directory: Path) -> str:
    """Configuration of a hub whose servers are JupyterLab."""
    return f"""
import sys
c.DRASpawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.DRASpawner.args = {["--allow-root"] if os.geteuid() == 0 else []!r}
c.DRASpawner.default_url = "/lab"
c.DRASpawner.start_timeout = 120
c.DRASpawner.http_timeout = 180
c.DRASpawner.environment = {_installed(directory)!r}
"""

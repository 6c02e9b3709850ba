"""The extension of JupyterLab, where Jupyter finds it."""

from __future__ import annotations

from pathlib import Path

import dra_spawner

__all__ = ["installed"]

PACKAGE = Path(dra_spawner.__file__).parent / "user_server"


def installed(directory: Path) -> dict[str, str]:
    """Variables by which Jupyter finds the extension, laid out as in the wheel."""
    labextensions = directory / "share" / "labextensions"
    settings = directory / "etc" / "jupyter_server_config.d"
    for path in (labextensions, settings, directory / "home"):
        path.mkdir(parents=True)
    (labextensions / "dra-spawner").symlink_to(PACKAGE / "labextension")
    (settings / "dra-spawner.json").symlink_to(PACKAGE / "jupyter_server_config.json")
    home = {"HOME": str(directory / "home"), "JUPYTER_CONFIG_DIR": str(directory / "home" / "jupyter")}
    return {"JUPYTER_PATH": str(labextensions.parent), "JUPYTER_CONFIG_PATH": str(settings.parent), **home}

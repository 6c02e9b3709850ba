"""The extension of Jupyter Server and the panel lie where Jupyter finds them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dra_spawner

PACKAGE = Path(dra_spawner.__file__).parent / "user_server"
SHARED = {
    "dra_spawner/user_server/labextension": "share/jupyter/labextensions/dra-spawner",
    "dra_spawner/user_server/jupyter_server_config.json": "etc/jupyter/jupyter_server_config.d/dra-spawner.json",
}


def read(name: str) -> Any:
    return json.loads((PACKAGE / name).read_text())


def test_the_wheel_puts_both_where_jupyter_looks():
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"] == SHARED
    assert all((PACKAGE.parents[1] / path).exists() for path in SHARED)


def test_the_server_can_load_the_extension():
    utils = pytest.importorskip("jupyter_server.extension.utils")
    (name,) = read("jupyter_server_config.json")["ServerApp"]["jpserver_extensions"]
    assert name == "dra_spawner.user_server.jupyter_extension"
    assert utils.validate_extension(name)


def test_the_panel_is_the_file_that_its_description_names():
    description = read("labextension/package.json")
    build = description["jupyterlab"]["_build"]
    script = (PACKAGE / "labextension" / build["load"]).read_text()
    assert f'window._JUPYTERLAB["{description["name"]}"]' in script
    assert f'"{build["extension"]}"' in script

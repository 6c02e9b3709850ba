"""The extension of Jupyter Server and the panel lie where Jupyter finds them."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dra_spawner
from tests.polling import eventually

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


async def test_after_a_page_is_gone_the_next_one_waits_for_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jupyter_server")
    extension = importlib.import_module("dra_spawner.user_server.jupyter_extension")
    asked, goes_on, at_work = list[int](), threading.Event(), Counter[str]()

    def ask(_: object) -> str:
        at_work["now"] += 1
        at_work["most"] = max(at_work["most"], at_work["now"])
        asked.append(len(asked) + 1)
        goes_on.wait()
        at_work["now"] -= 1
        return f"answer {len(asked)}"

    monkeypatch.setattr(extension, "devices_of_server", ask)
    last = extension.LastAnswer()
    gone = asyncio.ensure_future(last.get())
    await eventually(lambda: bool(asked), "it asks")
    gone.cancel()
    await asyncio.wait((gone,))
    pages = [asyncio.ensure_future(last.get()) for _ in range(2)]
    await asyncio.wait(pages, timeout=0.05)
    under_way = [*asked]
    goes_on.set()  # also where the assertion fails
    assert under_way == [1], "the first question is under way"
    assert await asyncio.gather(*pages) == ["answer 2", "answer 2"]
    assert at_work["most"] == 1


def test_the_panel_is_the_file_that_its_description_names():
    description = read("labextension/package.json")
    build = description["jupyterlab"]["_build"]
    script = (PACKAGE / "labextension" / build["load"]).read_text()
    assert f'window._JUPYTERLAB["{description["name"]}"]' in script
    assert f'"{build["extension"]}"' in script

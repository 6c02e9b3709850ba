"""The kernel of the first notebook, in a real Jupyter Server."""

from __future__ import annotations

import importlib
import json
import logging
from pathlib import Path

import pytest

from dra_spawner.user_server.first_kernel import WANTED, first_notebook, start_first_kernel
from tests.all_of_them import all_of_them

PATHS = {
    "/lab/tree/start.ipynb": "start.ipynb",
    "/lab/tree/first%20week/start.ipynb?reset#top": "first week/start.ipynb",
    "/doc/tree/start.ipynb": "start.ipynb",
    "/notebooks/start.ipynb": "start.ipynb",
    "/lab/tree/start.md": "",
    "/lab": "",
    "/tree/start.ipynb": "",
    "": "",
}


@all_of_them("address, path", PATHS.items())
def test_only_a_notebook_has_a_first_kernel(address: str, path: str) -> None:
    variables = {"JUPYTERHUB_DEFAULT_URL": address}
    assert first_notebook(variables | {WANTED: "1"}) == path
    assert first_notebook(variables) == first_notebook(variables | {WANTED: "0"}) == ""


async def test_jupyterlab_finds_the_session_of_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("ipykernel")
    app = importlib.import_module("jupyter_server.serverapp")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = {"cells": [], "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "start.ipynb").write_text(json.dumps(notebook))
    server = app.ServerApp(root_dir=str(tmp_path), open_browser=False, port=0)
    server.initialize(argv=[], find_extensions=False, new_httpserver=False)
    try:
        for _ in range(2):
            await start_first_kernel(server, "start.ipynb")
        (session,) = await server.session_manager.list_sessions()
        assert (session["path"], session["type"], session["kernel"]["name"]) == ("start.ipynb", "notebook", "python3")
        with caplog.at_level(logging.WARNING):
            await start_first_kernel(server, "none.ipynb")
        assert "The kernel of none.ipynb is not started" in caplog.text
        assert len(await server.session_manager.list_sessions()) == 1
    finally:
        await server.kernel_manager.shutdown_all()

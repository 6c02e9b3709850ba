"""The kernel of the notebook with which JupyterLab opens, started while the page still loads.

JupyterLab asks for a kernel when its page has been loaded. Where the hub's ``default_url`` is a notebook, the server
knows before which kernel the page will ask for. JupyterLab finds the running session by the notebook's path.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

#: Set to 1, a server starts the kernel of its first notebook by itself.
WANTED: Final = "DRA_SPAWNER_FIRST_KERNEL"
_PAGES: Final = ("/lab/tree/", "/doc/tree/", "/notebooks/")
_SUFFIX: Final = ".ipynb"
log = logging.getLogger(__name__)


def first_notebook(environment: Mapping[str, str]) -> str:
    """Path of the notebook with which the server opens, if its kernel is to be started; else empty.

    Parameters
    ----------
    environment
        Variables of the server. JupyterHub sets ``JUPYTERHUB_DEFAULT_URL`` from the spawner's ``default_url``.
    """
    address = environment.get("JUPYTERHUB_DEFAULT_URL", "").partition("?")[0].partition("#")[0]
    if environment.get(WANTED) != "1" or not address.endswith(_SUFFIX):
        return ""
    return next((unquote(address.removeprefix(each)) for each in _PAGES if address.startswith(each)), "")


async def start_first_kernel(server: Any, path: str) -> None:
    """Start the kernel of a notebook of a `jupyter_server.serverapp.ServerApp`, as JupyterLab would. Never raises."""
    try:
        sessions = server.session_manager
        if await sessions.session_exists(path=path):
            return
        notebook = await _awaited(server.contents_manager.get(path, content=True, type="notebook"))
        # Without one, the server's default is taken.
        kernel = notebook["content"].get("metadata", {}).get("kernelspec", {}).get("name")
        name = path.rpartition("/")[2]
        await sessions.create_session(path=path, name=name, type="notebook", kernel_name=kernel)
    except Exception as error:  # whatever a server's own managers raise: JupyterLab asks for the kernel itself
        log.warning("The kernel of %s is not started before its page is there: %s", path, error)


async def _awaited(found: Any) -> Any:
    return await found if hasattr(found, "__await__") else found

"""Extension of Jupyter Server: ``GET {server}/dra-spawner/devices`` for the panel of JupyterLab.

The panel cannot ask the hub itself, as the server's token must not reach the browser.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from dra_spawner import names
from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.user_server.own_devices import devices_of_server, is_hub_server
from dra_spawner.user_server.shown_devices import ShownDevices

__all__ = ["DevicesHandler", "LastAnswer"]

_ADDRESS: Final = (names.PROJECT, "devices")
#: Several pages of a user share one answer of this age.
_LONGEST_AGE_SECONDS: Final = 5.0


class LastAnswer:
    """The devices, asked for by one page at a time."""

    def __init__(self) -> None:
        self._turns = ThreadTurns()
        self._found: ShownDevices | None = None
        self._asked_at = 0.0

    async def get(self) -> ShownDevices:
        async with self._turns.turn() as turn:
            if self._found is None or time.monotonic() - self._asked_at > _LONGEST_AGE_SECONDS:
                self._asked_at = time.monotonic()
                self._found = await turn.run(devices_of_server, os.environ)
            return self._found


class DevicesHandler(APIHandler):
    """Answers the panel."""

    def initialize(self, last: LastAnswer) -> None:
        """Take the answer that all requests share."""
        self._last = last

    @web.authenticated
    async def get(self) -> None:
        """Write the devices as JSON."""
        self.set_header("Cache-Control", "no-store")
        self.finish((await self._last.get()).as_json())


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    if not is_hub_server(os.environ):
        return  # without an address, the panel does not appear
    address = url_path_join(server.web_app.settings["base_url"], *_ADDRESS)
    server.web_app.add_handlers(".*$", [(address, DevicesHandler, {"last": LastAnswer()})])

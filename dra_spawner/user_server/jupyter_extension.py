"""Extension of Jupyter Server: addresses for JupyterLab's panel, reports about kernels, and the first kernel.

``GET {server}/dra-spawner/devices`` and ``POST {server}/dra-spawner/keep``.

The panel cannot ask the hub itself, as the server's token must not reach the browser.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.ioloop import IOLoop, PeriodicCallback

from dra_spawner import names
from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.user_server.activity_reports import ActivityReports, activity_of_server
from dra_spawner.user_server.first_kernel import WANTED, first_notebook, start_first_kernel
from dra_spawner.user_server.hub_question import NotKnown, hub_json
from dra_spawner.user_server.own_devices import devices_of_server, is_hub_server
from dra_spawner.user_server.shown_devices import ShownDevices

_ADDRESS: Final = (names.PROJECT, "devices")
_KEEP: Final = (names.PROJECT, "keep")
_KEEP_AT_HUB: Final = "dra-spawner/keep"
_LOOK_MILLISECONDS: Final = 1000
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

    def initialize(self, last: LastAnswer, reports: ActivityReports) -> None:
        """Take the answer that all requests share."""
        self._last, self._reports = last, reports

    @web.authenticated
    async def get(self) -> None:
        """Write the devices as JSON."""
        self.set_header("Cache-Control", "no-store")
        self.finish({**(await self._last.get()).as_json(), "idle": self._reports.warning})


class KeepHandler(APIHandler):
    """Keeps a server that is about to be stopped for being idle, as its user has clicked "I still need it"."""

    def initialize(self, turns: ThreadTurns, reports: ActivityReports) -> None:
        """Take what all requests share."""
        self._turns, self._reports = turns, reports

    @web.authenticated
    async def post(self) -> None:
        """Tell the hub; its refusal is a sentence for the user."""
        self.set_header("Cache-Control", "no-store")
        try:
            async with self._turns.turn() as turn:
                await turn.run(lambda environment: hub_json(environment, _KEEP_AT_HUB, {}), os.environ)
        except NotKnown as unknown:
            self.finish({"kept": False, "sentence": unknown.message or str(unknown)})
            return
        self._reports.warning = None
        self.finish({"kept": True, "sentence": ""})


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    path = first_notebook(os.environ)
    os.environ.pop(WANTED, None)  # kernels need not have it
    if path:
        # The loop may not run yet.
        IOLoop.current().add_callback(start_first_kernel, server, path)
    if not is_hub_server(os.environ):
        return  # without an address, the panel does not appear
    base, reports = server.web_app.settings["base_url"], ActivityReports(os.environ, lambda: activity_of_server(server))
    devices, keep = url_path_join(base, *_ADDRESS), url_path_join(base, *_KEEP)
    server.web_app.add_handlers(
        ".*$",
        [
            (devices, DevicesHandler, {"last": LastAnswer(), "reports": reports}),
            (keep, KeepHandler, {"turns": ThreadTurns(), "reports": reports}),
        ],
    )
    if os.environ.get("JUPYTERHUB_API_URL"):
        looks = PeriodicCallback(reports.look, _LOOK_MILLISECONDS)
        IOLoop.current().add_callback(looks.start)

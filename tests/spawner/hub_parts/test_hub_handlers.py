"""What our handlers in the hub write into its log."""

from __future__ import annotations

import logging

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application, HTTPError

from dra_spawner.spawner.availability.availability_handler import AvailabilityHandler
from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.my_devices.my_devices_handler import DevicesHandler
from dra_spawner.spawner.user_pages.start_handler import StartHandler
from tests.all_of_them import all_of_them


class _Connection:
    """As far as a handler looks at it before it answers."""

    context = None

    def set_close_callback(self, callback: object) -> None:
        pass


@all_of_them("kind", [DevicesHandler, AvailabilityHandler, StartHandler])
def test_no_query_is_logged(kind: type[QuietHandler], caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    asked = HTTPServerRequest(
        headers=HTTPHeaders({"Host": "localhost"}),
        connection=_Connection(),  # type: ignore[arg-type]
        start_line=RequestStartLine("GET", "/hub/dra-spawner/x?token=secret", "HTTP/1.1"),
    )
    handler = kind(Application(headers={"Content-Security-Policy": "x"}, log=logging.getLogger("hub")), asked)
    handler.log_exception(HTTPError, HTTPError(403, "No."), None)
    handler.log_exception(KeyError, KeyError("x"), None)
    assert caplog.text.count("/hub/dra-spawner/x") == 2
    assert "secret" not in caplog.text

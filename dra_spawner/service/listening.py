"""The interface to listen on, and the log of requests."""

from __future__ import annotations

import ipaddress
import logging
from typing import Any

from tornado.log import access_log

__all__ = ["interface_of", "log_request"]


def interface_of(host: str) -> str:
    """The address to listen on for the host of a URL; empty for all interfaces."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def log_request(handler: Any) -> None:
    """Log a request: errors of the service at level warning, errors of the client at info, others at debug."""
    status = handler.get_status()
    level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.WARNING
    if status == 503 and handler.request.path.endswith("/readyz"):
        level = logging.DEBUG
    request = handler.request
    # Without the query, which may hold the code of a login.
    access_log.log(level, "%s %s %s %.0f ms", status, request.method, request.path, 1000 * request.request_time())

"""Where the service listens, and what it says of requests."""

from __future__ import annotations

import ipaddress
import logging
from typing import Any

from tornado.log import access_log

__all__ = ["interface_of", "log_request"]


def interface_of(host: str) -> str:
    """What to listen on, so that `host` is answered; empty for all interfaces."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def log_request(handler: Any) -> None:
    """Tell of what failed; that all went well matters only to who debugs."""
    status = handler.get_status()
    level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.WARNING
    if status == 503 and handler.request.path.endswith("/readyz"):
        level = logging.DEBUG
    request = handler.request
    # Not the query: it may hold what a login came with.
    access_log.log(level, "%s %s %s %.0f ms", status, request.method, request.path, 1000 * request.request_time())

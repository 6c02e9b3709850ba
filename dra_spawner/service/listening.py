"""The interface to listen on, and the logs."""

from __future__ import annotations

import ipaddress
import logging
from typing import Any

from tornado.log import access_log

__all__ = ["interface_of", "join_logs", "log_request"]


def interface_of(host: str) -> str:
    """The address to listen on for the host of a URL; empty for all interfaces."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def join_logs(parent: logging.Logger) -> None:
    """Send the log of libraries and of our own modules to the log of the application."""
    for name in ("dra_spawner", "tornado", "kubernetes_asyncio", "asyncio"):
        logger = logging.getLogger(name)
        logger.propagate = True
        logger.parent = parent
    logging.getLogger("dra_spawner").setLevel(parent.level)
    # It logs malformed requests with their headers, which may hold cookies or a token.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    # It warns of optional files that are missing.
    logging.getLogger("kubernetes_asyncio.config").setLevel(logging.ERROR)


def log_request(handler: Any) -> None:
    """Log a request: errors of the service at level warning, errors of the client at info, others at debug."""
    status = handler.get_status()
    level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.WARNING
    if status == 503 and handler.request.path.endswith("/readyz"):
        level = logging.DEBUG
    request = handler.request
    # Without the query, which may hold the code of a login.
    access_log.log(level, "%s %s %s %.0f ms", status, request.method, request.path, 1000 * request.request_time())

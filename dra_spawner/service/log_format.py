"""The service's log: its form, which libraries write into it, and requests."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from tornado.log import LogFormatter, access_log

#: Value of ``log_format`` for JSON.
JSON: Final = "json"


class ServiceLogFormatter(LogFormatter):
    """Formats a record as ``log_format`` says: `JSON`, or a format of ``logging``."""

    def __init__(
        self, fmt: str = JSON, datefmt: str = LogFormatter.DEFAULT_DATE_FORMAT, style: str = "%", **options: Any
    ) -> None:
        self._is_json = fmt.strip().lower() == JSON
        super().__init__(
            fmt=LogFormatter.DEFAULT_FORMAT if self._is_json else fmt, datefmt=datefmt, style=style, **options
        )

    def format(self, record: logging.LogRecord) -> str:
        """The line or lines of a record; JSON is always one line."""
        if not self._is_json:
            return super().format(record)
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message_of(record),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return json.dumps(found)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # a wrong argument must not lose the line, as in tornado's formatter
        return f"Bad message ({error!r}): {record.msg!r}"


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

"""The service's log: lines for people, or one JSON object a line for programs that collect logs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from tornado.log import LogFormatter

__all__ = ["JSON", "ServiceLogFormatter"]

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

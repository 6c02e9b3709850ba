"""The base of this project's handlers in the hub's web application."""

from __future__ import annotations

from types import TracebackType

from jupyterhub.handlers import BaseHandler
from tornado.web import HTTPError


class QuietHandler(BaseHandler):
    """A handler that logs no query, in which somebody may send a token."""

    def _request_summary(self) -> str:
        return f"{self.request.method} {self.request.path} ({self.request.remote_ip})"

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log an error. The parent's method logs the whole request of an unexpected one."""
        if isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)
        else:
            self.log.error("Uncaught exception: %s", self._request_summary(), exc_info=value)

"""Base of all handlers: protection against bodies, invalid text and secrets in addresses."""

from __future__ import annotations

import logging
from http import HTTPStatus
from types import TracebackType

from tornado.web import HTTPError, RequestHandler, stream_request_body

__all__ = ["GuardedHandler", "sentence_of"]

log = logging.getLogger(__name__)

#: Message by status, where the error has none.
_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not answer to this method.",
    500: "Something went wrong in the service; its log says what.",
    502: "JupyterHub could not be asked who you are.",
    503: "The service is not ready to answer this.",
}


@stream_request_body
class GuardedHandler(RequestHandler):
    """Reads no body before `prepare` is done, and then drops it, unless `data_received` keeps it."""

    def data_received(self, chunk: bytes) -> None:
        """Drop it."""

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Text of the address.

        Raises
        ------
        HTTPError
            400 if it is no UTF-8, or has control characters.
        """
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise HTTPError(400, "%s: found bytes that are no UTF-8; allowed: text.", name or "address") from None
        if any(each < " " and each not in "\t\r\n" for each in text):
            raise HTTPError(400, "%s: found a control character; allowed: text.", name or "address")
        return text

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log without the query, unlike the parent: it may hold the code of a login, or a token."""
        request = self.request
        method, path = _one_line(request.method or ""), _one_line(request.path)
        if not isinstance(value, HTTPError):
            log.error("Uncaught exception: %s %s", method, path, exc_info=value)
            return
        level = logging.DEBUG if value.status_code < 500 else logging.INFO
        sentence = _one_line(sentence_of(value.status_code, value))
        log.log(level, "Refused: %s %s %s: %s", value.status_code, method, path, sentence)


def sentence_of(status: int, error: BaseException | None) -> str:
    """Message of an answer: that of an `HTTPError`, never the text of another error."""
    if isinstance(error, HTTPError) and error.log_message and status != 500:
        message = error.log_message % error.args if error.args else error.log_message
        return str(message)
    if status in _SENTENCES:
        return _SENTENCES[status]
    try:
        return f"{HTTPStatus(status).phrase}."
    except ValueError:
        return "Something went wrong."


def _one_line(text: str) -> str:
    """Text in one printable line, for the log."""
    return text if text.isascii() and text.isprintable() else ascii(text)

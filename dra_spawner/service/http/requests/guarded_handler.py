"""Base of all handlers: it limits bodies, refuses invalid text, keeps secrets out of the log, and writes JSON."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Final, NoReturn

from tornado.web import HTTPError, RequestHandler, stream_request_body

log = logging.getLogger(__name__)

_JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"
_STATUSES: Final = frozenset(HTTPStatus)
#: Message of each status, for errors without a message.
_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not answer to this method.",
    500: "The service has failed. Its log has the cause.",
    502: "JupyterHub did not answer the question who you are.",
    503: "The service is not ready to answer this.",
}


def etag_of(body: Any) -> str:
    """The ETag that a ``GET`` of this JSON has, as tornado computes it."""
    return f'"{hashlib.sha1(_encoded(body), usedforsecurity=False).hexdigest()}"'


def _encoded(body: Any) -> bytes:
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


@stream_request_body
class GuardedHandler(RequestHandler):
    """Reads no body before `prepare` is done, and then drops it, unless a subclass overrides `data_received`."""

    _refusal_headers: Mapping[str, str] = MappingProxyType({})

    def data_received(self, chunk: bytes) -> None:
        """Drop a part of the body."""

    def refuse(self, status: int, message: str | None = None, **headers: str) -> NoReturn:
        """Answer an error with headers, in which ``_`` stands for ``-``.

        Raises
        ------
        HTTPError
            Always. Without this method tornado drops headers that were set before an error.
        """
        self._refusal_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        raise HTTPError(status, message)

    def clear(self) -> None:
        """Drop the answer that was begun, but not the headers of a refusal."""
        super().clear()
        for name, value in self._refusal_headers.items():
            self.set_header(name, value)

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """A decoded part of the address.

        Raises
        ------
        HTTPError
            400 if it is not UTF-8, or has control characters.
        """
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise HTTPError(400, "%s: found bytes that are not UTF-8; allowed: text.", name or "address") from None
        if any(each < " " and each not in "\t\r\n" for each in text):
            raise HTTPError(400, "%s: found a control character; allowed: text.", name or "address")
        return text

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.write_problem(status_code, sentence_of(status_code, error))

    def write_problem(self, status: int, detail: str, **more: str) -> None:
        """Answer with a problem, as in RFC 9457."""
        self.set_status(status)
        title = HTTPStatus(status).phrase if status in _STATUSES else "Problem"
        self.write_json({"type": "about:blank", "title": title, "status": status, "detail": detail, **more}, _PROBLEM)

    def write_json(self, body: Any, media_type: str = _JSON) -> None:
        """Answer with JSON in ASCII, which can also express text that is not valid Unicode."""
        self.write_encoded(_encoded(body), media_type)

    def write_version(self, body: Any) -> None:
        """Answer a change with what a ``GET`` answers now, and its ETag, for the next change."""
        self.set_header("ETag", etag_of(body))
        self.write_json(body)

    def write_encoded(self, body: bytes, media_type: str = _JSON) -> None:
        """Answer with JSON that is encoded already."""
        self.set_header("Content-Type", media_type)
        self.finish(body)

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log an error. The parent's method logs the query, too, which may have the code of a login, or a token."""
        request = self.request
        method, path = _one_line(request.method or ""), _one_line(request.path)
        if not isinstance(value, HTTPError):
            log.error("Uncaught exception: %s %s", method, path, exc_info=value)
            return
        level = logging.DEBUG if value.status_code < 500 else logging.INFO
        sentence = _one_line(sentence_of(value.status_code, value))
        log.log(level, "Refused: %s %s %s: %s", value.status_code, method, path, sentence)


def sentence_of(status: int, error: BaseException | None) -> str:
    """Message of an answer: the message of an `HTTPError`, never the text of another error."""
    if isinstance(error, HTTPError) and error.log_message and status != 500:
        message = error.log_message % error.args if error.args else error.log_message
        return str(message)
    if status in _SENTENCES:
        return _SENTENCES[status]
    try:
        return f"{HTTPStatus(status).phrase}."
    except ValueError:
        return "The request has failed."


def _one_line(text: str) -> str:
    """The text as one printable line, for the log."""
    return text if text.isascii() and text.isprintable() else ascii(text)

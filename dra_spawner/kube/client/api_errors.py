"""Errors of requests to a Kubernetes API server, translated once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Verb and object of a request, for messages.

    Attributes
    ----------
    verb
        Kubernetes' verb (``get``, ``create``, ``watch`` …).
    kind
        The resource as the path spells it, with its subresource: ``pods``, ``pods/status``.
    namespace, name
        Empty where the request names none.
    """

    verb: str
    kind: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def from_path(cls, verb: str, path: str, body: object = None) -> RequestTarget:
        """From the path of the request; the name of a new object is in its body."""
        parts = path.strip("/").split("/")
        # /api/v1/… or /apis/<group>/<version>/…
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        kind = rest[0] if rest else path
        name = rest[1] if len(rest) > 1 else ""
        if len(rest) > 2:
            kind = f"{kind}/{'/'.join(rest[2:])}"
        if not name and isinstance(body, Mapping) and isinstance(body.get("metadata"), Mapping):
            name = body["metadata"].get("name") or body["metadata"].get("generateName") or ""
        return cls(verb, kind, namespace, name)

    def __str__(self) -> str:
        text = f"{self.verb} {self.kind}"
        if self.name:
            text += f" {self.name!r}"
        if self.namespace:
            text += f" in namespace {self.namespace!r}"
        return text


class KubernetesError(Exception):
    """The API server refused a request, or did not answer.

    Attributes
    ----------
    status
        HTTP status; 0 if no answer came.
    reason
        Machine-readable, as in ``metav1.Status.reason``: ``NotFound``, ``AlreadyExists``, ``Conflict``,
        ``Invalid``, ``Forbidden``, ``Expired`` …
    message
        The API server's message, for people.
    kind, namespace, name
        Of the object; see `RequestTarget`.
    retry_after_seconds
        Seconds that the server asks to wait before the next try, which a proxy may make days; None if it names none.
    missing
        Name of the object of which the API server says that it does not exist; empty for any other answer.
    """

    def __init__(
        self,
        target: RequestTarget,
        *,
        status: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        missing: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.verb = target.verb
        self.kind = target.kind
        self.namespace = target.namespace
        self.name = target.name
        self.retry_after_seconds = retry_after_seconds
        self.missing = missing
        answer = f"{status} {reason}" if status else reason
        super().__init__(f"{target}: {answer}: {message}")

    @property
    def not_found(self) -> bool:
        """Whether the object does not exist: a 404 that names it, or one of a path without a name, as of discovery.

        Any other 404 is a failure (`is_unserved`).
        """
        return self.status == 404 and (bool(self.missing) or (self.verb == "get" and not self.name))

    @property
    def is_unserved(self) -> bool:
        """Whether a 404 to a collection or an object names no object.

        It says nothing of objects: the replica that answered may not serve the kind yet, or a load balancer has lost
        its route.
        """
        return self.status == 404 and not self.not_found

    @property
    def already_exists(self) -> bool:
        """Whether an object of that name exists already (409 ``AlreadyExists``)."""
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Whether the object has another version by now, or a precondition failed (409 ``Conflict``)."""
        return self.reason == "Conflict"

    @property
    def other_uid(self) -> bool:
        """Whether another object has the name by now: the patch named another uid (422 about ``metadata.uid``)."""
        return self.status == 422 and "metadata.uid: Invalid value" in self.message

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later though nothing is changed."""
        return self.status in (0, 408, 429) or self.status >= 500 or self.is_unserved

    @property
    def repeat_seconds(self) -> float | None:
        """Seconds after which the same request may be sent again whatever it is; None if it must not be.

        429 says that nothing was done, so each request may be repeated, creates included. After 503 and 504 a proxy may
        have passed the request on: only reads are repeated. Without a time from the server none is.
        """
        is_read = self.verb in ("get", "list")
        return self.retry_after_seconds if self.status == 429 or (is_read and self.status in (503, 504)) else None


class KubernetesUnavailable(KubernetesError):
    """No answer came: refused, reset, no such host, TLS failed. The server may have carried out the request."""


class KubernetesTimeout(KubernetesUnavailable):
    """No answer came in time. The server may have carried out the request."""


class AnswerTooLarge(KubernetesError):
    """An answer exceeds the limit of the request; it was discarded."""


class ResourceExpired(KubernetesError):
    """The server no longer has the resourceVersion or continue token (410): list again."""


def error_from_status(target: RequestTarget, status: int, body: Mapping[str, Any]) -> KubernetesError:
    """The error that a ``metav1.Status`` object describes.

    Parameters
    ----------
    status
        HTTP status; where it is 200 (an ERROR event of a watch) the object's own ``code`` counts.
    """
    own_code, details = body.get("code"), body.get("details")
    code = status if status >= 400 else own_code if isinstance(own_code, int) and 400 <= own_code < 600 else 500
    retry_after = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    error_class = ResourceExpired if code == 410 else KubernetesError
    missing = details.get("name") if isinstance(details, Mapping) and body.get("reason") == "NotFound" else None
    return error_class(
        target,
        status=code,
        reason=_text(body.get("reason")) or _REASONS.get(code, "Unknown"),
        message=_text(body.get("message")) or "the API server gave no message",
        retry_after_seconds=_seconds(retry_after),
        missing=missing if isinstance(missing, str) else "",
    )


def error_from_response(
    target: RequestTarget, status: int, data: bytes, headers: Mapping[str, str] | None = None
) -> KubernetesError:
    """The error in an HTTP answer, which a proxy with any text may have given instead of the API server."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, Mapping):
        text = data.decode("utf-8", errors="replace").strip()
        body = {"message": text[:500] if text else ""}
    error = error_from_status(target, status, body)
    if error.retry_after_seconds is None and headers is not None:
        error.retry_after_seconds = _seconds(headers.get("Retry-After", ""))
    return error


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """A time to wait from an answer of any form; None if it is no number of seconds above 0."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return None
    return seconds if isfinite(seconds) and seconds > 0.0 else None


# Reasons of apimachinery's pkg/api/errors, for answers without one.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

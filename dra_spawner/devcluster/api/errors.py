"""Errors of the API, in the words of kube-apiserver's ``Status`` objects."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import ResourceType


class ApiError(Exception):
    """Raised for a refused request; `to_status` is the body of the response.

    Parameters
    ----------
    reason
        Kubernetes' machine-readable reason (``NotFound``, ``AlreadyExists``, ``Conflict``, ``Invalid`` ...); may be
        empty.
    message
        The sentence for people.
    details
        ``Status.details``: ``name``, ``group``, ``kind`` (the plural), ``causes``, ``retryAfterSeconds``.
    """

    def __init__(self, status_code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.status_code = int(status_code)
        self.reason = reason
        self.message = message
        self.details = details

    def to_status(self) -> JsonObject:
        """The error as a ``Status`` object (``v1``)."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.status_code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


class CauseType(StrEnum):
    """Kinds of refused field values: ``Status.details.causes[].reason``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One refused field: its path (``spec.devices.requests[0].name``) and the error."""

    cause: CauseType
    field: str
    text: str
    """Without the path, e.g. ``Invalid value: "A": must be lower case``."""

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def required(field: str, detail: str = "") -> FieldError:
    """The field must have a value."""
    return FieldError(CauseType.REQUIRED, field, "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """The value breaks the rule that `detail` states."""
    return FieldError(CauseType.INVALID, field, f"Invalid value: {_shown(value)}: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    """The value occurs twice where it must be unique."""
    return FieldError(CauseType.DUPLICATE, field, f"Duplicate value: {_shown(value)}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is not one of a closed vocabulary, which is listed in the given order."""
    allowed = ", ".join(f'"{word}"' for word in supported)
    return FieldError(
        CauseType.NOT_SUPPORTED, field, f"Unsupported value: {_shown(value)}: supported values: {allowed}"
    )


def not_found_value(field: str, value: Any, detail: str = "") -> FieldError:
    """The value names something that does not exist."""
    text = f"Not found: {_shown(value)}" + (f": {detail}" if detail else "")
    return FieldError(CauseType.NOT_FOUND, field, text)


def forbidden_value(field: str, detail: str) -> FieldError:
    """The field must not be set, or not be changed."""
    return FieldError(CauseType.FORBIDDEN, field, f"Forbidden: {detail}")


def too_many(field: str, count: int, most: int) -> FieldError:
    """The list is longer than `most` items."""
    return FieldError(CauseType.TOO_MANY, field, f"Too many: {count}: must have at most {most} items")


def too_long(field: str, max_bytes: int) -> FieldError:
    """The text is longer than `max_bytes` bytes."""
    return FieldError(CauseType.TOO_LONG, field, f"Too long: may not be more than {max_bytes} bytes")


def _shown(value: Any) -> str:
    """A value as Kubernetes' messages print it."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _object_details(resource_type: ResourceType, name: str) -> JsonObject:
    details: JsonObject = {"name": name} if name else {}
    if resource_type.group:
        details["group"] = resource_type.group
    details["kind"] = resource_type.plural
    return details


def not_found(resource_type: ResourceType, name: str) -> ApiError:
    """404: the object does not exist."""
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{resource_type.qualified_plural} "{name}" not found',
        _object_details(resource_type, name),
    )


def already_exists(resource_type: ResourceType, name: str, *, being_deleted: bool = False) -> ApiError:
    """409: the name is taken."""
    prefix = "object is being deleted: " if being_deleted else ""
    return ApiError(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{prefix}{resource_type.qualified_plural} "{name}" already exists',
        _object_details(resource_type, name),
    )


STALE_OBJECT = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource_type: ResourceType, name: str, why: str = STALE_OBJECT, subresource: str = "") -> ApiError:
    """409: the object is not in the state the request expects."""
    what = resource_type.qualified_plural + (f"/{subresource}" if subresource else "")
    details = _object_details(resource_type, name)
    if subresource:
        details["kind"] += f"/{subresource}"
    return ApiError(
        HTTPStatus.CONFLICT, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}', details
    )


def forbidden(resource_type: ResourceType, name: str, why: str, causes: Sequence[JsonObject] | None = None) -> ApiError:
    """403: the request is valid but not allowed."""
    details = _object_details(resource_type, name)
    if causes:
        details["causes"] = list(causes)
    return ApiError(
        HTTPStatus.FORBIDDEN, "Forbidden", f'{resource_type.qualified_plural} "{name}" is forbidden: {why}', details
    )


def invalid(resource_type: ResourceType, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: fields of the object break the API's rules."""
    resource_type = resource_type.storage  # the kind that was validated
    sentences = list(dict.fromkeys(str(error) for error in errors))
    text = sentences[0] if len(sentences) == 1 else "[" + ", ".join(sentences) + "]"
    details: JsonObject = {"name": name} if name else {}
    if resource_type.group:
        details["group"] = resource_type.group
    details["kind"] = resource_type.kind
    details["causes"] = [{"reason": str(error.cause), "message": error.text, "field": error.field} for error in errors]
    qualified_kind = resource_type.kind + (f".{resource_type.group}" if resource_type.group else "")
    return ApiError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", f'{qualified_kind} "{name}" is invalid: {text}', details
    )


def bad_request(message: str) -> ApiError:
    """400: the request is malformed."""
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the requested changes were dropped; the client must list again."""
    return ApiError(HTTPStatus.GONE, "Expired", message)

"""Checks of Events, by the rules of the API group of the request."""

from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import FieldError, invalid_value, required
from dra_spawner.devcluster.api.validation.names import check_qualified_name

_MAX_CHARACTERS = 128
_MAX_MESSAGE_CHARACTERS = 1024
_TYPES = ("Normal", "Warning")
_DEPRECATED = ("firstTimestamp", "lastTimestamp", "count")
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reportingComponent",
    "reportingInstance",
    "action",
    "related",
    "type",
    "eventTime",
)
"""Fields that clients of ``events.k8s.io`` cannot change: all but ``series``."""


def check_new_event(event: JsonObject, *, strict: bool) -> list[FieldError]:
    """Errors of a new event in its stored form.

    Parameters
    ----------
    strict
        Whether the rules of ``events.k8s.io/v1`` hold.
    """
    errors = _check_event(event, strict=strict)
    if not strict:
        return errors
    errors += _check_series(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in _TYPES:
        errors.append(invalid_value("type", "", f"has invalid value: {event.get('type', '')}"))
    unset = [field for field in _DEPRECATED if event.get(field)]
    unset += ["source"] if any((event.get("source") or {}).values()) else []
    return errors + [invalid_value(field, "", "needs to be unset") for field in unset]


def check_changed_event(event: JsonObject, current: JsonObject, *, strict: bool) -> list[FieldError]:
    """Errors of an updated event; see `check_new_event`."""
    errors = _check_event(event, strict=strict)
    if not strict:
        return errors
    if event.get("series") != current.get("series"):
        errors += _check_series(event)
    for field in _FIXED:
        if (event.get(field) or None) != (current.get(field) or None):
            shown = "reportingController" if field == "reportingComponent" else field
            errors.append(invalid_value(shown, event.get(field), "field is immutable"))
    return errors


def _check_event(event: JsonObject, *, strict: bool) -> list[FieldError]:
    involved, own = (event.get("involvedObject") or {}).get("namespace", ""), event["metadata"]["namespace"]
    namespace_error = invalid_value("involvedObject.namespace", involved, "does not match event.namespace")
    if not event.get("eventTime"):  # events of old clients
        return [] if own == (involved or "default") else [namespace_error]
    errors = [] if involved or own in ("default", "kube-system") else [namespace_error]
    controller = "reportingController" if strict else "reportingComponent"
    if not event.get("reportingComponent"):
        errors.append(required(controller))
    errors += check_qualified_name(event.get("reportingComponent") or "", controller)
    for field in ("reportingInstance", "action", "reason"):
        errors += _check_length(field, event.get(field), _MAX_CHARACTERS)
    return errors + _check_length("message", event.get("message"), _MAX_MESSAGE_CHARACTERS, optional=True)


def _check_length(field: str, value: Any, most: int, *, optional: bool = False) -> list[FieldError]:
    if not value:
        return [] if optional else [required(field)]
    return [invalid_value(field, "", f"can have at most {most} characters")] if len(value.encode()) > most else []


def _check_series(event: JsonObject) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors

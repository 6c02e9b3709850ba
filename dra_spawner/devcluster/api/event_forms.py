"""The two forms of an Event, ``v1`` and ``events.k8s.io/v1``: one object, which is stored as ``v1``."""

from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import EVENTS, GROUP_EVENTS, ResourceType

#: From ``events.k8s.io/v1`` to ``v1``; other fields have one name.
STORED_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_GROUP_NAMES: Final = {stored: name for name, stored in STORED_NAMES.items()}


def stored_form(resource_type: ResourceType, obj: JsonObject) -> JsonObject:
    """The object as it is stored, from an object of the kind of a request."""
    if resource_type is not GROUP_EVENTS:
        return obj
    stored = {STORED_NAMES.get(field, field): value for field, value in obj.items()}
    return {**stored, "apiVersion": EVENTS.api_version}


def requested_form(resource_type: ResourceType, obj: JsonObject) -> JsonObject:
    """A stored object as the kind of a request."""
    if resource_type is not GROUP_EVENTS:
        return obj
    # Empty texts are optional in this form only.
    requested = {_GROUP_NAMES.get(field, field): value for field, value in obj.items() if value != ""}
    return {**requested, "apiVersion": GROUP_EVENTS.api_version}

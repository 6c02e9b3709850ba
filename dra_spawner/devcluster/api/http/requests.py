"""The target and the options of a request to the API."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, bad_request, forbidden_value, not_supported
from dra_spawner.devcluster.api.http.encoding import from_json, to_json
from dra_spawner.devcluster.api.resource_types import NAMESPACES, ResourceType, by_plural
from dra_spawner.devcluster.api.storage.deletion import PropagationPolicy
from dra_spawner.devcluster.api.storage.object_table import ObjectKey


@dataclass(frozen=True, slots=True)
class Target:
    """The collection or object of a path."""

    resource_type: ResourceType
    namespace: str | None = None
    name: str = ""
    """Name of the object; empty for a collection."""
    subresource: str = ""


def parse_target(group: str, version: str, parts: list[str]) -> Target | None:
    """The target of a path, from its parts after group and version; None if there is none.

    ``namespaces`` is both a kind and the prefix of paths of namespaced kinds.
    """
    namespace: str | None = None
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    elif group and parts[0] == "namespaces" and len(parts) > 2:
        return None
    resource_type = by_plural(group, version, parts[0])
    if resource_type is None or len(parts) > 3 or "" in parts:
        return None
    if resource_type.namespaced is (namespace is None) and (len(parts) > 1 or namespace is not None):
        return None
    if resource_type is NAMESPACES and namespace is not None:
        return None
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    known = (*resource_type.subresources, *(("status",) if resource_type.status else ()))
    if subresource and subresource not in known:
        return None
    return Target(resource_type, namespace, name, subresource)


def parse_bool(text: str | None) -> bool:
    """A flag of a query string: present, and neither ``false`` nor ``0``."""
    return text is not None and text.lower() != "false" and text != "0"


def _parse_int(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def parse_revision(text: str) -> int:
    """A resource version of a query string; 0 if there is none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _refuse_options(kind: str, field: str, error: Any) -> ApiError:
    return ApiError(
        422,
        "Invalid",
        f'{kind}.{names.META_GROUP} "" is invalid: {field}: {error.text}',
        {
            "group": names.META_GROUP,
            "kind": kind,
            "causes": [{"reason": str(error.cause), "message": error.text, "field": field}],
        },
    )


def parse_dry_run(values: list[str], kind: str) -> bool:
    """Whether a write is a dry run (``dryRun=All``)."""
    given = [value for value in values if value]
    if not given:
        return False
    if given != ["All"]:
        raise _refuse_options(kind, "dryRun", not_supported("dryRun", given, ["All"]))
    return True


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list, a watch or the deletion of a collection."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    after: ObjectKey | None = None
    resource_version: str = ""
    exact: bool = False
    """Whether the list must show exactly this resource version."""
    watch: bool = False
    timeout_seconds: int | None = None
    bookmarks: bool = False
    initial_events: bool = False
    """Whether a watch starts with the present objects and marks their end (``sendInitialEvents``)."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "ListOptions":
        """Read the options from a query string.

        Raises
        ------
        ApiError
            ``BadRequest`` or ``Invalid``.
        """
        version = query.get("resourceVersion", "")
        match = query.get("resourceVersionMatch", "")
        watch = parse_bool(query.get("watch"))
        initial_events = parse_bool(query.get("sendInitialEvents"))
        if match and not watch:
            field = "resourceVersionMatch"
            if not version:
                why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
                raise _refuse_options("ListOptions", field, forbidden_value(field, why))
            if match not in ("Exact", "NotOlderThan"):
                raise _refuse_options("ListOptions", field, not_supported(field, match, ["Exact", "NotOlderThan", ""]))
            if match == "Exact" and version == "0":
                why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                raise _refuse_options("ListOptions", field, forbidden_value(field, why))
        token = query.get("continue", "")
        limit = _parse_int(query.get("limit")) or 0
        return cls(
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            limit=0 if version == "0" else max(0, limit),  # served from the watch cache, which has no pages
            after=decode_continue(token) if token else None,
            resource_version=version,
            exact=match == "Exact",
            watch=watch,
            timeout_seconds=_parse_int(query.get("timeoutSeconds")),
            bookmarks=parse_bool(query.get("allowWatchBookmarks")),
            initial_events=initial_events,
        )


def encode_continue(key: ObjectKey, resource_version: str) -> str:
    """The token for the next page of a list."""
    token = {"v": names.META_API, "rv": int(resource_version), "start": f"{key[0]}/{key[1]}\0"}
    return base64.urlsafe_b64encode(to_json(token)).decode().rstrip("=")


def decode_continue(token: str) -> ObjectKey:
    """The key after which the next page starts."""
    try:
        decoded = from_json(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = decoded["start"].rstrip("\0").partition("/")
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    return namespace, name


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion, from the body and the query string."""

    grace_period_seconds: int | None = None
    propagation_policy: PropagationPolicy | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str], body: JsonObject | None) -> "DeleteOptions":
        """Read the options; the body overrides the query.

        Raises
        ------
        ApiError
            ``BadRequest`` or ``Invalid``.
        """
        options = body or {}
        grace = options.get("gracePeriodSeconds")
        if grace is None:
            grace = _parse_int(query.get("gracePeriodSeconds"))
        policy = options.get("propagationPolicy") or query.get("propagationPolicy")
        orphan = options.get("orphanDependents")
        if orphan is None and "orphanDependents" in query:
            orphan = parse_bool(query["orphanDependents"])
        if policy is None and orphan is not None:
            policy = PropagationPolicy.ORPHAN if orphan else PropagationPolicy.BACKGROUND
        if policy is not None and policy not in tuple(PropagationPolicy):
            error = not_supported("propagationPolicy", policy, ["Foreground", "Background", "Orphan", "nil"])
            raise _refuse_options("DeleteOptions", "propagationPolicy", error)
        preconditions = options.get("preconditions") or {}
        dry_run = options.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
        return cls(
            grace_period_seconds=grace,
            propagation_policy=PropagationPolicy(policy) if policy else None,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=parse_dry_run(dry_run, "DeleteOptions"),
        )

"""Definitions of shapes as text: in the hub's request for a placement, and in an annotation of a user's pod.

A definition can be verified: the shape's id is its hash.
"""

from __future__ import annotations

import json
from typing import Any, Final

from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED, is_size, wrong_sizes
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.targets.hypothetical_pods import (
    bare_pod,
    kind_of,
    simulated_placeholder,
    simulated_user,
)
from dra_spawner.placeholders.planner.targets.shapes import NODE_FIELDS, Shape, shape_id

#: Bytes of a definition. All annotations of an object together may have 256 KiB.
MAX_BYTES: Final = 2**15
_MAX_CLAIMS: Final = 32
_MAX_CONTAINERS: Final = 64
_MAX_LEVELS: Final = 64
PARTS: Final = frozenset(("claims", "containers", "node_fields"))
NODE_FIELDS_OF_SHAPES: Final = frozenset((*NODE_FIELDS, "affinity", "tolerations"))
CONTAINER_FIELDS: Final = frozenset(("requests", "init", "sidecar", "claims"))


class DefinitionError(ValueError):
    """Raised for an invalid definition; the message says what is wrong."""


def read_definition(text: str, expected: str) -> Shape:
    """The shape that a text defines.

    Parameters
    ----------
    expected
        Id of the shape.

    Raises
    ------
    DefinitionError
        If it defines another shape, or one that no pod can have.
    """
    try:
        is_long = len(text.encode()) > MAX_BYTES
        value = json.loads(text) if not is_long else None
        # Half of a surrogate pair is valid JSON, but cannot be hashed, logged or shown.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise DefinitionError("it is not JSON") from None
    if is_long:
        raise DefinitionError(f"it has more than {MAX_BYTES} bytes")
    shape = shape_from(value)
    if shape.id != expected:
        raise DefinitionError(f"it is of shape {shape.id}, not of {expected}")
    return shape


def shape_from(value: object, identity: str = "") -> Shape:
    """The shape with the parts of a definition.

    Parameters
    ----------
    value
        JSON of any form.
    identity
        Id of the shape; empty for the hash of its parts.

    Raises
    ------
    DefinitionError
        If no pod can have it.
    """
    if not isinstance(value, dict) or set(value) != PARTS:
        raise DefinitionError(f"it is not an object with {', '.join(sorted(PARTS))}")
    claims, containers, node_fields = value["claims"], value["containers"], value["node_fields"]
    if not _are_objects(claims, _MAX_CLAIMS):
        raise DefinitionError(f"claims: allowed: at most {_MAX_CLAIMS} specs of claims by name")
    for name, spec in claims.items():
        for where, _, size in wrong_sizes(spec, f"claims.{name}"):
            raise DefinitionError(f"{where}: found {str(size)[:80]!r}, allowed: {SIZE_ALLOWED}")
    if not isinstance(containers, list) or not 0 < len(containers) <= _MAX_CONTAINERS:
        raise DefinitionError(f"containers: allowed: a list of 1 to {_MAX_CONTAINERS}")
    if not all(map(_is_container, containers)):
        raise DefinitionError(f"containers: allowed: {', '.join(sorted(CONTAINER_FIELDS))}")
    if not isinstance(node_fields, dict) or not set(node_fields) <= NODE_FIELDS_OF_SHAPES:
        raise DefinitionError(f"node_fields: allowed: {', '.join(sorted(NODE_FIELDS_OF_SHAPES))}")
    if _is_deep(value):
        raise DefinitionError(f"it has more than {_MAX_LEVELS} levels")
    found = identity or shape_id(claims, containers, node_fields)
    shape = Shape(found, claims, tuple(containers), node_fields)
    _try_out(shape)
    return shape


def _try_out(shape: Shape) -> None:
    """Build pods of the shape, which shows errors deep inside it."""
    try:
        bare_pod(kind_of(shape))
        simulated_user(shape, "default")
        simulated_placeholder(shape, "default")
    except Exception as error:
        raise DefinitionError(f"no pod can be built of it: {error or type(error).__name__}") from error


def _is_deep(value: object) -> bool:
    """Whether it has so many levels that recursive functions might fail."""
    level = [value]
    for _ in range(_MAX_LEVELS):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _are_objects(value: object, most: int) -> bool:
    return isinstance(value, dict) and len(value) <= most and all(isinstance(each, dict) for each in value.values())


def _is_container(value: object) -> bool:
    if not isinstance(value, dict) or not set(value) <= CONTAINER_FIELDS:
        return False
    requests: Any = value.get("requests")
    if not isinstance(requests, dict):
        return False
    return all(isinstance(amount, str) and _is_quantity(amount) for amount in requests.values())


def _is_quantity(amount: str) -> bool:
    try:
        return is_size(amount) or not Quantity.parse(amount)
    except ValueError:
        return False

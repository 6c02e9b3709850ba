"""Words for JSON Schemas of requests and answers: each value has its example, so each schema has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12), as OpenAPI 3.1 uses it."""


def text(example: str, **more: Any) -> Schema:
    """A string."""
    return {"type": "string", "examples": [example], **more}


def moment(example: str = "2026-11-24T17:00:00+00:00") -> Schema:
    """A time with its zone, as in RFC 3339; empty where it is not known."""
    return text(example)


def choice(values: Iterable[str], example: str = "") -> Schema:
    """One of these strings; by default the first one is the example."""
    known = [str(each) for each in values]
    return {"type": "string", "enum": known, "examples": [example or known[0]]}


def integer(example: int, **more: Any) -> Schema:
    """A whole number; not negative unless `more` says so."""
    return {"type": "integer", "minimum": 0, "examples": [example], **more}


def number(example: float, **more: Any) -> Schema:
    """A number."""
    return {"type": "number", "examples": [example], **more}


def flag(example: bool = True) -> Schema:
    """True or false."""
    return {"type": "boolean", "examples": [example]}


def items(schema: Schema, **more: Any) -> Schema:
    """A list."""
    return {"type": "array", "items": schema, **more}


def mapping(schema: Schema, key: str) -> Schema:
    """An object with any names as keys; `key` is an example."""
    return {"type": "object", "additionalProperties": schema, "examples": [{key: example_of(schema)}]}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def either(*schemas: Schema) -> Schema:
    """One of some schemas; the first has the example."""
    return {"anyOf": list(schemas)}


def record(members: Mapping[str, Schema], *, optional: Iterable[str] = (), **more: Any) -> Schema:
    """An object with exactly these members.

    Parameters
    ----------
    optional
        Members that may be left out.
    """
    left_out = set(optional)
    return {
        "type": "object",
        "properties": dict(members),
        "required": [each for each in members if each not in left_out],
        "additionalProperties": False,
        **more,
    }


def of_hub(schema: Schema) -> Schema:
    """A question of a hub, which may be newer and tell more: other members are left out."""
    return {**schema, "additionalProperties": True}


def example_of(schema: Schema) -> Any:
    """The example of a schema: its own, or that of its parts."""
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0])
    if schema.get("type") == "array":
        return [example_of(schema["items"])]
    return {name: example_of(each) for name, each in schema["properties"].items()}

"""The profile language, from its JSON Schema."""

from __future__ import annotations

import json
from typing import Any, Final

from dra_spawner.profiles.profiles_schema import profiles_schema

from .markdown import table

__all__ = ["profile_language"]

_TITLES: Final = {
    "claim": "A claim of device_claims",
    "request": "A request of a claim",
    "alternative": "An alternative in first_available",
    "toleration": "A toleration",
    "constraint": "A constraint",
    "config": "Parameters for a driver",
    "pairs": "pairs",
    "vlan": "vlan",
    "companion": "A companion",
    "sharing": "shared",
    "option": "An option of a profile",
}


def profile_language() -> str:
    """The keys of each part of the language."""
    definitions = profiles_schema()["$defs"]
    parts = []
    for name, title in _TITLES.items():
        rows = {key: row for each in _forms(definitions[name]) for key, row in _keys(each)}
        if rows:
            parts.append(f"## {title}\n\n" + table(("key", "type", "meaning"), rows.values()))
    return "\n".join(parts)


def _forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The forms in which a part may be written."""
    inner = [form for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ()) for form in _forms(each)]
    return [schema, *inner]


def _keys(schema: dict[str, Any]) -> list[tuple[str, tuple[str, str, str]]]:
    properties = schema.get("properties", {})
    return [
        (key, (f"`{key}`", _type(each), each.get("description", "")))
        for key, each in properties.items()
        if isinstance(each, dict)
    ]


def _type(schema: dict[str, Any]) -> str:
    """The types of a value, without the null that removes a key."""
    found: list[str] = []
    for form in _forms(schema):
        if "enum" in form:
            found += [f"`{json.dumps(each)}`" for each in form["enum"]]
        elif "const" in form:
            found.append(f"`{json.dumps(form['const'])}`")
        elif "$ref" in form:
            found.append(form["$ref"].rsplit("/", 1)[-1])
        elif isinstance(form.get("type"), str) and form["type"] != "null":
            found.append({"object": "mapping", "array": "list"}.get(form["type"], form["type"]))
    return ", ".join(dict.fromkeys(found))

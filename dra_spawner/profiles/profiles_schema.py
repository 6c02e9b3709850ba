"""JSON Schema of this project's keys in a list of profiles, or in Helm values with one; for editors.

All else that stands there, such as KubeSpawner's own traits, is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner.profiles.compiler.vlan_policy import vlans_schema
from dra_spawner.profiles.instead import INSTEAD, TAKE_INSTEAD, instead_schema
from dra_spawner.profiles.intel_gas.gas_language import intel_gas_schema
from dra_spawner.profiles.syntax.json_schema import DRAFT, json_schema

#: What only a whole value has to satisfy, and a profile's or a choice's part of it need not.
_OF_WHOLES: Final = frozenset({"required", "not", "oneOf", "if", "then", "else"})


def profiles_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a list of profiles, of a mapping with ``profile_list``, or of Helm values.

    An override is merged into others, so no key is required in it.
    """
    claims = json_schema()
    definitions = {name: _part(each) for name, each in claims.pop("$defs").items()}
    claims = {key: each for key, each in _part(claims).items() if key not in ("$schema", "title")}
    claims["additionalProperties"] = {"anyOf": [claims["additionalProperties"], {"type": "null"}]}
    profiles = {
        "type": ["array", "object"],
        "items": {"$ref": "#/$defs/profile"},
        "additionalProperties": {"$ref": "#/$defs/profile"},
    }
    return {
        "$schema": DRAFT,
        "title": "Profiles with devices",
        "description": "What DRASpawner reads in Helm values, a profile_list, or a file with one.",
        "items": {"$ref": "#/$defs/profile"},
        "properties": {
            "profile_list": profiles,
            "profileList": profiles,
            "common_profile_options": {"$ref": "#/$defs/options"},
            "singleuser": {"type": "object", "properties": {"profileList": profiles}},
            "hub": {
                "type": "object",
                "properties": {
                    "config": {
                        "type": "object",
                        "properties": {
                            "DRASpawner": {
                                "$ref": "#/$defs/override",
                                "properties": {"common_profile_options": {"$ref": "#/$defs/options"}},
                            }
                        },
                    }
                },
            },
        },
        "$defs": {
            **definitions,
            "override": {
                "type": "object",
                "properties": {
                    "device_claims": claims,
                    "intel_gas": _part(intel_gas_schema()),
                    "vlans": _part(vlans_schema()),
                    INSTEAD: {"anyOf": [instead_schema(), {"type": "null"}]},
                    TAKE_INSTEAD: {"type": "boolean"},
                },
            },
            "profile": {
                "type": "object",
                "properties": {
                    "kubespawner_override": {"$ref": "#/$defs/override"},
                    "profile_options": {"$ref": "#/$defs/options"},
                },
            },
            "options": {"type": "object", "additionalProperties": {"$ref": "#/$defs/option"}},
            # Free text (unlisted_choice) is skipped: its "{value}" may become any text.
            "option": {
                "type": "object",
                "properties": {
                    "choices": {
                        "anyOf": [
                            {"const": "from_policy"},
                            {
                                "type": "object",
                                "properties": {"from_policy": {}},
                                "additionalProperties": {
                                    "type": "object",
                                    "properties": {"kubespawner_override": {"$ref": "#/$defs/override"}},
                                },
                            },
                        ]
                    }
                },
            },
        },
    }


def _part(schema: Any) -> Any:
    """The schema of a part of a value, with the same keys."""
    if isinstance(schema, Mapping):
        return {
            key: {name: _part(each) for name, each in value.items()} if key == "properties" else _part(value)
            for key, value in schema.items()
            if key not in _OF_WHOLES
        }
    return [_part(each) for each in schema] if isinstance(schema, list) else schema

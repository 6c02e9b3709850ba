"""The profile language as JSON Schema, for editors; made of the tables that the parser uses.

What JSON Schema cannot say is left to the parser: that CEL compiles, that named requests exist, sums over requests.
"""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import (
    ALTERNATIVE_KEYS,
    CHOICE_KEYS,
    COMPANION_KEYS,
    CONFIG_KEYS,
    CONSTRAINT_KEYS,
    EXACT_KEYS,
    FORMS,
    LISTED_ALTERNATIVE_KEYS,
    MAX_CLAIMS,
    OWN_CLAIM_KEYS,
    PAIRS_KEYS,
    SHARING_KEYS,
    TOLERATION_KEYS,
    VLAN_KEYS,
    schema_of_keys,
)

#: One request, or alternatives, is a claim in short form.
_CLAIM_FORMS = ({**EXACT_KEYS, **OWN_CLAIM_KEYS}, {**CHOICE_KEYS, **OWN_CLAIM_KEYS}, *FORMS.values())
#: The version of JSON Schema.
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of ``device_claims``; a file of it lies beside this module.

    It describes claims as a whole. What a choice of ``profile_options`` overrides may be a part of one.
    """
    return {
        "$schema": DRAFT,
        "title": "device_claims",
        "description": "The devices that a server gets: a name for each claim, and what it asks for.",
        "type": "object",
        "propertyNames": dict(rules.NAME.schema),
        "additionalProperties": {"$ref": "#/$defs/claim"},
        "maxProperties": MAX_CLAIMS,
        "$defs": {
            "claim": {"anyOf": list(map(schema_of_keys, _CLAIM_FORMS))},
            "request": {"anyOf": [schema_of_keys(EXACT_KEYS), schema_of_keys(CHOICE_KEYS)]},
            "alternative": schema_of_keys(ALTERNATIVE_KEYS),
            "listedAlternative": schema_of_keys(LISTED_ALTERNATIVE_KEYS),
            "toleration": {
                **schema_of_keys(TOLERATION_KEYS),
                "not": {
                    "required": ["operator", "value"],
                    "properties": {"operator": {"const": "Exists"}, "value": {"type": "string", "minLength": 1}},
                },
            },
            "constraint": {
                **schema_of_keys(CONSTRAINT_KEYS),
                "oneOf": [_there("match_attribute"), _there("distinct_attribute")],
            },
            "config": schema_of_keys(CONFIG_KEYS),
            "pairs": schema_of_keys(PAIRS_KEYS),
            "vlan": schema_of_keys(VLAN_KEYS),
            "companion": schema_of_keys(COMPANION_KEYS),
            "sharing": {
                **schema_of_keys(SHARING_KEYS),
                # A group is given for claims shared by group, and for no others.
                "if": {"properties": {"by": {"const": "group"}}},
                "then": {"required": ["group"], "properties": {"group": {"not": {"type": "null"}}}},
                "else": {"properties": {"group": {"type": "null"}}},
            },
        },
    }


def _there(key: str) -> dict[str, Any]:
    return {"required": [key], "properties": {key: {"type": "string"}}}

"""The keys of the profile language, each with its meaning and its JSON Schema; the parser knows no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.cel import MAX_EXPRESSION_BYTES
from dra_spawner.profiles import rules
from dra_spawner.profiles.properties import PROPERTIES

#: Most selectors of one request (``DeviceSelectorsMaxSize``).
MAX_SELECTORS = 32
#: Most claims of one pod that KubeSpawner's users meet in practice are few; the API sets no limit of its own.
MAX_CLAIMS = 32
#: Most requests of one claim (``DeviceRequestsMaxSize``).
MAX_REQUESTS = 32
#: Most alternatives of one request (``FirstAvailableDeviceRequestMaxSize``).
MAX_ALTERNATIVES = 8
#: Most constraints of one claim (``DeviceConstraintsMaxSize``).
MAX_CONSTRAINTS = 32
#: Most configurations of one claim (``DeviceConfigMaxSize``).
MAX_CONFIGS = 32
#: Most tolerations of one request (``DeviceTolerationsMaxLength``).
MAX_TOLERATIONS = 16
#: Most bytes of a configuration's parameters as JSON (``OpaqueParametersMaxLength``).
MAX_PARAMETER_BYTES = 10 * 1024

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: what it means, what may be its value, and whether it must be there."""

    meaning: str
    schema: Schema
    required: bool = False


Keys = Mapping[str, Key]


def _reference(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


def _named(values: Schema, most: int, least: int = 0) -> Schema:
    """Name -> value."""
    limits = {"maxProperties": most} | ({"minProperties": least} if least else {})
    return {"type": "object", "propertyNames": rules.NAME.schema, "additionalProperties": values, **limits}


def _listed(values: Schema, most: int, least: int = 0) -> Schema:
    return {"type": "array", "items": values, "maxItems": most} | ({"minItems": least} if least else {})


_EXPRESSION = {"type": "string", "maxLength": MAX_EXPRESSION_BYTES}
_REFERENCES = {**_listed(rules.REQUEST_REFERENCE.schema, MAX_REQUESTS, 1), "uniqueItems": True}

_PROPERTY_KEYS = {name: Key(each.meaning, each.rule.schema) for name, each in PROPERTIES.items()}
_CAPACITY = {
    "type": "object",
    "propertyNames": rules.CAPACITY_NAME.schema,
    "additionalProperties": rules.QUANTITY.schema,
}

#: Of an alternative.
ALTERNATIVE_KEYS: Keys = {
    "device_class": Key("Name of a DeviceClass of the cluster.", rules.DEVICE_CLASS.schema, required=True),
    "product": _PROPERTY_KEYS["product"],
    "capacity": Key("A share of a shareable device; of any other, what it must have at the least.", _CAPACITY),
    "where": Key(
        "CEL on the device; of a list, all must hold.",
        {"anyOf": [_EXPRESSION, _listed(_EXPRESSION, MAX_SELECTORS)]},
    ),
    "count": Key("How many devices; all: every one there is on the node.", rules.COUNT.schema),
    "tolerations": Key(
        "Taints of devices that the request puts up with, as Kubernetes writes them.",
        _listed(_reference("toleration"), MAX_TOLERATIONS),
    ),
    **{name: key for name, key in _PROPERTY_KEYS.items() if name != "product"},
}
#: Of a request without alternatives.
EXACT_KEYS: Keys = {
    **ALTERNATIVE_KEYS,
    "admin_access": Key(
        "Access for administration, even to devices that others have; for administrators of the hub.",
        rules.FLAG.schema,
    ),
}
#: Of an alternative in a list, where its name has no other place.
LISTED_ALTERNATIVE_KEYS: Keys = {
    "name": Key("Of the alternative, for constraints and config.", rules.NAME.schema, required=True),
    **ALTERNATIVE_KEYS,
}
#: Of a request with alternatives.
CHOICE_KEYS: Keys = {
    "first_available": Key(
        "Alternatives, the best first; a list keeps its order where tools sort mappings (Helm does).",
        {
            "anyOf": [
                _named(_reference("alternative"), MAX_ALTERNATIVES, 1),
                _listed(_reference("listedAlternative"), MAX_ALTERNATIVES, 1),
            ]
        },
        required=True,
    )
}
#: Everything that may stand in a request, for messages.
REQUEST_KEYS: Keys = {**EXACT_KEYS, **CHOICE_KEYS}

#: Of a taint's toleration; names as in the API, so that one can be copied from there.
TOLERATION_KEYS: Keys = {
    "key": Key("Key of the taint; left out: any.", rules.TAINT_KEY.schema),
    "operator": Key("Equal compares the value (default), Exists does not.", rules.TAINT_OPERATOR.schema),
    "value": Key("Value of the taint.", rules.TAINT_VALUE.schema),
    "effect": Key("Effect of the taint; left out: any.", rules.TAINT_EFFECT.schema),
    "tolerationSeconds": Key("How long a server stays after a NoExecute taint.", rules.SECONDS.schema),
}
CONSTRAINT_KEYS: Keys = {
    "match_attribute": Key("Attribute that all devices share.", rules.ATTRIBUTE.schema),
    "distinct_attribute": Key("Attribute in which all devices differ.", rules.ATTRIBUTE.schema),
    "requests": Key("Requests it is about; left out: all.", _REFERENCES),
}
CONFIG_KEYS: Keys = {
    "requests": Key("Requests it is for; left out: all.", _REFERENCES),
    "driver": Key("Driver that reads the parameters.", rules.DRIVER.schema, required=True),
    "parameters": Key("What the driver's documentation says.", {"type": "object"}, required=True),
}

_CONTAINERS = Key(
    "Which container gets which requests; left out: the notebook's gets all. One that is not named gets none.",
    _named({"anyOf": [rules.EVERYTHING.schema, {"type": "array", "items": rules.NAME.schema}]}, MAX_CLAIMS),
)
LONG_FORM_KEYS: Keys = {
    "requests": Key("Requests by name.", _named(_reference("request"), MAX_REQUESTS, 1), required=True),
    "containers": _CONTAINERS,
    "constraints": Key(
        "What devices have in common, or in which they differ.",
        _listed(_reference("constraint"), MAX_CONSTRAINTS),
    ),
    "config": Key("Parameters for drivers.", _listed(_reference("config"), MAX_CONFIGS)),
}
TEMPLATE_KEYS: Keys = {
    "template": Key("An existing ResourceClaimTemplate.", rules.OBJECT_NAME.schema, required=True),
    "containers": _CONTAINERS,
}
CLAIM_KEYS: Keys = {
    "claim": Key("An existing ResourceClaim.", rules.OBJECT_NAME.schema, required=True),
    "containers": _CONTAINERS,
}
SPEC_KEYS: Keys = {
    "spec": Key("A ResourceClaimSpec of resource.k8s.io/v1.", {"type": "object"}, required=True),
    "containers": _CONTAINERS,
}
#: Key by which a claim's form is known -> its keys; any other claim is one request.
FORMS: Mapping[str, Keys] = {
    "requests": LONG_FORM_KEYS,
    "template": TEMPLATE_KEYS,
    "claim": CLAIM_KEYS,
    "spec": SPEC_KEYS,
}

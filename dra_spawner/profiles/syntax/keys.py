"""The keys of the profile language, each with its meaning and its JSON Schema; the parser knows no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dra_spawner.dra.cel import MAX_EXPRESSION_BYTES
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.properties import PROPERTIES

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
#: Most aligned sets of one claim: each takes two requests at the least.
MAX_PAIRS = 16
#: The alternative that is no device; it means nothing to Kubernetes.
NONE = "none"
#: Most bytes of a configuration's parameters as JSON (``OpaqueParametersMaxLength``).
MAX_PARAMETER_BYTES = 10 * 1024

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: its meaning, its possible values, and whether it is required."""

    meaning: str
    schema: Schema
    required: bool = False


Keys = Mapping[str, Key]
NO_KEYS: Keys = {}


def schema_of_keys(keys: Keys) -> dict[str, Any]:
    """A mapping with these keys only; ``null`` takes an optional one away, as KubeSpawner merges profiles."""
    properties = {
        name: {
            "description": key.meaning,
            **(dict(key.schema) if key.required else {"anyOf": [dict(key.schema), {"type": "null"}]}),
        }
        for name, key in keys.items()
    }
    required = [name for name, key in keys.items() if key.required]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _reference(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


def _named(values: Schema, most: int, least: int = 0) -> Schema:
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
    "vlan": Key("The network interface in a VLAN that the device is for.", _reference("vlan")),
}
#: Of a network interface in a VLAN.
VLAN_KEYS: Keys = {
    "id": Key("The VLAN; {vlan} is that of the user or group.", rules.VLAN_ID.schema, required=True),
    "driver": Key("Driver of the devices, where their class does not tell.", rules.DRIVER.schema),
    "type": Key("CNI plugin; macvlan and ipvlan are put on the master's sub-interface.", rules.VLAN_KIND.schema),
    "master": Key("Interface of the node; left out: the device.", rules.INTERFACE.schema),
    "mode": Key("Mode of macvlan or ipvlan.", rules.VLAN_MODE.schema),
    "mtu": Key("Of the new interface.", rules.MTU.schema),
    "interface": Key("Its name in the pod; left out: net1, net2 and so on.", rules.INTERFACE.schema),
    "ipam": Key("Where its addresses come from, as CNI writes it.", {"type": "object"}),
    "parameters": Key("All that the driver is told, of a driver that is not known here.", {"type": "object"}),
}
#: Of a request without alternatives.
EXACT_KEYS: Keys = {
    **ALTERNATIVE_KEYS,
    "admin_access": Key(
        "Access for administration, even to devices that others have; for administrators of the hub.",
        rules.FLAG.schema,
    ),
    "optional": Key("Whether the server starts without it where it is not to be had.", rules.FLAG.schema),
}
#: Of an alternative in a list, where its name has no other place.
LISTED_ALTERNATIVE_KEYS: Keys = {
    "name": Key(
        "Of the alternative, for constraints and config.", {**rules.NAME.schema, "not": {"const": NONE}}, required=True
    ),
    **ALTERNATIVE_KEYS,
}
_NO_ALTERNATIVE = {"type": "object", "maxProperties": 0}
_ALTERNATIVES: Schema = {
    **_named(_reference("alternative"), MAX_ALTERNATIVES + 1, 1),
    "properties": {NONE: _NO_ALTERNATIVE},
    "if": {"required": [NONE]},
    "then": {"minProperties": 2},
    "else": {"maxProperties": MAX_ALTERNATIVES},
}
_LISTED_NONE = {
    "type": "object",
    "properties": {"name": {"const": NONE}},
    "required": ["name"],
    "additionalProperties": False,
}
_LISTED_ALTERNATIVES: Schema = {
    **_listed({"anyOf": [_reference("listedAlternative"), _LISTED_NONE]}, MAX_ALTERNATIVES + 1, 1),
    "if": {"contains": _LISTED_NONE},
    "then": {"minItems": 2},
    "else": {"maxItems": MAX_ALTERNATIVES},
}
#: Of a request with alternatives.
CHOICE_KEYS: Keys = {
    "first_available": Key(
        "Alternatives, the best first; a list keeps its order where tools sort mappings (Helm does). none, without "
        "any keys, is to start without a device.",
        {"anyOf": [_ALTERNATIVES, _LISTED_ALTERNATIVES]},
        required=True,
    )
}
#: Everything that may stand in a request, for messages.
REQUEST_KEYS: Keys = {**EXACT_KEYS, **CHOICE_KEYS}

#: Keys of a toleration; names as in the API, so that a toleration can be copied.
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
_COMPANIONS = Key(
    "Objects that are there before the pod, such as a NetworkAttachmentDefinition, by a name of their own here.",
    _named(_reference("companion"), MAX_CLAIMS),
)
#: Of any claim that is made for servers, whatever its form.
OWN_CLAIM_KEYS: Keys = {
    "shared": Key("One claim for several servers, instead of one for each.", _reference("sharing")),
    "companions": _COMPANIONS,
}
SHARING_KEYS: Keys = {
    "by": Key("Whose servers use it together: a user's, a group's, or everybody's.", rules.SHARED_BY.schema, True),
    "group": Key(
        "Group of the hub, with by: group; of a list, the first that the user is in.",
        {"anyOf": [rules.GROUP_NAME.schema, _listed(rules.GROUP_NAME.schema, MAX_CLAIMS, 1)]},
    ),
    "keep": Key(
        "How long the claim stays after its last server, such as 10m; left out: not at all.", rules.KEEP.schema
    ),
}
COMPANION_KEYS: Keys = {
    "manifest": Key(
        "The object; with a metadata.name it is one for all servers that name it.",
        {
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {"apiVersion": dict(rules.API_VERSION.schema), "kind": dict(rules.KIND.schema)},
        },
        required=True,
    ),
    "resource": Key("Plural of the kind in the API's paths, for kinds that are not known here.", rules.PLURAL.schema),
}
PAIRS_KEYS: Keys = {
    "count": Key("How many such sets.", rules.whole_number("", 1, MAX_PAIRS).schema, required=True),
    "match_attribute": Key("Attribute that the devices of a set share.", rules.ATTRIBUTE.schema, required=True),
    "requests": Key("Requests of a set by name.", _named(_reference("request"), MAX_REQUESTS, 2), required=True),
}
_REQUESTS = Key("Requests by name.", _named(_reference("request"), MAX_REQUESTS, 1), required=True)
_PAIRS = Key("Several equal sets of requests; the devices of each set belong together.", _reference("pairs"), True)
LONG_FORM_KEYS: Keys = {
    "requests": _REQUESTS,
    "containers": _CONTAINERS,
    "pairs": replace(_PAIRS, required=False),
    "constraints": Key(
        "What devices have in common, or in which they differ.",
        _listed(_reference("constraint"), MAX_CONSTRAINTS),
    ),
    "config": Key("Parameters for drivers.", _listed(_reference("config"), MAX_CONFIGS)),
    **OWN_CLAIM_KEYS,
}
#: As the long form, with nothing but pairs.
PAIRS_FORM_KEYS: Keys = {**LONG_FORM_KEYS, "requests": replace(_REQUESTS, required=False), "pairs": _PAIRS}
TEMPLATE_KEYS: Keys = {
    "template": Key("An existing ResourceClaimTemplate.", rules.OBJECT_NAME.schema, required=True),
    "containers": _CONTAINERS,
    "companions": _COMPANIONS,
}
CLAIM_KEYS: Keys = {
    "claim": Key("An existing ResourceClaim.", rules.OBJECT_NAME.schema, required=True),
    "containers": _CONTAINERS,
    "companions": _COMPANIONS,
}
SPEC_KEYS: Keys = {
    "spec": Key("A ResourceClaimSpec of resource.k8s.io/v1.", {"type": "object"}, required=True),
    "containers": _CONTAINERS,
    **OWN_CLAIM_KEYS,
}
#: Key by which a claim's form is known -> its keys; any other claim is one request.
FORMS: Mapping[str, Keys] = {
    "requests": LONG_FORM_KEYS,
    "pairs": PAIRS_FORM_KEYS,
    "template": TEMPLATE_KEYS,
    "claim": CLAIM_KEYS,
    "spec": SPEC_KEYS,
}

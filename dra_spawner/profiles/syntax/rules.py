"""What single values of the profile language may be: one rule says it to the parser and to the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.model.claim_sizes import MAX_SIZE_UNITS, SIZE_ALLOWED, SIZE_PATTERN, is_size
from dra_spawner.dra.model.decoding import MAX_INT64, MIN_INT64

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,31}"
_LABEL_PART = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What a value may be.

    Attributes
    ----------
    allowed
        In words, as the rest of "allowed: …".
    schema
        As JSON Schema; where that cannot say all, it allows more.
    accepts
        Whether a value is allowed.
    """

    allowed: str
    schema: Mapping[str, Any]
    accepts: Callable[[object], bool]


def text(allowed: str, pattern: str, most: int) -> ValueRule:
    """Text that matches a pattern, all of it, and has at most so many characters."""
    compiled = re.compile(pattern)

    def accepts(value: object) -> bool:
        return isinstance(value, str) and len(value) <= most and compiled.fullmatch(value) is not None

    return ValueRule(allowed, {"type": "string", "pattern": f"^(?:{pattern})$", "maxLength": most}, accepts)


def whole_number(allowed: str, least: int, most: int) -> ValueRule:
    """An integer of a range; not a boolean, which Python takes for one."""

    def accepts(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return ValueRule(allowed, {"type": "integer", "minimum": least, "maximum": most}, accepts)


def one_of(allowed: str, *values: str | bool) -> ValueRule:
    """One of a few values, of the same type."""

    def accepts(value: object) -> bool:
        return any(type(value) is type(each) and value == each for each in values)

    return ValueRule(allowed, {"enum": list(values)}, accepts)


def either(allowed: str, *rules: ValueRule) -> ValueRule:
    """What one of several rules accepts."""
    schema = {"anyOf": [dict(rule.schema) for rule in rules]}
    return ValueRule(allowed, schema, lambda value: any(rule.accepts(value) for rule in rules))


def _is_product(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= 64 and value.isprintable()


#: A claim's allocation has at most so many devices (``AllocationResultsMaxSize``).
MAX_DEVICES_PER_CLAIM = 32
#: The word for all devices, or all requests of a claim.
ALL = "all"

NAME = text("a name of at most 63 lower-case letters, digits and inner hyphens", _LABEL, 63)
DEVICE_CLASS = text("the name of a DeviceClass, such as gpu.example.com", _SUBDOMAIN, 253)
OBJECT_NAME = text("the name of an object in the server's namespace, such as team-gpu", _SUBDOMAIN, 253)
DRIVER = text("a driver's name of at most 63 characters, such as gpu.example.com", _SUBDOMAIN, 63)
CAPACITY_NAME = text(
    "a capacity's name exactly as the driver publishes it, such as memory",
    rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,61}}[a-z0-9])?/)?{_IDENTIFIER}",
    96,
)
ATTRIBUTE = text(
    "an attribute with its domain, such as resource.kubernetes.io/pcieRoot",
    rf"(?=[^/]{{1,63}}/){_SUBDOMAIN}/{_IDENTIFIER}",
    96,
)
REQUEST_REFERENCE = text("a request, or request/alternative", rf"{_LABEL}(?:/{_LABEL})?", 127)
QUANTITY = ValueRule(
    SIZE_ALLOWED,
    {
        "anyOf": [
            {"type": "string", "pattern": f"^(?:{SIZE_PATTERN})$"},
            {"type": "integer", "minimum": 1, "maximum": MAX_SIZE_UNITS},
        ]
    },
    is_size,
)
COUNT = either(
    f"a whole number from 1 to {MAX_DEVICES_PER_CLAIM}, or {ALL}",
    whole_number("", 1, MAX_DEVICES_PER_CLAIM),
    one_of("", ALL),
)
EVERYTHING = one_of(ALL, ALL)
FLAG = one_of("true or false", True, False)
PRODUCT = ValueRule(
    'a product\'s name of at most 64 characters, * for any text, such as "A100*"',
    {"type": "string", "maxLength": 64, "pattern": r"^(?=.*\S)[^\u0000-\u001f\u007f]+$"},
    _is_product,
)
MINIMUM_VERSION = text('a minimum such as ">=8.0"', r">= ?(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,2}", 34)
MIG_PROFILE = text(
    "a MIG profile such as 1g.5gb or 1g.10gb+me",
    r"(?:[1-9]c\.)?[1-9]g\.[1-9][0-9]{0,3}gb(?:[-+][a-z0-9]+(?:\.[a-z0-9]+)*)*",
    64,
)
NUMA_NODE = whole_number("a NUMA node's number, from 0 to 1023", 0, 1023)
PCI_BUS_ID = text(
    'a PCI address with its domain, such as "0000:8a:00.0"',
    r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-1][0-9A-Fa-f]\.[0-7]",
    16,
)
YES = one_of("true; leave it out where it does not matter", True)

SHARED_BY = one_of("user, group or everybody", "user", "group", "everybody")
GROUP_NAME = ValueRule(
    "the name of a group of this hub",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"},
    lambda value: isinstance(value, str) and bool(value.strip()) and len(value) <= 255 and value.isprintable(),
)
#: The word for keeping something for ever.
ALWAYS = "always"
KEEP = text(f"a time such as 30s, 10m, 8h or 7d, or {ALWAYS}", rf"[1-9][0-9]{{0,4}}[smhd]|{ALWAYS}", 6)
API_VERSION = text(
    "an apiVersion such as v1 or k8s.cni.cncf.io/v1", rf"(?:{_SUBDOMAIN}/)?v[0-9]+(?:(?:alpha|beta)[0-9]+)?", 317
)
KIND = text("a kind such as NetworkAttachmentDefinition", r"[A-Z][A-Za-z0-9]*", 63)
PLURAL = text("a resource's name in the API's paths, such as network-attachment-definitions", _LABEL, 63)

VLAN_ID = either(
    'a VLAN\'s number from 1 to 4094, or "{vlan}" for that of the user or group',
    whole_number("", 1, 4094),
    one_of("", "{vlan}"),
)
VLAN_KIND = one_of("vlan, macvlan or ipvlan", "vlan", "macvlan", "ipvlan")
VLAN_MODE = one_of(
    "bridge, private, vepa or passthru with macvlan; l2, l3 or l3s with ipvlan",
    *("bridge", "private", "vepa", "passthru"),
    *("l2", "l3", "l3s"),
)
INTERFACE = text(
    "the name of a network interface, at most 15 letters, digits and . _ -", r"[A-Za-z0-9][-A-Za-z0-9_.]*", 15
)
MTU = whole_number("a whole number of bytes from 68 to 65535", 68, 65535)

TAINT_KEY = text(
    "a taint's key, such as example.com/maintenance; empty for any",
    rf"(?:(?:(?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_LABEL_PART})?",
    317,
)
TAINT_OPERATOR = one_of("Equal or Exists", "Equal", "Exists")
TAINT_VALUE = text("a taint's value, at most 63 letters, digits, '-', '_' and '.'", rf"(?:{_LABEL_PART})?", 63)
TAINT_EFFECT = one_of("NoSchedule, NoExecute or None; left out for any", "NoSchedule", "NoExecute", "None", "")
SECONDS = whole_number("a whole number of seconds", MIN_INT64, MAX_INT64)

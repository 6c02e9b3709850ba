"""What drivers of network devices take as names and addresses."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_interface

from dra_spawner.profiles.syntax.rules import ValueRule

_INTERFACE = re.compile(r"(?!\.{1,2}$)[^\W]?[\w.-]{0,15}")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?:(?:[:-][0-9A-Fa-f]{2}){2}|(?:[:-][0-9A-Fa-f]{2}){14})?")


def _is_interface_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 15 and _INTERFACE.fullmatch(value) is not None


def _is_prefix(value: object) -> bool:
    return isinstance(value, str) and "/" in value and not _fails(ip_interface, value)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and "/" not in value and not _fails(ip_address, value)


def _fails(parse: object, value: str) -> bool:
    assert callable(parse)
    try:
        parse(value)
    except ValueError:
        return True
    return False


_TEXT = {"type": "string"}
INTERFACE_NAME = ValueRule("a name of at most 15 letters, digits, '-', '_' and '.'", _TEXT, _is_interface_name)
PREFIX = ValueRule('an address with its prefix, such as "192.168.1.10/24"', _TEXT, _is_prefix)
ADDRESS = ValueRule('an address such as "192.168.1.1"', _TEXT, _is_address)
HARDWARE_ADDRESS = ValueRule(
    'a hardware address such as "00:11:22:33:44:55"',
    _TEXT,
    lambda value: isinstance(value, str) and _MAC.fullmatch(value) is not None,
)


def family(value: object) -> int | None:
    """4 or 6 for an address with or without prefix; ``None`` for all else."""
    try:
        return ip_interface(value).version if isinstance(value, str) else None
    except ValueError:
        return None

"""Preferred devices of a claim: alternatives that stand before what a request asks for.

kube-scheduler gives the first device that fits. A request ``gpu`` with ``exactly`` becomes one with ``firstAvailable``:
``gpu/preferred`` asks for the same with one more selector, and ``gpu/any`` asks for the same as before. So the claim
fits wherever it did, also if the preferred devices are taken in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra_spawner.dra.cel.syntax.literals import cel_string_literal

Json: TypeAlias = dict[str, Any]

#: Name of the alternative that asks for what the request asked for.
ANY: Final = "any"
#: Alternatives before `ANY`. kube-scheduler keeps ten compiled expressions, and a request may have eight alternatives.
MAX_GROUPS: Final = 2
#: Devices that one alternative names.
MAX_DEVICES: Final = 8
_MAX_ATTRIBUTES: Final = 3
_MAX_SELECTORS: Final = 32
_MAX_CONFIG_REQUESTS: Final = 32
_MAX_REQUESTS: Final = 32
#: Limits of the API for a domain, an identifier and a text.
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_LONGEST_DOMAIN: Final = 63
_LONGEST_TEXT: Final = 64
#: JSON numbers above it are not exact everywhere.
_LARGEST_NUMBER: Final = 2**53


@dataclass(frozen=True, slots=True)
class DeviceMark:
    """What tells a device from others.

    Attributes
    ----------
    attributes
        Domain, name and value of each attribute.
    """

    driver: str
    attributes: tuple[tuple[str, str, str | int], ...]

    @property
    def is_usable(self) -> bool:
        """Whether the API allows all of its parts."""
        return (
            is_domain(self.driver)
            and 0 < len(self.attributes) <= _MAX_ATTRIBUTES
            and all(is_domain(domain) and is_attribute(name, value) for domain, name, value in self.attributes)
        )

    @property
    def selector(self) -> str:
        """CEL that selects the device, and never fails."""
        conditions = [f"device.driver == {cel_string_literal(self.driver)}"]
        for domain, name, value in self.attributes:
            own = f"device.attributes[{cel_string_literal(domain)}]"
            key = cel_string_literal(name)
            text = cel_string_literal(value) if isinstance(value, str) else str(value)
            conditions.append(f"{key} in {own} && {own}[{key}] == {text}")
        return " && ".join(conditions)


Group: TypeAlias = tuple[DeviceMark, ...]
#: By name of the request: groups of devices, the best first.
Preferences: TypeAlias = Mapping[str, tuple[Group, ...]]


def is_domain(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(text) is not None


def is_attribute(name: object, value: object) -> bool:
    """Whether an attribute can tell devices apart: a text or a whole number, within the limits of the API."""
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        return False
    if isinstance(value, str):
        # A lone surrogate is no text; JSON may carry one.
        return len(value.encode(errors="replace")) <= _LONGEST_TEXT and not re.search("[\ud800-\udfff]", value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


def group_name(number: int) -> str:
    """Name of the alternative for a group; the first one has the number 1."""
    return "preferred" if number == 1 else f"preferred-{number}"


def devices_selector(group: Group) -> str:
    """CEL that selects the devices of a group."""
    return " || ".join(f"({each.selector})" if len(group) > 1 else each.selector for each in group)


def may_have_preferences(request: Mapping[str, Any]) -> bool:
    """Whether a request can get alternatives: it asks for a number of devices, has no list of its own, and is usual.

    ``adminAccess`` is not possible in a list, and `All` leaves no choice.
    """
    exactly = request.get("exactly")
    return (
        isinstance(exactly, Mapping)
        and not request.get("firstAvailable")
        and "adminAccess" not in exactly
        and (exactly.get("allocationMode") or "ExactCount") == "ExactCount"
        and len(exactly.get("selectors") or ()) < _MAX_SELECTORS
    )


def with_preferences(spec: Json, preferences: Preferences) -> Json:
    """The spec of a claim with preferred devices; unchanged where a request cannot have any.

    Configuration for such a request names both alternatives, as drivers compare it with the name in the result.
    """
    devices = spec.get("devices")
    if not isinstance(devices, Mapping):
        return spec
    changed: dict[str, list[str]] = {}
    requests = []
    for request in devices.get("requests") or ():
        groups = preferences.get(request.get("name"), ())[:MAX_GROUPS] if may_have_preferences(request) else ()
        if groups:
            request = _with_alternatives(request, groups)
            changed[request["name"]] = [f"{request['name']}/{each['name']}" for each in request["firstAvailable"]]
        requests.append(request)
    if not changed:
        return spec
    found = {**devices, "requests": requests}
    if devices.get("config"):
        config = [_for_alternatives(each, changed) for each in devices["config"]]
        if any(len(each.get("requests") or ()) > _MAX_CONFIG_REQUESTS for each in config):
            return spec
        found["config"] = config
    return {**spec, "devices": found}


def _with_alternatives(request: Json, groups: Sequence[Group]) -> Json:
    exactly = dict(request["exactly"])
    named = []
    for number, group in enumerate(groups, 1):
        # First of the request's selectors: the others are asked about no further device than the named ones.
        selectors = [{"cel": {"expression": devices_selector(group)}}, *(exactly.get("selectors") or ())]
        named.append({"name": group_name(number), **exactly, "selectors": selectors})
    return {"name": request["name"], "firstAvailable": [*named, {"name": ANY, **exactly}]}


def _for_alternatives(config: Json, changed: Mapping[str, Sequence[str]]) -> Json:
    requests = config.get("requests")
    if not requests or not any(each in changed for each in requests):
        return config
    return {**config, "requests": [name for each in requests for name in changed.get(each, (each,))]}


def preferences_json(preferences: Preferences) -> Json:
    """Preferences for an answer; `read_preferences` reads them."""
    return {
        request: [
            [
                {
                    "driver": mark.driver,
                    "attributes": {f"{domain}/{name}": value for domain, name, value in mark.attributes},
                }
                for mark in group
            ]
            for group in groups
        ]
        for request, groups in preferences.items()
    }


def read_preferences(value: object) -> dict[str, tuple[Group, ...]]:
    """Preferences from decoded JSON of any form.

    Raises
    ------
    ValueError
        If a part is not allowed; the message names it.
    """
    if not isinstance(value, Mapping) or len(value) > _MAX_REQUESTS:
        raise ValueError("no object with requests")
    found = {}
    for request, groups in value.items():
        if not isinstance(groups, list) or not 0 < len(groups) <= MAX_GROUPS:
            raise ValueError(f"request {str(request)[:80]!r} has not 1 to {MAX_GROUPS} groups")
        found[str(request)] = tuple(map(_read_group, groups))
    return found


def _read_group(value: object) -> Group:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_DEVICES:
        raise ValueError(f"a group has not 1 to {MAX_DEVICES} devices")
    return tuple(map(_read_mark, value))


def _read_mark(value: object) -> DeviceMark:
    attributes = value.get("attributes") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(attributes, Mapping):
        raise ValueError("a device is no object with driver and attributes")
    named = ((*str(key).split("/", 1), each) for key, each in attributes.items() if "/" in str(key))
    mark = DeviceMark(str(value.get("driver")), tuple((domain, name, each) for domain, name, each in named))
    if len(mark.attributes) != len(attributes) or not mark.is_usable:
        raise ValueError("a device has a driver or an attribute that the API does not allow")
    return mark

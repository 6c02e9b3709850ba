"""Requests of the profile language: devices of one class, or alternatives of such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.cel import CelCompileError, compile_selector
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.compiler.claims import DeviceRequest
from dra_spawner.profiles.compiler.vlan_attachments import VlanReader
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import (
    ALTERNATIVE_KEYS,
    CHOICE_KEYS,
    EXACT_KEYS,
    LISTED_ALTERNATIVE_KEYS,
    MAX_ALTERNATIVES,
    MAX_SELECTORS,
    MAX_TOLERATIONS,
    NO_KEYS,
    NONE,
    REQUEST_KEYS,
    TOLERATION_KEYS,
    Keys,
)
from dra_spawner.profiles.syntax.properties import PROPERTIES

_REQUEST_EXAMPLE = "a mapping with at least device_class"


class RequestReader(VlanReader):
    """Reads requests.

    Attributes
    ----------
    list_attributes
        Whether attributes of devices may be lists on the cluster.
    admin_access_paths
        Where access for administration is asked for.
    """

    def __init__(self, *, list_attributes: bool) -> None:
        super().__init__()
        self.list_attributes = list_attributes
        self.admin_access_paths: list[str] = []

    def request(self, name: str, value: object, path: str, more: Keys = NO_KEYS) -> DeviceRequest | None:
        """One request of a claim; a claim in short form is one, too, with ``more`` keys that are read elsewhere."""
        entry = self.mapping(value, path, _REQUEST_EXAMPLE)
        if entry is None:
            return None
        if "first_available" in entry:
            what = "key of a request with alternatives, which have all others"
            self.known_keys(entry, path, {**CHOICE_KEYS, **more}, what)
            where = f"{path}.first_available"
            wanted, optional = self._without_none(entry["first_available"], where)
            return DeviceRequest(name, optional=optional, first_available=self._alternatives(wanted, where))
        self.known_keys(entry, path, {**REQUEST_KEYS, **more}, "keys of a request")
        written = entry.get("optional")
        optional = written is not None and self.follows(rules.FLAG, written, f"{path}.optional") and bool(written)
        devices = self._devices(name, entry, path, EXACT_KEYS)
        return replace(devices, optional=True) if optional else devices

    def _without_none(self, value: object, path: str) -> tuple[object, bool]:
        """The alternatives that are some, and whether none will do, too."""
        if isinstance(value, Mapping) and NONE in value:
            # Wherever tools sort it to: no device is the last choice.
            if value[NONE] != {} or not isinstance(value[NONE], Mapping):
                self.refuse(f"{path}.{NONE}", value[NONE], "an empty mapping: none is to start without a device")
            return {name: entry for name, entry in value.items() if name != NONE}, True
        if not isinstance(value, list | tuple):
            return value, False
        places = [index for index, each in enumerate(value) if isinstance(each, Mapping) and each.get("name") == NONE]
        for index in places:
            if len(value[index]) > 1:
                self.refuse(f"{path}[{index}]", value[index], "nothing beside name: none is to start without a device")
            elif index < len(value) - 1:
                self.refuse(f"{path}[{index}]", value[index], "none as the last alternative")
        return [each for index, each in enumerate(value) if index not in places], bool(places)

    def _alternatives(self, value: object, path: str) -> tuple[DeviceRequest, ...]:
        if isinstance(value, list | tuple):
            alternatives = self.listed(value, path, "alternatives", MAX_ALTERNATIVES, self._listed_alternative)
            names = [alternative.name for alternative in alternatives]
            if len(set(names)) < len(names):
                self.refuse(path, names, "each name once")
        else:
            alternatives = self.named(value, path, "an alternative", MAX_ALTERNATIVES, self._alternative)
        if isinstance(value, list | tuple | Mapping) and not value:
            self.missing(path, "at least one alternative")
        return alternatives

    def _listed_alternative(self, value: object, path: str) -> DeviceRequest | None:
        entry = self.mapping(value, path, "a mapping with at least name and device_class")
        if entry is None:
            return None
        self.known_keys(entry, path, LISTED_ALTERNATIVE_KEYS, "keys of an alternative")
        name = entry.get("name")
        if name is None:
            self.missing(f"{path}.name", rules.NAME.allowed)
        else:
            self.follows(rules.NAME, name, f"{path}.name")
        return self._devices(name if isinstance(name, str) else "", entry, path, ALTERNATIVE_KEYS)

    def _alternative(self, name: str, value: object, path: str) -> DeviceRequest | None:
        entry = self.mapping(value, path, _REQUEST_EXAMPLE)
        if entry is None:
            return None
        self.known_keys(entry, path, ALTERNATIVE_KEYS, "keys of an alternative")
        return self._devices(name, entry, path, ALTERNATIVE_KEYS)

    def _devices(self, name: str, entry: Mapping[str, object], path: str, keys: Keys) -> DeviceRequest:
        device_class = entry.get("device_class")
        if device_class is None:
            self.missing(f"{path}.device_class", "the name of a DeviceClass of the cluster")
        else:
            self.follows(rules.DEVICE_CLASS, device_class, f"{path}.device_class")
        count = self._count(entry.get("count"), f"{path}.count")
        capacity = self._capacity(entry.get("capacity"), f"{path}.capacity")
        properties = self._properties(entry, path)
        return DeviceRequest(
            name=name,
            device_class=device_class if isinstance(device_class, str) else "",
            count=count,
            properties=properties,
            capacity=capacity,
            where=self._where(entry.get("where"), f"{path}.where", len(properties)),
            tolerations=self.listed(
                entry.get("tolerations"), f"{path}.tolerations", "tolerations", MAX_TOLERATIONS, self._toleration
            ),
            admin_access="admin_access" in keys and self._admin_access(entry.get("admin_access"), path),
            vlan=self.vlan(entry.get("vlan"), f"{path}.vlan", device_class, count == 1),
            list_attributes=self.list_attributes,
        )

    def _count(self, value: object, path: str) -> int | None:
        if value is None:
            return 1
        if not self.follows(rules.COUNT, value, path):
            return 1
        return value if isinstance(value, int) else None

    def _properties(self, entry: Mapping[str, object], path: str) -> tuple[tuple[str, str | int | bool], ...]:
        found = []
        for name, each in PROPERTIES.items():
            value = entry.get(name)
            if value is not None and self.follows(each.rule, value, f"{path}.{name}"):
                assert isinstance(value, str | int)
                found.append((name, value))
        return tuple(found)

    def _admin_access(self, value: object, path: str) -> bool:
        path = f"{path}.admin_access"
        if value is None or not self.follows(rules.FLAG, value, path) or not value:
            return False
        self.admin_access_paths.append(path)
        return True

    def _capacity(self, value: object, path: str) -> tuple[tuple[str, str], ...]:
        if value is None:
            return ()
        entries = self.mapping(value, path, "a mapping of a capacity's name to a quantity, such as {memory: 10Gi}")
        amounts = []
        for name, amount in (entries or {}).items():
            where = f"{path}.{name}"
            if not self.follows(rules.CAPACITY_NAME, name, where) or not self.follows(rules.QUANTITY, amount, where):
                continue
            assert isinstance(amount, str | int)
            amounts.append((name, str(Quantity.parse(amount))))
        return tuple(amounts)

    def _where(self, value: object, path: str, properties: int) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            expressions = [(path, value)]
        elif isinstance(value, list | tuple):
            expressions = [(f"{path}[{index}]", expression) for index, expression in enumerate(value)]
        else:
            self.refuse(path, value, "a CEL expression or a list of them")
            return ()
        if len(expressions) + properties > MAX_SELECTORS:
            words = ", ".join(PROPERTIES)
            self.refuse(path, f"{len(expressions)} expressions", f"at most {MAX_SELECTORS} with {words}")
        for where, expression in expressions:
            self._expression(expression, where)
        return tuple(expression for _, expression in expressions)

    def _expression(self, value: object, path: str) -> None:
        if not isinstance(value, str):
            self.refuse(path, value, "a CEL expression as text")
            return
        try:
            compile_selector(value)
        except CelCompileError as error:
            self.refuse(path, value, f"a CEL expression that compiles (column {error.column}: {error.message})")

    def _toleration(self, value: object, path: str) -> JsonObject | None:
        entry = self.keyed(
            value, path, TOLERATION_KEYS, "keys of a toleration", "a mapping such as {key: example.com/fault}"
        )
        if entry is None:
            return None
        toleration: JsonObject = {}
        for name, rule in _TOLERATION_RULES.items():
            found = entry.get(name)
            if found is not None and self.follows(rule, found, f"{path}.{name}"):
                toleration[name] = found
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            self.refuse(f"{path}.value", toleration["value"], "no value with operator Exists")
        return toleration


_TOLERATION_RULES = {
    "key": rules.TAINT_KEY,
    "operator": rules.TAINT_OPERATOR,
    "value": rules.TAINT_VALUE,
    "effect": rules.TAINT_EFFECT,
    "tolerationSeconds": rules.SECONDS,
}

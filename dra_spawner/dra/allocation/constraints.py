"""Conditions on the devices of one claim taken together: matchAttribute and distinctAttribute.

A constraint sees every device before its allocation and may refuse it; its state is undone in
reverse order when the search gives devices up. Which shortcuts of kube-scheduler it shares, :class:`Quirks` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from dra_spawner.dra.cel.semver import is_version
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.model.claims import DeviceConstraint
from dra_spawner.dra.model.devices import Attribute, AttributeKind, Device
from dra_spawner.dra.scheduler_rules import SchedulerRules


class Constraint(Protocol):
    """What the search needs of a constraint."""

    attribute_name: str

    def add(self, request: str, alternative: str, device: Device) -> bool:
        """Take the device in; False, and nothing is remembered on purpose, when it does not go with the others."""
        ...

    def remove(self, request: str, alternative: str, device: Device) -> None:
        """Undo the last :meth:`add`, which was of the same device and not refused."""
        ...


def make_constraint(constraint: DeviceConstraint, rules: SchedulerRules) -> Constraint | None:
    """The constraint at work; None when it is of a kind unknown here. If both attributes are set, match wins."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        if rules.features.list_type_attributes:
            return MatchAttributeList(requests, constraint.match_attribute, rules)
        return MatchAttribute(requests, constraint.match_attribute, rules)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(requests, constraint.distinct_attribute, rules)
    return None


def find_attribute(device: Device, name: str) -> Attribute | None:
    """Attribute with this fully qualified name; the driver's own ones may be published without domain."""
    attributes = device.description.attributes
    attribute = attributes.get(name)
    if attribute is None:
        domain, slash, short_name = name.partition("/")
        if slash and domain == device.id.driver:
            attribute = attributes.get(short_name)
    return attribute


class _AttributeConstraint:
    """What both kinds share: which requests it is about."""

    __slots__ = ("_requests", "_rules", "attribute_name")

    def __init__(self, requests: frozenset[str], attribute_name: str, rules: SchedulerRules) -> None:
        self._requests = requests
        self._rules = rules
        self.attribute_name = attribute_name

    def _attribute(self, device: Device) -> Attribute | None:
        """The device's attribute as it is compared; None if the device has none.

        Raises
        ------
        AllocationError
            If it is of a kind that kube-scheduler does not compare, and gives up on.
        """
        attribute = find_attribute(device, self.attribute_name)
        quirks = self._rules.quirks
        if attribute is None or (quirks.versions_as_text and quirks.odd_attributes_refused):
            return attribute
        if not quirks.odd_attributes_refused and not self._is_comparable(attribute):
            raise AllocationError(
                FatalReason.CONSTRAINT, f"device {device.id}: {self.attribute_name} has a value that cannot be compared"
            )
        if quirks.versions_as_text or attribute.kind not in (AttributeKind.VERSION, AttributeKind.VERSIONS):
            return attribute
        if isinstance(attribute.value, tuple):
            return Attribute(attribute.kind, tuple([str(each).partition("+")[0] for each in attribute.value]))
        return Attribute(attribute.kind, str(attribute.value).partition("+")[0])

    def _is_comparable(self, attribute: Attribute) -> bool:
        if attribute.kind in (AttributeKind.VERSION, AttributeKind.VERSIONS):
            versions = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
            if not all(map(is_version, versions)):
                return False
        if self._rules.features.list_type_attributes:
            return _as_set(attribute) is not None
        return attribute.kind in _SCALARS

    def _concerns(self, request: str, alternative: str) -> bool:
        return (
            not self._requests
            or request in self._requests
            or bool(alternative and f"{request}/{alternative}" in self._requests)
        )


class MatchAttribute(_AttributeConstraint):
    """All devices have the same value, types included; versions are compared as text."""

    __slots__ = ("_count", "_first")

    def __init__(self, requests: frozenset[str], attribute_name: str, rules: SchedulerRules) -> None:
        super().__init__(requests, attribute_name, rules)
        self._first: Attribute | None = None
        self._count = 0

    def add(self, request: str, alternative: str, device: Device) -> bool:
        if not self._concerns(request, alternative):
            return True
        attribute = self._attribute(device)
        if attribute is None:
            return False
        if self._count == 0:
            # Whatever its type: the first device always passes.
            self._first = attribute
        elif attribute.kind not in _SCALARS or attribute != self._first:
            return False
        self._count += 1
        return True

    def remove(self, request: str, alternative: str, device: Device) -> None:
        if self._concerns(request, alternative):
            self._count -= 1


class MatchAttributeList(_AttributeConstraint):
    """All devices have a value in common; a single value counts as a list of one."""

    __slots__ = ("_common", "_count", "_earlier", "_stays_narrowed")

    def __init__(self, requests: frozenset[str], attribute_name: str, rules: SchedulerRules) -> None:
        super().__init__(requests, attribute_name, rules)
        self._stays_narrowed = rules.quirks.match_stays_narrowed
        self._common: ValueSet = _NO_VALUES
        self._earlier: list[ValueSet] = []
        self._count = 0

    def add(self, request: str, alternative: str, device: Device) -> bool:
        if not self._concerns(request, alternative):
            return True
        attribute = self._attribute(device)
        values = _as_set(attribute) if attribute is not None else None
        if values is None:
            return False
        common = values if self._count == 0 else self._common & values
        if not common:
            return False
        self._earlier.append(self._common)
        self._common = common
        self._count += 1
        return True

    def remove(self, request: str, alternative: str, device: Device) -> None:
        if not self._concerns(request, alternative):
            return
        self._count -= 1
        earlier = self._earlier.pop()
        if not self._stays_narrowed:
            self._common = earlier


class DistinctAttribute(_AttributeConstraint):
    """No two devices have the same value; values of different types are different."""

    __slots__ = ("_by_request", "_count", "_history", "_lists", "_remembers_last")

    def __init__(self, requests: frozenset[str], attribute_name: str, rules: SchedulerRules) -> None:
        super().__init__(requests, attribute_name, rules)
        self._lists = rules.features.list_type_attributes
        self._remembers_last = rules.quirks.distinct_remembers_last_device
        self._by_request: dict[str, Attribute] = {}
        self._history: list[Attribute] = []
        self._count = 0

    def add(self, request: str, alternative: str, device: Device) -> bool:
        if not self._concerns(request, alternative):
            return True
        attribute = self._attribute(device)
        if attribute is None:
            return False
        if not (self._remembers_last and self._count == 0) and not self._is_new(attribute):
            return False
        self._by_request[request] = attribute
        self._history.append(attribute)
        self._count += 1
        return True

    def remove(self, request: str, alternative: str, device: Device) -> None:
        if self._concerns(request, alternative):
            self._by_request.pop(request, None)
            self._history.pop()
            self._count -= 1

    def _is_new(self, attribute: Attribute) -> bool:
        known = list(self._by_request.values()) if self._remembers_last else self._history
        if self._lists:
            values = _as_set(attribute)
            return values is not None and not any(values & (_as_set(other) or _NO_VALUES) for other in known)
        if attribute.kind not in _SCALARS:
            return not known
        return attribute not in known


ValueSet = frozenset[tuple[AttributeKind, object]]
"""Values of an attribute, each with the type of a single one."""

_NO_VALUES: Final[ValueSet] = frozenset()
_SCALARS: Final = frozenset(
    {AttributeKind.STRING, AttributeKind.INT, AttributeKind.BOOL, AttributeKind.VERSION},
)
_ELEMENT_KINDS: Final[Mapping[AttributeKind, AttributeKind]] = {
    AttributeKind.STRINGS: AttributeKind.STRING,
    AttributeKind.INTS: AttributeKind.INT,
    AttributeKind.BOOLS: AttributeKind.BOOL,
    AttributeKind.VERSIONS: AttributeKind.VERSION,
}


def _as_set(attribute: Attribute) -> ValueSet | None:
    """The attribute's values; None when it is of an unknown type or an empty list."""
    if attribute.kind in _SCALARS:
        return frozenset({(attribute.kind, attribute.value)})
    kind = _ELEMENT_KINDS.get(attribute.kind)
    if kind is None or not isinstance(attribute.value, tuple):
        return None
    return frozenset((kind, value) for value in attribute.value) or None

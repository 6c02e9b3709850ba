"""The variable ``device``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from dra_spawner.dra.cel.errors import CelRuntimeError
from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver, SemverError
from dra_spawner.dra.cel.values import INT_MAX, INT_MIN, DefaultMap, Value
from dra_spawner.dra.quantity import Quantity

OWN_DOMAIN: Final = "device.driver"
"""Stands for the domain of the device's own driver, where an expression says ``device.attributes[device.driver]``."""

_LIST_FIELDS: Final = ("ints", "bools", "strings", "versions")


class CelDevice:
    """A device, prepared for any number of selectors.

    Build it with :meth:`from_device`. The maps must not be changed afterwards.
    """

    __slots__ = ("_fields", "allow_multiple_allocations", "attributes", "capacity", "driver", "error")

    driver: str
    attributes: DefaultMap
    capacity: DefaultMap
    allow_multiple_allocations: bool

    error: CelRuntimeError | None
    """Why no selector can be evaluated on this device, if so."""

    def __init__(
        self,
        driver: str,
        attributes: DefaultMap,
        capacity: DefaultMap,
        allow_multiple_allocations: bool,
        error: CelRuntimeError | None = None,
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.allow_multiple_allocations = allow_multiple_allocations
        self.error = error
        self._fields: dict[str, Value] | None = None

    @classmethod
    def from_device(
        cls,
        driver: str,
        attributes: Mapping[str, Mapping[str, Any]],
        capacity: Mapping[str, Quantity],
        allow_multiple_allocations: bool | None = None,
        *,
        list_attributes: bool = False,
    ) -> CelDevice:
        """Convert a device of a ResourceSlice (``spec.devices[]`` of ``resource.k8s.io/v1``).

        Parameters
        ----------
        driver
            ``spec.driver`` of the slice, the domain of all names that have none.
        attributes
            ``name`` or ``domain/name`` to the API's object: ``{"string": ...}``, ``{"int": ...}``, ``{"bool": ...}``,
            ``{"version": ...}``.
        capacity
            ``name`` or ``domain/name`` to the full amount.
        allow_multiple_allocations
            The field of that name; None is false.
        list_attributes
            Whether list values (``{"strings": [...]}`` and so on) are known, the DRAListTypeAttributes gate.

        Notes
        -----
        When both ``name`` and ``driver/name`` exist the longer one counts; Kubernetes before 1.38 picks at random.
        A value that cannot be converted is no error yet. Each selector fails on such a device, as in Kubernetes.
        """
        error: CelRuntimeError | None = None
        domains: dict[str, dict[str, Value]] = {}
        for name, attribute in attributes.items():
            try:
                value = _attribute_value(attribute, list_attributes)
            except ValueError as problem:
                error = error or CelRuntimeError(f"attribute {name}: {problem}")
                continue
            domain, slash, identifier = name.partition("/")
            if not slash:
                if f"{driver}/{name}" in attributes:
                    continue
                domain, identifier = driver, name
            domains.setdefault(domain, {})[identifier] = value
        capacities: dict[str, dict[str, Value]] = {}
        for name, quantity in capacity.items():
            domain, slash, identifier = name.partition("/")
            if not slash:
                if f"{driver}/{name}" in capacity:
                    continue
                domain, identifier = driver, name
            capacities.setdefault(domain, {})[identifier] = CelQuantity.of(quantity)
        allow = bool(allow_multiple_allocations)
        return cls(driver, DefaultMap(domains), DefaultMap(capacities), allow, error)

    @property
    def fields(self) -> dict[str, Value]:
        """The device as a map, for expressions that handle it as a whole."""
        if self._fields is None:
            self._fields = {
                "driver": self.driver,
                "attributes": self.attributes,
                "capacity": self.capacity,
                "allowMultipleAllocations": self.allow_multiple_allocations,
            }
        return self._fields


def _attribute_value(attribute: Mapping[str, Any], list_attributes: bool) -> Value:
    if list_attributes:
        for field in _LIST_FIELDS:
            values = attribute.get(field)
            if values is not None:
                return [_scalar(field[:-1], value) for value in values]
    for field in ("int", "bool", "string", "version"):
        value = attribute.get(field)
        if value is not None:
            return _scalar(field, value)
    raise ValueError("unsupported attribute value")


def _scalar(field: str, value: Any) -> Value:
    match field, value:
        case "int", int() if not isinstance(value, bool) and INT_MIN <= value <= INT_MAX:
            return value
        case ("bool", bool()) | ("string", str()):
            return value
        case "version", str():
            return _version(value)
    raise ValueError(f"unsupported attribute value: {value!r} is no {field}")


@lru_cache(maxsize=4096)
def _version(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise SemverError(f"parse semantic version: {error}") from None

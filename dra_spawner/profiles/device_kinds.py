"""The devices of a cluster, alike ones together: a selector is asked once for all devices it cannot tell apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dra_spawner.dra.allocation.selectors import SelectorCache, SelectorFailure
from dra_spawner.dra.allocation.visibility import Visibility, published_names
from dra_spawner.dra.cel.evaluation.device import OWN_DOMAIN
from dra_spawner.dra.model.devices import Device, PoolId, ResourceSlice

#: What rules about drivers look at, whatever selectors do.
_ALWAYS_SEEN: Final = frozenset({f"{OWN_DOMAIN}/type", f"{OWN_DOMAIN}/ifName"})


@dataclass(frozen=True, slots=True)
class Candidates:
    """Devices that a request could get, one for each kind.

    Attributes
    ----------
    devices
        Selected by the class's and the request's selectors; alike ones left out.
    failures
        Devices on which a selector fails, with what it said.
    """

    devices: tuple[Device, ...] = ()
    failures: tuple[tuple[Device, SelectorFailure], ...] = ()


class DeviceKinds:
    """Devices grouped by their visible attributes.

    Parameters
    ----------
    slices
        Of each pool, those of its newest generation count.
    see_lists
        Whether selectors may look at attributes that are lists, see `SchedulerRules`.
    """

    def __init__(self, slices: Sequence[ResourceSlice], *, see_lists: bool) -> None:
        self._slices = slices
        self.selectors = SelectorCache(list_attributes=see_lists)
        self._kinds: dict[frozenset[str] | None, tuple[Device, ...]] = {}
        self._kinds_of_names: dict[frozenset[tuple[str, tuple[str, ...]]], tuple[Device, ...]] = {}
        self._found: dict[tuple[str, ...], Candidates] = {}
        self._all_found: dict[tuple[str, ...], tuple[Device, ...]] = {}

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        newest: dict[PoolId, int] = {}
        for item in self._slices:
            newest[item.pool_id] = max(item.generation, newest.get(item.pool_id, item.generation))
        return tuple(
            device for item in self._slices if item.generation == newest[item.pool_id] for device in item.devices
        )

    @cached_property
    def _numbered(self) -> tuple[tuple[Device, int], ...]:
        """Devices with a number that is equal where they are, attributes apart."""
        numbers: dict[Hashable, int] = {}
        return tuple(
            (device, numbers.setdefault((device.description.common_key, bool(device.counter_sets)), len(numbers)))
            for device in self.devices
        )

    @cached_property
    def published(self) -> frozenset[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Driver, names of attributes and names of capacities, as devices have them; most of a driver have the same."""
        return frozenset(
            (device.id.driver, tuple(device.description.attributes), tuple(device.description.capacity))
            for device in self.devices
        )

    @cached_property
    def _attribute_names(self) -> Mapping[str, frozenset[str]]:
        """By driver, the names of the attributes that any of its devices has."""
        names: dict[str, frozenset[str]] = {}
        for driver, attributes, _ in self.published:
            names[driver] = names.get(driver, frozenset()).union(attributes)
        return names

    def candidates(self, expressions: tuple[str, ...]) -> Candidates:
        """One device of each kind that these selectors select; equal ones for equal `expressions`."""
        known = self._found.get(expressions)
        if known is None:
            known = self._found[expressions] = self._find(expressions)
        return known

    def all_candidates(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """Every single device that these selectors select."""
        known = self._all_found.get(expressions)
        if known is None:
            selects = self.selectors.filter(expressions)
            found = (device for device in self.devices if selects.verdict(device.description) is True)
            known = self._all_found[expressions] = tuple(found)
        return known

    def _find(self, expressions: tuple[str, ...]) -> Candidates:
        selects = self.selectors.filter(expressions)
        devices: list[Device] = []
        failures: list[tuple[Device, SelectorFailure]] = []
        for device in self._kinds_by(selects.attributes):
            verdict = selects.verdict(device.description)
            if isinstance(verdict, SelectorFailure):
                failures.append((device, verdict))
            elif verdict:
                devices.append(device)
        return Candidates(tuple(devices), tuple(failures))

    def _kinds_by(self, attributes: frozenset[str] | None) -> tuple[Device, ...]:
        """One device of each kind that these attributes distinguish; None for all attributes."""
        kinds = self._kinds.get(attributes)
        if kinds is not None:
            return kinds
        if attributes is None or any(name.endswith("/") for name in attributes):
            visibility = Visibility(None if attributes is None else attributes | _ALWAYS_SEEN)
            first: dict[Hashable, Device] = {}
            for device, number in self._numbered:
                first.setdefault((number, visibility.seen(device.description)), device)
            kinds = tuple(first.values())
        else:
            kinds = self._kinds_by_names(attributes | _ALWAYS_SEEN)
        self._kinds[attributes] = kinds
        return kinds

    def _kinds_by_names(self, attributes: frozenset[str]) -> tuple[Device, ...]:
        """The same for known attributes; attributes that no device publishes do not matter."""
        names = {
            driver: tuple([name for name in published_names(attributes, driver)[0] if name in there])
            for driver, there in self._attribute_names.items()
        }
        key = frozenset(names.items())
        kinds = self._kinds_of_names.get(key)
        if kinds is None:
            first: dict[Hashable, Device] = {}
            for device, number in self._numbered:
                values = device.description.attributes
                first.setdefault((number, *[values.get(name) for name in names[device.id.driver]]), device)
            kinds = self._kinds_of_names[key] = tuple(first.values())
        return kinds


#: Replaced as a whole, and read once in a call: threads share it.
_recent: tuple[Sequence[ResourceSlice], bool, DeviceKinds] | None = None


def kinds_of(slices: Sequence[ResourceSlice], *, see_lists: bool) -> DeviceKinds:
    """The kinds of devices in these slices, cached for the last slices."""
    if len(slices) < 2:
        return DeviceKinds(slices, see_lists=see_lists)  # the cache is for a whole cluster's
    global _recent
    recent = _recent
    if recent is None or recent[0] is not slices or recent[1] is not see_lists:
        recent = _recent = (slices, see_lists, DeviceKinds(slices, see_lists=see_lists))
    return recent[2]

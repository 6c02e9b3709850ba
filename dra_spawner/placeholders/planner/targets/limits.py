"""An administrator's limits of placeholders: how many of what may exist, and of whom.

Users' servers are never limited. What counts is in `limit_usage`, and what follows in `limited_targets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.targets.choice_names import find_choice, profile_of

__all__ = ["DEVICES", "PLACEHOLDERS", "Limit", "counted", "resolved_limits"]

#: Names of the bounds that are not about capacities.
PLACEHOLDERS: Final = "*"
DEVICES: Final = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most placeholders, devices and capacities of devices; a bound that is not set does not count.

    Attributes
    ----------
    name
        For people: unique among all limits.
    placeholders
        The most placeholders; None for any number.
    devices
        The most devices that placeholders hold together; None for any number. A shared device counts once.
    capacity
        The most that placeholders hold of each capacity of devices, by the name that drivers publish.
    device_class
        Only devices that are requested by this DeviceClass count; empty for all.
    selector
        Only devices that this CEL expression selects count; empty for all.
    profiles
        Names of profiles (`gpu-slice`) and choices (`gpu-slice/memory=large`) whose placeholders count; empty for all.
    shapes
        Ids of the shapes of these profiles, once they are published; None for all shapes.
    all_hubs
        Whether placeholders of all hubs of the cluster count, and not only this service's.
    """

    name: str
    placeholders: int | None = None
    devices: int | None = None
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    device_class: str = ""
    selector: str = ""
    profiles: tuple[str, ...] = ()
    shapes: frozenset[str] | None = None
    all_hubs: bool = False

    def applies_to(self, shape: str) -> bool:
        """Whether placeholders of a shape count."""
        return self.shapes is None or shape in self.shapes

    @property
    def counts_devices(self) -> bool:
        """Whether it limits devices or capacities, and not only placeholders."""
        return self.devices is not None or bool(self.capacity)

    @property
    def bounds(self) -> dict[str, int]:
        """The most that is allowed, by bound; of capacities in nano-units."""
        numbers = {PLACEHOLDERS: self.placeholders, DEVICES: self.devices}
        found = {bound: most for bound, most in numbers.items() if most is not None}
        return found | {name: most.nano for name, most in self.capacity.items()}

    def __str__(self) -> str:
        parts = []
        if self.placeholders is not None:
            parts.append(counted(self.placeholders, "placeholder"))
        if self.devices is not None:
            parts.append(counted(self.devices, "device") + self._of_what)
        parts += [f"{amount} of {name}{self._of_what}" for name, amount in self.capacity.items()]
        of_all = ", of all hubs" if self.all_hubs else ""
        return f"limit {self.name!r} ({', '.join(parts)}{of_all})"

    @property
    def _of_what(self) -> str:
        of_class = f" of {self.device_class}" if self.device_class else ""
        return f"{of_class} that its selector selects" if self.selector else of_class


def resolved_limits(limits: Iterable[Limit], shapes: Mapping[str, str]) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """The limits with the shapes of their profiles; and names of profiles that are not published, as sentences.

    Parameters
    ----------
    shapes
        Id of the shape by published name of the choice.
    """
    found: list[Limit] = []
    problems: list[str] = []
    for limit in limits:
        if not limit.profiles:
            found.append(replace(limit, shapes=None))
            continue
        of_profiles = {name: _shapes_of(name, shapes) for name in limit.profiles}
        problems += [
            f"limit {limit.name!r}: the hub publishes no choice of profile {name}"
            for name, its in of_profiles.items()
            if not its
        ]
        found.append(replace(limit, shapes=frozenset().union(*of_profiles.values())))
    return tuple(found), tuple(problems)


def _shapes_of(profile: str, shapes: Mapping[str, str]) -> frozenset[str]:
    """Shapes of all choices of a profile, or of the one choice that is named."""
    choice = find_choice(profile, shapes)
    if "/" in profile:
        return frozenset((shapes[choice],)) if choice is not None else frozenset()
    return frozenset(shape for name, shape in shapes.items() if profile_of(name) == profile)


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

"""Several equal sets of requests whose devices belong together, such as GPUs each with a network card beside it.

Kubernetes has constraints for the requests of a claim, none for single devices of a request. So each set becomes
requests of its own, ``gpu-0`` and ``nic-0``, ``gpu-1`` and ``nic-1``, and each set gets its own ``matchAttribute``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dra_spawner.profiles.compiler.claims import DeviceConstraint, DeviceRequest


@dataclass(frozen=True, slots=True)
class Pairs:
    """The expansion of ``pairs``.

    Attributes
    ----------
    names
        What stands for several requests: ``gpu`` for ``gpu-0`` and ``gpu-1``, ``gpu/mig`` likewise.
    """

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def expand(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of requests, with groups expanded, each once."""
        return tuple(dict.fromkeys(each for name in names for each in self.names.get(name, (name,))))


def expand_pairs(count: int, match_attribute: str, requests: Iterable[DeviceRequest]) -> Pairs:
    """``count`` copies of the requests, and the constraints that keep each copy together."""
    requests = tuple(requests)
    sets = [[replace(each, name=f"{each.name}-{number}") for each in requests] for number in range(count)]
    names = {each.name: tuple(f"{each.name}-{number}" for number in range(count)) for each in requests}
    for each in requests:
        for alternative in each.first_available:
            copies = tuple(f"{name}/{alternative.name}" for name in names[each.name])
            names[f"{each.name}/{alternative.name}"] = copies
    constraints = (DeviceConstraint(match_attribute, requests=tuple(each.name for each in one_set)) for one_set in sets)
    return Pairs(tuple(each for one_set in sets for each in one_set), tuple(constraints), names)

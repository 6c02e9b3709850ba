"""Taints of devices and the tolerations of requests (KEP-5055)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dra_spawner.dra.model.claims import Toleration
from dra_spawner.dra.model.devices import Taint

_BLOCKING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint.

    An empty effect or key covers any, also with the operator Equal: then the value alone is compared. The time a
    taint may be tolerated does not matter when devices are allocated.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def blocking_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the device from being allocated; None when nothing does."""
    for taint in taints:
        if taint.effect in _BLOCKING_EFFECTS and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None

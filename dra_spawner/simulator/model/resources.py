"""Amounts of node resources, in the whole units that kube-scheduler compares.

CPU is counted in thousandths of a core, everything else in its own unit. Finer amounts are rounded up, once for each
pod and each node, as the scheduler's ``Resource`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from dra_spawner.dra.quantity import Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

Amounts = Mapping[str, int]
"""By resource name: millicores for ``cpu``, whole units for the rest."""

PodRequests = Mapping[str, Quantity]
"""By resource name, exact."""

_NANO_PER_MILLI: Final = 10**6


def to_amounts(quantities: PodRequests) -> dict[str, int]:
    """Round up to the units that kube-scheduler compares."""
    return {
        intern(name): -(-quantity.nano // _NANO_PER_MILLI) if name == CPU else quantity.value()
        for name, quantity in quantities.items()
    }


def container_sum(
    containers: Iterable[PodRequests], init_containers: Iterable[tuple[PodRequests, bool]]
) -> dict[str, Quantity]:
    """The largest amounts that the containers of a pod need at the same time (KEP-753).

    Parameters
    ----------
    init_containers
        Requests of each init container in order, and whether it keeps running beside the others (a sidecar).
    """
    total: dict[str, Quantity] = {}
    for requests in containers:
        _add(total, requests)
    sidecars: dict[str, Quantity] = {}
    max_at_start: dict[str, Quantity] = {}
    for requests, is_sidecar in init_containers:
        if is_sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            at_this_point = sidecars
        else:
            at_this_point = dict(sidecars)
            _add(at_this_point, requests)
        _raise_to(max_at_start, at_this_point)
    _raise_to(total, max_at_start)
    return total


def _add(total: dict[str, Quantity], more: PodRequests) -> None:
    for name, quantity in more.items():
        known = total.get(name)
        total[name] = quantity if known is None else known + quantity


def _raise_to(total: dict[str, Quantity], minimum: PodRequests) -> None:
    for name, quantity in minimum.items():
        known = total.get(name)
        if known is None or known < quantity:
            total[name] = quantity

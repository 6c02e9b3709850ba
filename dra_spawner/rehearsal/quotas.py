"""ResourceQuotas: for how many more servers they have room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra_spawner import names
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.json_types import JsonObject
from dra_spawner.placeholders.planner.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.resources import CPU, MEMORY, Amounts, to_amounts

__all__ = ["Quota", "QuotaRoom", "not_judged", "quota_needs", "quota_of", "room_of"]

#: Devices of a request for all devices, as Kubernetes counts them (AllocationResultsMaxSize).
_ALL_DEVICES: Final = 32
_REQUESTS: Final = "requests."
#: Resources that depend on more than a shape: limits of containers, and storage of users.
_NOT_JUDGED: Final = ("limits.",)


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota of the servers' namespace.

    Attributes
    ----------
    left
        By resource: what may still be used; CPU in thousandths.
    is_scoped
        Whether it is about some pods only, so that it is not known whether it is about servers.
    """

    name: str
    left: Mapping[str, int] = field(default_factory=dict)
    is_scoped: bool = False


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """For how many more servers a quota has room.

    Attributes
    ----------
    resource
        The one that is used up first.
    """

    quota: str
    resource: str
    servers: int


def quota_of(obj: JsonObject) -> Quota:
    """A quota of its API object.

    Raises
    ------
    ValueError
        If it makes no sense.
    """
    try:
        name, spec, status = obj["metadata"]["name"], obj.get("spec") or {}, obj.get("status") or {}
        hard = _amounts(status.get("hard") or spec.get("hard") or {})
        used = _amounts(status.get("used") or {})
        is_scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        raise ValueError(f"ResourceQuota makes no sense: {type(error).__name__}: {str(error)[:200]}") from None
    return Quota(str(name), {key: amount - used.get(key, 0) for key, amount in hard.items()}, is_scoped)


def quota_needs(shape: Shape) -> dict[str, int]:
    """What one server uses of each resource that a quota may name, as far as the shape tells."""
    pod, _ = simulated_user(shape, "default")
    needs = {"pods": 1, "count/pods": 1, names.QUOTA_CLAIMS: len(shape.claims)}
    needs |= _of_requests(pod.requests)
    devices: Counter[str] = Counter()
    for spec in shape.claims.values():
        devices.update(_devices(spec))
    return needs | {f"{name}{names.QUOTA_DEVICES}": count for name, count in devices.items()}


def room_of(quota: Quota, needs: Mapping[str, int]) -> QuotaRoom | None:
    """For how many more servers a quota has room; None if it limits none of the needs."""
    found = [
        QuotaRoom(quota.name, resource, max(left, 0) // needs[resource])
        for resource, left in sorted(quota.left.items())
        if needs.get(resource, 0) > 0
    ]
    return min(found, key=lambda each: each.servers, default=None)


def not_judged(quota: Quota) -> tuple[str, ...]:
    """Resources of a quota that may stop servers, and that a shape does not tell."""
    return tuple(sorted(each for each in quota.left if each.startswith(_NOT_JUDGED)))


def _of_requests(requests: Amounts) -> dict[str, int]:
    found = {f"{_REQUESTS}{name}": amount for name, amount in requests.items()}
    # Without the prefix, these mean requests, too.
    return found | {name: requests[name] for name in (CPU, MEMORY) if name in requests}


def _amounts(quantities: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, text in quantities.items():
        # CPU is in thousandths, however a quota calls it.
        plain = name.removeprefix(_REQUESTS).removeprefix("limits.")
        found[str(name)] = to_amounts({plain: Quantity.parse(str(text))})[plain]
    return found


def _devices(spec: Mapping[str, Any]) -> Counter[str]:
    """The most devices of each class that a claim may get."""
    total: Counter[str] = Counter()
    devices = spec.get("devices") or {}
    for request in devices.get("requests") or ():
        of_request: Counter[str] = Counter()
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each and not each.get("adminAccess"):
                count = _ALL_DEVICES if each.get("allocationMode") == "All" else int(each.get("count") or 1)
                name = str(each.get("deviceClassName"))
                of_request[name] = max(of_request[name], count)
        total.update(of_request)
    return total

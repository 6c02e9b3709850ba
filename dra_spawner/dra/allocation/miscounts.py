"""Shares that consume less than was asked for: kube-scheduler counts in 64 bits, and accepts negative sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.dra.model.consumable_capacity import consumes_too_little
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.quantity import Quantity

_MAX_CHARACTERS = 40
_EVERYTHING: Mapping[str, Quantity] = {}


class _Result(Protocol):
    """A device that a claim got, or would get."""

    @property
    def id(self) -> DeviceId: ...
    @property
    def request(self) -> str: ...
    @property
    def consumed_capacity(self) -> Mapping[str, Quantity] | None: ...


def miscounts(claim: ResourceClaim, results: Iterable[_Result]) -> Iterator[str]:
    """A sentence for each capacity of which a share consumes less than the claim asks for, or a negative amount."""
    asked: dict[str, Mapping[str, Quantity]] = {}
    for request in claim.requests:
        for each in request.alternatives:
            name = f"{request.name}/{each.name}" if request.first_available else request.name
            asked[name] = each.capacity_requests or _EVERYTHING
    for result in results:
        requested = asked.get(result.request, _EVERYTHING)
        for name, consumed in (result.consumed_capacity or _EVERYTHING).items():
            wanted = requested.get(name, consumed)
            if consumes_too_little(wanted, consumed):
                yield (
                    f"claim {claim}, request {result.request}: asks for {_short(wanted)} of {name} and consumes"
                    f" {_amount(consumed)} of the device. {_why(wanted)} The device is overcommitted."
                )


def _amount(consumed: Quantity) -> str:
    return "nothing" if not consumed else f"minus {-consumed}" if consumed.sign < 0 else str(consumed)


def _why(wanted: Quantity) -> str:
    if wanted.sign < 0:
        return "Kubernetes accepts negative sizes."
    return "Kubernetes counts in 64 bits and does not notice an overflow."


def _short(amount: Quantity) -> str:
    text = str(amount)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."

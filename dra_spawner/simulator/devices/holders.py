"""The devices of each claim."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from dra_spawner.dra.model.claims import AllocatedDevice, ResourceClaim

Held = tuple[AllocatedDevice, ...]


class Holders:
    """The devices of each recorded claim.

    Searches need the allocated devices, not the claims. So the initial claims are indexed by name only when a claim is
    recorded, released or read.

    Parameters
    ----------
    claims
        The initial claims; allocated ones must have unique ``(namespace, name)``.
    """

    __slots__ = ("_by_key", "_first")

    def __init__(self, claims: Iterable[ResourceClaim] = ()) -> None:
        self._first = list(claims)
        self._by_key: dict[Hashable, Held] = {}

    def held_at_first(self) -> list[Held]:
        """Devices of the initial claims; valid until the first change."""
        return [held for claim in self._first if (held := claim.status.devices) is not None]

    @property
    def by_key(self) -> dict[Hashable, Held]:
        """Devices by the key of the claim.

        Raises
        ------
        ValueError
            When two initial claims have the same namespace and name.
        """
        if self._first:
            allocated = [claim for claim in self._first if claim.status.devices is not None]
            self._by_key = {(claim.namespace, claim.name): claim.status.devices or () for claim in allocated}
            if len(self._by_key) < len(allocated):
                raise ValueError("two of the allocated claims have the same namespace and name")
            self._first = []
        return self._by_key

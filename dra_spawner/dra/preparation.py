"""Which pods and containers a prepared claim serves. Kubernetes leaves this to each driver (NodePrepareResources).

For a second pod that joins an allocated claim on its node, the kubelet asks no driver: the claim is prepared already.
The pod gets the devices only if the driver prepared them for the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final


class PreparedFor(StrEnum):
    """What a driver prepares a claim's devices for."""

    #: The claim: each pod that names it gets the devices.
    CLAIM = "claim"
    #: The first container that names the claim; no other container gets the devices.
    CONTAINER = "container"
    #: The pod that was the claim's consumer when it was prepared; a pod that joins later gets nothing.
    POD = "pod"


_STRICTEST_LAST: Final = (PreparedFor.CLAIM, PreparedFor.CONTAINER, PreparedFor.POD)


def prepared_for(drivers: Iterable[str], known: Mapping[str, PreparedFor]) -> PreparedFor:
    """What a claim with devices of these drivers is prepared for: the strictest of them.

    Parameters
    ----------
    known
        By name of the driver. Another driver may prepare for a pod alone.
    """
    return strictest(known.get(driver, PreparedFor.POD) for driver in drivers)


def strictest(each: Iterable[PreparedFor]) -> PreparedFor:
    """The strictest of some; `PreparedFor.POD` for none, as nothing is known then."""
    return max(each, key=_STRICTEST_LAST.index, default=PreparedFor.POD)

"""Which sizes of shares this project asks for: the one rule, and a walk over all sizes in a claim.

kube-scheduler accepts more. It counts whole units in 64 bits and reports no overflow, so that a huge size consumes
nothing, or a negative amount, and a negative size gives back what others consume (see `consumable_capacity`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityError

#: Half of what 64 bits hold: a size up to here stays below 2^63 when it is rounded up to a device's next step.
MAX_SIZE_UNITS: Final = 2**62
SIZE_ALLOWED: Final = "a quantity above zero and of at most 4Ei, such as 10Gi or 500m"
#: Of a text; the lookahead finds a digit other than 0 before the unit. A long exponent keeps the API server busy.
SIZE_PATTERN: Final = (
    r"\+?(?=[0-9.]*[1-9])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_SIZE: Final = re.compile(SIZE_PATTERN)

#: Where a size stands in a claim, the name of its capacity, and the size.
WrongSize = tuple[str, str, object]


def is_size(value: object) -> bool:
    """Whether a share of this size may be asked for: text or a whole number, above zero and at most 2^62 units."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    if isinstance(value, str) and not _SIZE.fullmatch(value):
        return False
    try:
        return 0 < Quantity.parse(value).nano <= MAX_SIZE_UNITS * NANO_PER_UNIT
    except QuantityError:
        return False


def wrong_sizes(manifest: object, path: str = "") -> Iterator[WrongSize]:
    """Sizes in a claim that are not allowed.

    Parameters
    ----------
    manifest
        A ResourceClaim, a ResourceClaimTemplate, or the spec of one, as JSON of any shape and API version.
    path
        Of the manifest, for messages.
    """
    # Whatever else stands there: fields that Kubernetes does not know it drops.
    spec = _below(manifest, "spec")
    places = ((path, manifest), (f"{path}.spec", spec), (f"{path}.spec.spec", _below(spec, "spec")))
    for place, value in places:
        requests = _below(value, "devices").get("requests")
        for index, request in enumerate(requests if isinstance(requests, list | tuple) else ()):
            for below, asked in _alternatives(request):
                for name, size in _below(_below(asked, "capacity"), "requests").items():
                    if not is_size(size):
                        where = f"{place}.devices.requests[{index}]{below}.capacity.requests.{name}"
                        yield where.removeprefix("."), str(name), size


def _alternatives(request: object) -> Iterator[tuple[str, object]]:
    """What may stand in a request, its own keys included: before v1 they stood there."""
    yield "", request
    yield ".exactly", _below(request, "exactly")
    listed = request.get("firstAvailable") if isinstance(request, Mapping) else None
    for place, alternative in enumerate(listed if isinstance(listed, list | tuple) else ()):
        yield f".firstAvailable[{place}]", alternative


def _below(value: object, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}

"""A claim without the devices that it can do without.

Kubernetes has no such thing: each request of a claim, and one of its alternatives, must be allocated. So whoever starts
the pod decides, and leaves the optional requests out: all of a claim, since a choice for each would double with each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dra_spawner.profiles.compiler.claims import DeviceClaim, DeviceConstraint


def without_optional(claim: DeviceClaim) -> DeviceClaim | None:
    """The claim without optional requests, and without constraints about them alone; ``None`` if it is empty then."""
    gone = {request.name for request in claim.requests if request.optional}
    if not gone:
        return claim
    left = tuple(request for request in claim.requests if request.name not in gone)
    if not left:
        return None

    def kept(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name.partition("/")[0] not in gone)

    single = {request.name for request in left if request.count == 1 and not request.first_available}

    def says_something(constraint: DeviceConstraint) -> bool:
        names = kept(constraint.requests)
        # A single device still had to have the attribute, for the sake of one that is not wanted any more.
        return names == constraint.requests or len(names) > 1 or bool(names and names[0] not in single)

    return replace(
        claim,
        requests=left,
        containers=tuple((name, None if wanted is None else kept(wanted)) for name, wanted in claim.containers),
        constraints=tuple(
            replace(each, requests=kept(each.requests)) for each in claim.constraints if says_something(each)
        ),
        # No names would mean all requests, so a configuration whose requests are gone goes, too.
        config=tuple(
            replace(each, requests=kept(each.requests))
            for each in claim.config
            if not each.requests or kept(each.requests)
        ),
    )

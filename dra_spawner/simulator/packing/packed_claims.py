"""The claims of a pod with the alternatives that a hub writes where the service packs devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dra_spawner.dra.model.claims import DeviceRequest, ResourceClaim
from dra_spawner.dra.preferences import ANY, MAX_GROUPS, Group, devices_selector, group_name
from dra_spawner.simulator.packing.packing import Packing


def packed_claims(packing: Packing, claims: Sequence[ResourceClaim], node: str) -> tuple[ResourceClaim, ...]:
    """The claims as a start on a node has them; unchanged where kube-scheduler gives the right devices anyway."""
    found = packing.on_node(node)
    packed = list(claims)
    for choice in found.choices if found is not None else ():
        if choice.groups:
            claim = packed[choice.claim]
            requests = tuple(
                _with_alternatives(each, choice.groups) if each.name == choice.request else each
                for each in claim.requests
            )
            packed[choice.claim] = replace(claim, requests=requests)
    return tuple(packed)


def _with_alternatives(request: DeviceRequest, groups: Sequence[Group]) -> DeviceRequest:
    asked = request.exactly
    if asked is None:
        return request
    preferred = (
        replace(asked, name=group_name(number), selectors=(devices_selector(group), *asked.selectors))
        for number, group in enumerate(groups[:MAX_GROUPS], 1)
    )
    return replace(request, exactly=None, first_available=(*preferred, replace(asked, name=ANY)))

"""Values of a start put into its claims: into drivers' parameters, companion objects and VLANs; nowhere else.

Variables are replaced once, between parsing and compiling: compiled claims have no variables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dra_spawner.profiles.compiler.claims import DeviceClaim, VlanAttachment
from dra_spawner.profiles.compiler.vlan_attachments import map_vlans, vlans_of
from dra_spawner.profiles.syntax.keys import MAX_PARAMETER_BYTES
from dra_spawner.profiles.syntax.problems import Problem, ProfileError
from dra_spawner.profiles.syntax.templates import Values, expand, variable_names

#: Variables whose values come from the VLAN's number.
VLAN_NUMBERS = frozenset({"vlan", "vlan_high", "vlan_low"})
#: Those whose values go with a VLAN in the mapping.
FROM_MAPPING = frozenset({"address", "subnet", "gateway"})
#: All to which only the spawner's ``vlans`` gives values.
FROM_VLANS = VLAN_NUMBERS | FROM_MAPPING | {"group"}


def may_have_variables(claim: DeviceClaim) -> bool:
    """Whether a claim has a part that may contain variables."""
    return bool(claim.config or claim.companions or any(True for request in claim.requests for _ in vlans_of(request)))


def claim_variables(claims: Iterable[DeviceClaim]) -> frozenset[str]:
    """Names of the variables for which a start of these claims needs values."""
    names: set[str] = set()
    for claim in claims:
        for config in claim.config:
            names |= variable_names(config.parameters)
        for companion in claim.companions:
            names |= variable_names(companion.manifest)
        for request in claim.requests:
            for _, attachment in vlans_of(request):
                within = variable_names([attachment.ipam, attachment.parameters])
                # A fixed VLAN needs no owner.
                names |= within | {"vlan"} if attachment.vlan is None else within - VLAN_NUMBERS
    return frozenset(names)


def expand_claims(
    claims: Iterable[DeviceClaim], values: Values, path: str = "device_claims"
) -> tuple[DeviceClaim, ...]:
    """Put values into all that may have variables; also where there are none: doubled braces become single ones.

    Parameters
    ----------
    values
        Has at least the names in `claim_variables`.

    Raises
    ------
    ProfileError
        Where a value is missing, is none that its name allows, or makes the parameters too long.
    """
    return tuple(_expand_claim(claim, values, f"{path}.{claim.name}") for claim in claims)


def vlan_numbers(vlan: int) -> dict[str, str | int]:
    """The variables that come from a VLAN's number, with their values."""
    return {"vlan": vlan, "vlan_high": vlan // 256, "vlan_low": vlan % 256}


def _expand_claim(claim: DeviceClaim, values: Values, path: str) -> DeviceClaim:
    if not may_have_variables(claim):
        return claim

    def expand_attachment(attachment: VlanAttachment) -> VlanAttachment:
        return _expand_attachment(attachment, values, path)

    return replace(
        claim,
        config=tuple(
            replace(config, parameters=_parameters(config.parameters, values, f"{path}.config[{index}].parameters"))
            for index, config in enumerate(claim.config)
        ),
        companions=tuple(
            replace(each, manifest=expand(each.manifest, values, f"{path}.companions.{each.name}.manifest"))
            for each in claim.companions
        ),
        requests=tuple(map_vlans(request, expand_attachment) for request in claim.requests),
    )


def _expand_attachment(attachment: VlanAttachment, values: Values, path: str) -> VlanAttachment:
    vlan = expand("{vlan}", values, path) if attachment.vlan is None else attachment.vlan
    values = {**values, **vlan_numbers(vlan)}
    return replace(
        attachment,
        vlan=vlan,
        ipam=_parameters(attachment.ipam, values, f"{path}.vlan.ipam"),
        parameters=_parameters(attachment.parameters, values, f"{path}.vlan.parameters"),
    )


def _parameters(template: Any, values: Values, path: str) -> Any:
    expanded = expand(template, values, path)

    size = len(json.dumps(expanded))
    if size > MAX_PARAMETER_BYTES:
        raise ProfileError([Problem(path, f"{size} bytes", f"at most {MAX_PARAMETER_BYTES} bytes as JSON")])
    return expanded

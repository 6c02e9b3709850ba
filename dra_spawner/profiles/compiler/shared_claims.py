"""One claim for several servers: whose it is, and its name, the same at every start that may use it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.compiler.claim_plan import PlannedClaim
from dra_spawner.profiles.compiler.claims import DeviceClaim, SharedBy, Sharing

_DIGEST_CHARACTERS = 12


class NotInGroup(ValueError):
    """Raised if a claim is shared by groups without the user."""

    def __init__(self, groups: Collection[str]) -> None:
        self.groups = tuple(groups)
        super().__init__(", ".join(self.groups))


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose servers use a claim together.

    Attributes
    ----------
    name
        Of the user or group; empty for everybody.
    """

    by: SharedBy
    name: str = ""

    def __str__(self) -> str:
        return f"{self.by}:{self.name}" if self.name else self.by


def is_for_groups(claim: DeviceClaim | PlannedClaim) -> bool:
    """Whether the members of a group share a claim, so that the user's groups decide about it."""
    return claim.sharing is not None and claim.sharing.by is SharedBy.GROUP


def scope_of(sharing: Sharing, user: str, groups: Collection[str]) -> Scope:
    """The scope in which a user's servers share a claim.

    Raises
    ------
    NotInGroup
        If it is for groups that the user is in none of.
    """
    match sharing.by:
        case SharedBy.USER:
            return Scope(SharedBy.USER, user)
        case SharedBy.EVERYBODY:
            return Scope(SharedBy.EVERYBODY)
    group = next((group for group in sharing.groups if group in groups), None)
    if group is None:
        raise NotInGroup(sharing.groups)
    return Scope(SharedBy.GROUP, group)


def content_digest(*parts: object) -> str:
    """A few characters that differ where the content does."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def shared_claim_manifest(
    claim: PlannedClaim, scope: Scope, *, slug: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> JsonObject:
    """A ResourceClaim for all servers of a scope; its name is made of the scope, the claim's name and its content.

    A profile that is changed thus makes a new claim, beside the one that older servers still use.

    Parameters
    ----------
    slug
        The scope's name as it may stand in an object's name.
    """
    digest = content_digest(str(scope), claim.name, claim.spec)
    return {
        "apiVersion": names.RESOURCE_API,
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"shared-{slug}-{claim.name}-{digest}",
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
        "spec": claim.spec,
    }

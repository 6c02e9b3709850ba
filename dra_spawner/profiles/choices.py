"""One thing a user can pick in the spawn form, as the spawner would carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.profiles.claim_plan import ClaimPlan
from dra_spawner.profiles.claims import DeviceClaim


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile with one choice of its options.

    Attributes
    ----------
    path
        Where it stands, such as ``profile_list[1].profile_options.memory.choices.large``.
    claims_path
        Where its claims stand, for findings, such as ``profile_list[1].kubespawner_override.device_claims``.
    profile
        Slug of the profile; empty for the spawner's own configuration.
    picks
        Option and choice that differ from the profile's defaults.
    settings
        The spawner's traits as merged (``environment``, ``tolerations``, ``privileged``, ``extra_resource_limits`` …);
        only those that are set.
    claims
        ``device_claims``, parsed.
    plan
        The same, compiled.
    """

    path: str
    claims_path: str
    profile: str
    picks: Mapping[str, str]
    settings: Mapping[str, Any]
    claims: tuple[DeviceClaim, ...]
    plan: ClaimPlan

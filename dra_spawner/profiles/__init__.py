"""The profile language: from ``device_claims`` in a profile to claims and pod changes, pure."""

from dra_spawner.profiles.compiler.claim_plan import (
    ClaimPlan,
    PlannedClaim,
    compile_claims,
    compile_device_claims,
    template_manifest,
)
from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.profile_list import free_text_problems, profile_list_problems
from dra_spawner.profiles.syntax.problems import AdminAccessRefused, Problem, ProfileError
from dra_spawner.profiles.syntax.user_options import UnreadName, form_fields_problem, user_options_problem

__all__ = [
    "AdminAccessRefused",
    "ClaimPlan",
    "PlannedClaim",
    "Problem",
    "ProfileError",
    "UnreadName",
    "compile_claims",
    "compile_device_claims",
    "form_fields_problem",
    "free_text_problems",
    "parse_device_claims",
    "profile_list_problems",
    "template_manifest",
    "user_options_problem",
]

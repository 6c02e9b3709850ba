"""Findings about choices with template variables or interfaces in VLANs, beside the language's problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dra_spawner.profiles.choices import TRAIT as CLAIMS_TRAIT
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.compiler.claim_templates import FROM_MAPPING, FROM_VLANS, claim_variables, may_have_variables
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.compiler.vlan_attachments import vlans_of
from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.findings import Finding, Level, LintRule, rules_of
from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.profiles.syntax.templates import variable_names

#: The spawner's trait.
TRAIT = "vlans"

NO_VALUE: Final = LintRule(
    "variable-without-value",
    (Level.ERROR, Level.WARNING),
    False,
    "A variable such as {vlan} that has no value for any user, or for some users",
)
GIVEN_TWICE: Final = LintRule(
    "vlan-given-twice", (Level.WARNING,), False, "A VLAN written down in a profile that is in the range of vlans, too"
)
WRONG_VLANS: Final = LintRule("vlans", (Level.ERROR,), False, "An invalid value of vlans itself")
VLAN_RULES: Final = rules_of(globals())


def vlan_findings(choice: Choice) -> Iterator[Finding]:
    """What would stop a start of this choice, or put two owners into one VLAN."""
    try:
        policy = parse_vlan_policy(choice.settings.get(TRAIT), "")
    except ProfileError as error:
        where = choice.path_of_setting(TRAIT)
        for problem in error.problems:
            yield WRONG_VLANS.finding(f"{where}{problem.path}", problem.message)
        return
    claims = _claims_as_written(choice)
    for claim in claims:
        path = choice.path_of(f".{claim.name}")
        for name in sorted(claim_variables((claim,)) & FROM_VLANS):
            yield from _variable_findings(name, policy, path)
        if policy is not None:
            yield from _literal_findings(claim, policy, path)


def _claims_as_written(choice: Choice) -> tuple[DeviceClaim, ...]:
    """The claims with their template variables, which are samples in a choice; empty if there are none."""
    if not any(map(may_have_variables, choice.claims)):
        return ()
    written = choice.settings.get(CLAIMS_TRAIT)
    attachments = any(True for claim in choice.claims for request in claim.requests for _ in vlans_of(request))
    return parse_device_claims(written, "", admin_access=True) if attachments or variable_names(written) else ()


def _variable_findings(name: str, policy: VlanPolicy | None, path: str) -> Iterator[Finding]:
    if policy is None:
        message = f"{{{name}}} has no value: set vlans of the spawner, such as {{range: 100-199}}"
        yield NO_VALUE.finding(path, message)
    elif name == "group" and policy.by is not OwnerKind.GROUP:
        yield NO_VALUE.finding(path, "{group} has a value only where vlans are by: group")
    elif name in FROM_MAPPING:
        having = [owner for owner, mapped in policy.mapping.items() if name in dict(mapped.values)]
        wanting = sorted(set(policy.mapping) - set(having))
        if not having:
            message = f"{{{name}}} has no value: no entry of vlans.mapping has a {name}"
            yield NO_VALUE.finding(path, message)
        elif wanting or policy.allocates:
            whom = (
                f"{', '.join(wanting[:3])}{' and others' if len(wanting) > 3 else ''}"
                or "whoever is not in the mapping"
            )
            message = f"{{{name}}} has no value for {whom}: their starts are refused"
            yield NO_VALUE.finding(path, message, Level.WARNING)


def _literal_findings(claim: DeviceClaim, policy: VlanPolicy, path: str) -> Iterator[Finding]:
    for request in claim.requests:
        for reference, attachment in vlans_of(request):
            if attachment.vlan in policy.vlans:
                message = (
                    f"VLAN {attachment.vlan} of {reference} is in the range of vlans, too, and may be given to others: "
                    "exclude it there"
                )
                yield GIVEN_TWICE.finding(path, message)

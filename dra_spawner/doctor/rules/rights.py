"""Rights of the accounts of hub and service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from dra_spawner.doctor.facts import Account, DoctorFacts, NeededRight
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of

MISSING_RIGHT: Final = DoctorRule(
    "missing-right",
    Subject.RIGHTS,
    (Severity.ERROR,),
    "the hub's or the service's account lacks a right",
    "upgrade the chart's release, or add the rule to a role",
)
NOT_SEEN: Final = DoctorRule(
    "not-seen",
    Subject.RIGHTS,
    (Severity.INFO,),
    "something could not be read, so it was not examined",
    "run the command with the account of an administrator",
)

RIGHT_RULES: Final = rules_of(globals())

_CHART: Final = {
    Account.HUB: "helm upgrade dra-spawner (rbac.create: true, and hub.serviceAccountName if the hub's account is not "
    "named hub), or add the rules to a {kind}",
    Account.SERVICE: "helm upgrade dra-spawner (rbac.create: true), or add the rules to a {kind}",
}


def right_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about rights; rules of one account, group and namespace are one finding."""
    missing: dict[tuple[Account, str, str, str, str], list[NeededRight]] = defaultdict(list)
    for answer in facts.rights:
        right = answer.right
        if not answer.is_allowed:
            missing[right.account, answer.user, right.namespace, right.resource, right.group].append(right)
    for (account, user, namespace, resource, group), rights in missing.items():
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        kind = f"Role in namespace {namespace}" if namespace else "ClusterRole"
        rules = "; ".join(_merged(rights))
        yield MISSING_RIGHT.finding(
            f"The {account.value}'s account {user} may not {_verbs(rights)} {resource}{_of(group)} {where}.",
            f"{_CHART[account].format(kind=kind)}: {rules}",
            f"account {user}",
        )
    for each in facts.unseen:
        yield NOT_SEEN.finding(f"{each.what} could not be seen: {each.because}.", where=each.what)


def _of(group: str) -> str:
    return f" of {group}" if group else ""


def _verbs(rights: list[NeededRight]) -> str:
    *first, last = dict.fromkeys(each.verb for each in rights)
    return f"{', '.join(first)} or {last}" if first else last


def _merged(rights: list[NeededRight]) -> Iterator[str]:
    """The rules, those of the same objects as one."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for each in rights:
        by_name[each.name].append(each.verb)
    for name, verbs in by_name.items():
        named = f"resourceNames: [{name}], " if name else ""
        resource, group = rights[0].resource, rights[0].group
        yield f'{{apiGroups: ["{group}"], resources: [{resource}], {named}verbs: [{", ".join(verbs)}]}}'

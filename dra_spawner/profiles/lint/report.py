"""The check of choices against all rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.profiles.choices import Choice, ListedChoice
from dra_spawner.profiles.drivers.registry import driver_findings
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.intel_gas.gas_findings import findings as intel_gas_findings
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.capacity import capacity_findings
from dra_spawner.profiles.lint.cluster import (
    admin_findings,
    alternative_findings,
    class_findings,
    config_findings,
    field_findings,
    same_hardware_findings,
    version_findings,
)
from dra_spawner.profiles.lint.constraints import constraint_findings
from dra_spawner.profiles.lint.defects import defect_findings, rush_findings
from dra_spawner.profiles.lint.fit import extended_findings, fit_findings, unselected_findings
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.selectors import selector_findings
from dra_spawner.profiles.lint.sharing import meeting_findings
from dra_spawner.profiles.lint.vlan_findings import vlan_findings
from dra_spawner.profiles.lint.wants import WantedClaim, wanted_claims
from dra_spawner.profiles.syntax.problems import Problem


@dataclass(frozen=True, slots=True)
class CheckedChoice:
    """A choice of the list, with its findings."""

    listed: ListedChoice
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Findings in a list of choices.

    Attributes
    ----------
    general
        Findings about no single choice.
    choices
        Choices in the order of the list; a shared finding is listed with each.
    """

    general: tuple[Finding, ...]
    choices: tuple[CheckedChoice, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each finding once, in order."""
        found = (finding for choice in self.choices for finding in choice.findings)
        return tuple(dict.fromkeys((*self.general, *found)))

    def count(self, level: Level) -> int:
        """Number of findings of a level."""
        return sum(1 for finding in self.findings if finding.level is level)


def problem_finding(problem: Problem) -> Finding:
    """A problem of the language as a finding."""
    return rules.PROFILE_LANGUAGE.finding(problem.path, problem.message)


def check_choice(choice: Choice, inventory: Inventory, ignored: Collection[str] = ()) -> tuple[Finding, ...]:
    """Findings in one choice on this cluster, each once, errors first.

    Parameters
    ----------
    ignored
        Names of ignored rules.
    """
    return _in_order(_findings(choice, wanted_claims(choice), inventory), ignored)


def check_choices(
    listed: Iterable[ListedChoice],
    facts: ClusterFacts | Inventory,
    general: Iterable[Finding] = (),
    ignored: Collection[str] = (),
) -> CheckReport:
    """Findings in all choices, including choices that can share one device.

    Parameters
    ----------
    general
        Further findings, about no single choice.
    """
    inventory = facts if isinstance(facts, Inventory) else Inventory(facts)
    checked: list[tuple[ListedChoice, list[Finding]]] = []
    claims: list[Sequence[WantedClaim]] = []
    decoded: dict[tuple[str, int], ResourceClaim] = {}
    for item in listed:
        wanted = wanted_claims(item.choice, decoded) if item.choice is not None else ()
        findings = [problem_finding(problem) for problem in item.problems]
        if item.choice is not None:
            findings += _findings(item.choice, wanted, inventory)
        checked.append((item, findings))
        claims.append(wanted)
    if inventory.is_known:
        for position, finding in meeting_findings(claims, inventory):
            checked[position][1].append(finding)
    choices = [item.choice for item, _ in checked if item.choice is not None]
    return CheckReport(
        _in_order([*general, *rush_findings(choices, inventory)], ignored),
        tuple(CheckedChoice(item, _in_order(found, ignored)) for item, found in checked),
    )


_ORDER = {level: position for position, level in enumerate(Level)}


def _in_order(findings: Iterable[Finding], ignored: Collection[str]) -> tuple[Finding, ...]:
    found = dict.fromkeys(finding for finding in findings if finding.rule not in ignored)
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.level]))


def _findings(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> Iterator[Finding]:
    certain = Level.ERROR if inventory.facts.is_complete else Level.WARNING
    found: list[Finding] = []
    for finding in _single_findings(choice, claims, inventory):
        found.append(finding)
        yield finding
    # A problem of one alternative explains nothing; a problem of an optional device is a warning, too.
    levels = {Level.ERROR, certain if choice.plan.fallback is None else Level.WARNING}
    explained = any(finding.level in levels and finding.rule in _EXPLAINS for finding in found)
    if inventory.is_known and not explained:
        # Only where no other finding explains it.
        yield from fit_findings(choice, claims, inventory, certain)


#: Rules whose findings already explain why no node fits.
_EXPLAINS = frozenset(
    rule.name
    for rule in (
        rules.DEVICE_CLASS,
        rules.SELECTOR_FAILS,
        rules.UNKNOWN_CAPACITY,
        rules.SHARE_TOO_LARGE,
        rules.NO_COMMON_VALUE,
        rules.TOO_FEW_ALIKE,
        rules.API_VERSION,
        rules.NEVER_FITS,
    )
)


def _single_findings(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> Iterator[Finding]:
    yield from version_findings(choice, inventory)
    yield from defect_findings(choice, claims, inventory)
    for claim in claims:
        yield from alternative_findings(claim)
        yield from field_findings(claim, inventory)
        level = _certain(choice, claim, inventory)
        for want in claim.wants:
            yield from class_findings(want, inventory, _class_level(choice, claim), level)
            yield from selector_findings(want, inventory)
            yield from admin_findings(want, inventory)
            if inventory.is_known and inventory.device_class(want.devices.device_class_name) is not None:
                is_only_one = len(claim.requests[want.request]) == 1
                yield from capacity_findings(want, inventory, level if is_only_one else Level.WARNING)
                yield from same_hardware_findings(want, inventory)
        yield from config_findings(claim, inventory)
        if inventory.is_known:
            yield from unselected_findings(claim, inventory, level)
        if inventory.is_known and inventory.nodes:
            yield from constraint_findings(claim, inventory, level)
    yield from extended_findings(choice, inventory)
    for finding in driver_findings(choice, inventory.facts):
        yield _where_written(choice, finding)
    yield from intel_gas_findings(choice, inventory.facts)
    yield from vlan_findings(choice)


def _class_level(choice: Choice, claim: WantedClaim) -> Level:
    """Level of a permanent problem of a claim: a server can start without an optional one."""
    least = choice.plan.fallback
    return Level.ERROR if least is None or least.specs.get(claim.claim.name) == claim.spec else Level.WARNING


def _certain(choice: Choice, claim: WantedClaim, inventory: Inventory) -> Level:
    """Level of a problem of a claim with all present devices."""
    return _class_level(choice, claim) if inventory.facts.is_complete else Level.WARNING


def _where_written(choice: Choice, finding: Finding) -> Finding:
    """A finding with the path at which its value was written."""
    below = finding.path.removeprefix(choice.claims_path)
    return replace(finding, path=choice.path_of(below)) if below != finding.path else finding

"""Known defects of the cluster's version of Kubernetes that a choice meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from dra_spawner.dra.model.claims import AllocationMode
from dra_spawner.kubernetes_defects import FoundVersion, KubernetesDefect, Meets, Program, defects_of
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim
from dra_spawner.versions import version_text

_CONTROL_PLANE: Final = (Program.SCHEDULER, Program.CONTROLLER_MANAGER)


def defect_findings(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> Iterator[Finding]:
    """Of defects that depend on what a choice asks for; one of each defect, for the oldest affected program."""
    for version, defect in _defects(inventory):
        find = _PLACES.get(defect.meets)
        place = find(choice, claims, inventory) if find is not None else None
        if place is not None:
            yield _finding(place, version, defect)


def rush_findings(choices: Sequence[Choice], inventory: Inventory) -> Iterator[Finding]:
    """Of defects that each choice with devices meets; listed once."""
    having = next((choice for choice in choices if choice.plan.claims), None)
    if having is not None:
        for version, defect in _defects(inventory):
            if defect.meets is Meets.RUSH:
                yield _finding(having.claims_path, version, defect)


def _defects(inventory: Inventory) -> Iterator[tuple[FoundVersion, KubernetesDefect]]:
    """The defects of this cluster's programs, each once."""
    facts = inventory.facts
    if facts.kubernetes_version is None:
        return
    version: FoundVersion = (facts.kubernetes_version, facts.kubernetes_patch)
    for program in _CONTROL_PLANE:
        for defect in defects_of(program, version):
            yield version, defect
    found: dict[int, tuple[FoundVersion, KubernetesDefect]] = {}
    for each in inventory.kubelets or (version,):
        for defect in defects_of(Program.KUBELET, each):
            found.setdefault(defect.issue, (each, defect))
    yield from found.values()


def _finding(path: str, version: FoundVersion, defect: KubernetesDefect) -> Finding:
    minor, patch = version
    shown = version_text(minor) if patch is None else f"{version_text(minor)}.{patch}"
    return rules.KUBERNETES_DEFECT.finding(
        path, f"{defect.program} {shown} has a known defect: {defect.happens} {defect.remedy(minor)} {defect.address}"
    )


def _shared_and_own(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> str | None:
    shared = [each for each in choice.plan.claims if each.claim or each.sharing]
    return choice.path_of(f".{shared[0].name}") if shared and len(choice.plan.claims) > 1 else None


def _late_template(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> str | None:
    named = next((each.name for each in choice.plan.claims if each.template), None)
    return choice.path_of(f".{named}") if named is not None else None


def _shared_partitions(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> str | None:
    return _want_of_partitions(claims, inventory, lambda want: True, are_shared=True)


def _all_of_partitions(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> str | None:
    return _want_of_partitions(claims, inventory, lambda want: want.devices.allocation_mode == AllocationMode.ALL)


def _partitions(choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory) -> str | None:
    return _want_of_partitions(claims, inventory, lambda want: True)


def _want_of_partitions(
    claims: Sequence[WantedClaim], inventory: Inventory, concerns: Callable[[Want], bool], *, are_shared: bool = False
) -> str | None:
    """Where a request stands that concerned devices could be given to."""
    if not inventory.is_known:
        return None
    for want in (want for claim in claims for want in claim.wants if concerns(want)):
        expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
        for device in inventory.all_candidates(expressions):
            if device.consumes_counters and (device.is_shared or not are_shared):
                return want.path
    return None


#: Where a choice meets a defect; None if it does not.
_PLACES: Final[Mapping[Meets, Callable[[Choice, Sequence[WantedClaim], Inventory], str | None]]] = {
    Meets.SHARED_AND_OWN: _shared_and_own,
    Meets.LATE_TEMPLATE: _late_template,
    Meets.SHARED_PARTITIONS: _shared_partitions,
    Meets.ALL_OF_PARTITIONS: _all_of_partitions,
    Meets.PARTITIONS: _partitions,
}

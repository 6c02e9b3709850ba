"""What the cluster as a whole can do: its API, its classes, its nodes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_spawner.dra.allocator import DoesNotFit
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.reasons import NoFitReason, shortest
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim

__all__ = ["GATES", "class_findings", "field_findings", "fit_findings", "version_findings"]

#: Gate of each field that an API server drops when it is off, and the first release that has it on by default.
GATES: Mapping[str, tuple[str, tuple[int, int]]] = {
    "capacity": ("DRAConsumableCapacity", (1, 36)),
    "distinctAttribute": ("DRAConsumableCapacity", (1, 36)),
    "tolerations": ("DRADeviceTaints", (1, 36)),
    "firstAvailable": ("DRAPrioritizedList", (1, 34)),
    "adminAccess": ("DRAAdminAccess", (1, 34)),
}
_CONSEQUENCES = {
    "capacity": "the server would get a whole device instead of a share",
    "tolerations": "devices with taints would not be given",
    "distinctAttribute": "the claim would be refused",
    "firstAvailable": "the claim would be refused",
    "adminAccess": "the devices would be taken from others instead of looked at",
}
_FIRST_RELEASE = (1, 34)


def version_findings(choice: Choice, inventory: Inventory) -> Iterator[Finding]:
    """Of the API that claims need."""
    version = inventory.facts.kubernetes_version
    if version is not None and version < _FIRST_RELEASE and choice.plan.claims:
        found = ".".join(map(str, version))
        yield rules.API_VERSION.finding(
            choice.claims_path, f"Kubernetes {found} has no resource.k8s.io/v1; device claims need 1.34 or later"
        )


def field_findings(claim: WantedClaim, inventory: Inventory) -> Iterator[Finding]:
    """Of fields that do not survive the API server."""
    for field, path in _fields(claim):
        gate, since = GATES[field]
        facts = inventory.facts
        if facts.dropped_fields is not None:
            if field in facts.dropped_fields:
                yield rules.FIELD_DROPPED.finding(
                    path, f"this cluster drops {field} (its feature gate {gate} is off): {_CONSEQUENCES[field]}"
                )
        elif facts.kubernetes_version is not None and _FIRST_RELEASE <= facts.kubernetes_version < since:
            version = ".".join(map(str, facts.kubernetes_version))
            yield rules.FIELD_DROPPED.finding(
                path,
                f"Kubernetes {version} drops {field} unless its feature gate {gate} was switched on: "
                f"{_CONSEQUENCES[field]}; --kubeconfig finds out",
                Level.WARNING,
            )


def _fields(claim: WantedClaim) -> Iterator[tuple[str, str]]:
    for want in claim.wants:
        if want.reference != want.request:
            yield "firstAvailable", want.path
        if want.devices.capacity_requests:
            yield "capacity", want.path_of("capacity")
        if want.devices.tolerations:
            yield "tolerations", want.path_of("tolerations")
        if want.devices.admin_access:
            yield "adminAccess", want.path_of("admin_access")
    for position, constraint in claim.constraints():
        if constraint.distinct_attribute is not None:
            yield "distinctAttribute", claim.constraint_path(position)


def class_findings(want: Want, inventory: Inventory) -> Iterator[Finding]:
    """Of the class of one request."""
    name, classes = want.devices.device_class_name, inventory.facts.device_classes
    if classes is None:
        return
    if name not in classes:
        near = difflib.get_close_matches(name, classes, 3, 0.5) or sorted(classes)
        there = f"there are {', '.join(near)}" if near else "it has none at all: is a DRA driver installed?"
        yield rules.DEVICE_CLASS.finding(
            want.path_of("device_class"), f"the cluster has no device class {name}; {there}"
        )
    elif inventory.facts.slices is not None:
        found = inventory.candidates(inventory.expressions(name, ()))
        if not found.devices and not found.failures:
            yield rules.NO_DEVICES.finding(
                want.path_of("device_class"),
                f"no node publishes a device of class {name} now; a server waits until one does",
            )


def fit_findings(
    choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory, certain: Level
) -> Iterator[Finding]:
    """Of all claims of a choice together: whether any node has the devices, were nothing in use."""
    if not claims or not inventory.nodes:
        return
    selector = choice.settings.get("node_selector")
    wanted_labels = selector if isinstance(selector, Mapping) else {}
    try:
        verdicts = inventory.empty_cluster.verdicts([claim.claim for claim in claims], explain=True)
    except AllocationError as error:
        yield rules.NEVER_FITS.finding(claims[0].path, f"the scheduler gives up on the pod: {error}")
        return
    reasons: list[NoFitReason] = []
    elsewhere = ""
    for group in verdicts:
        if group.fits:
            if any(_has_labels(inventory, node, wanted_labels) for node in group.nodes):
                return
            elsewhere = group.nodes[0]
            continue
        verdict = group.verdict
        if isinstance(verdict, AllocationError) and verdict.reason is FatalReason.ABORTED:
            return  # too many ways to tell
        if isinstance(verdict, DoesNotFit) and verdict.reason is not None:
            reasons.append(verdict.reason)
    if elsewhere:
        labels = ", ".join(f"{name}={value}" for name, value in wanted_labels.items())
        message = f"node_selector ({labels}) leaves out every node with such devices, {elsewhere} among them"
    else:
        reason = shortest(reasons)
        why = f"at best {_subject(reason)}{reason}" if reason is not None else "none has devices"
        message = f"no node can have these devices, even if nothing is in use: {why}"
    yield rules.NEVER_FITS.finding(claims[0].path, message, certain)


def _subject(reason: NoFitReason) -> str:
    return f"({reason.request}) " if reason.request else ""


def _has_labels(inventory: Inventory, name: str, labels: Mapping[str, Any]) -> bool:
    there = inventory.empty_cluster.nodes[name].labels
    return all(there.get(label) == str(value) for label, value in labels.items())

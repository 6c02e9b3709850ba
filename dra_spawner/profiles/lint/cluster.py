"""What the cluster as a whole can do: its API, its classes, its nodes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_spawner.dra.allocator import DoesNotFit
from dra_spawner.dra.claims import AllocationMode
from dra_spawner.dra.consumable_capacity import ShareRefused, share_of, shortage
from dra_spawner.dra.devices import Device
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.reasons import NoFitReason, RefusalKind, shortest
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim

__all__ = ["GATES", "class_findings", "field_findings", "fit_findings", "unselected_findings", "version_findings"]

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
    elif inventory.facts.slices is not None and _has_no_devices(want, inventory):
        yield rules.NO_DEVICES.finding(
            want.path_of("device_class"),
            f"no node publishes a device of class {name} now; a server waits until one does",
        )


def _has_no_devices(want: Want, inventory: Inventory) -> bool:
    """Whether nothing of the class is published."""
    found = inventory.candidates(inventory.expressions(want.devices.device_class_name, ()))
    return not found.devices and not found.failures


def unselected_findings(claim: WantedClaim, inventory: Inventory, certain: Level) -> Iterator[Finding]:
    """Of requests whose own words and CEL select none of the devices of their class."""
    for wants in claim.requests.values():
        empty = [want for want in wants if _selects_nothing(want, inventory)]
        for want in empty:
            name = want.devices.device_class_name
            count = len(inventory.all_candidates(inventory.expressions(name, ())))
            which = (
                f"none of the {count} devices of class {name} is"
                if count > 1
                else f"the one device of class {name} is not"
            )
            one = "" if len(wants) == 1 or len(empty) == len(wants) else "; this alternative is never chosen"
            level = Level.WARNING if one else certain
            yield rules.NEVER_FITS.finding(want.path, f"{which} what this asks for{one}", level)


def _selects_nothing(want: Want, inventory: Inventory) -> bool:
    of_class = inventory.candidates(inventory.expressions(want.devices.device_class_name, ()))
    found = inventory.candidates(inventory.expressions(want.devices.device_class_name, want.selectors))
    return bool(of_class.devices) and not found.devices and not found.failures


def fit_findings(
    choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory, certain: Level
) -> Iterator[Finding]:
    """Of all claims of a choice together: whether any node has the devices, were nothing in use."""
    requests = [wants for claim in claims for wants in claim.requests.values()]
    if not requests or not inventory.nodes:
        return
    if any(all(_has_no_devices(want, inventory) for want in wants) for wants in requests):
        return  # that is told already, and the next node may bring them
    selector = choice.settings.get("node_selector")
    wanted_labels = selector if isinstance(selector, Mapping) else {}
    if not wanted_labels and any(_fits_where_it_is(want, claims, inventory) for want in requests[0]):
        return
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
        message = f"no node can have these devices, even if nothing is in use: {_why(reason, claims)}"
    yield rules.NEVER_FITS.finding(claims[0].path, message, certain)


def _fits_where_it_is(want: Want, claims: Sequence[WantedClaim], inventory: Inventory) -> bool:
    """Whether all claims fit on the node of a device that a request could get; a quick look before the long one."""
    devices = inventory.candidates(inventory.expressions(want.devices.device_class_name, want.selectors)).devices
    if not devices:
        return False
    if len(claims) == 1 and len(claims[0].requests) == 1 and _wants_one(want):
        return any(_serves(device, want, inventory) for device in devices)
    return inventory.fits_at_once(inventory.node_of(devices[0]), [claim.claim for claim in claims])


def _wants_one(want: Want) -> bool:
    return want.devices.allocation_mode == AllocationMode.EXACT_COUNT and want.devices.count == 1


def _serves(device: Device, want: Want, inventory: Inventory) -> bool:
    """Whether an idle device surely is enough; devices with peculiarities are left to the search."""
    if device.taints or device.counter_sets or device.binding_conditions or device.defect:
        return False
    share = share_of(device.description.capacity, want.devices.capacity_requests)
    return not isinstance(share, ShareRefused) and shortage(share, None, None) is None and inventory.is_usable(device)


def _why(reason: NoFitReason | None, claims: Sequence[WantedClaim]) -> str:
    requests = [name for claim in claims for name in claim.requests]
    if reason is None or reason.nearest.kind in _ELSEWHERE:
        return (
            f"none has devices for {' and '.join(requests)} together" if len(requests) > 1 else "none has such a device"
        )
    return f"{reason.request}: {reason}" if len(requests) > 1 else str(reason)


#: What keeps the devices of other nodes from a request: then the devices are there, but not together.
_ELSEWHERE = (RefusalKind.NO_DEVICES, RefusalKind.SELECTOR, RefusalKind.OTHER_NODE)


def _has_labels(inventory: Inventory, name: str, labels: Mapping[str, Any]) -> bool:
    there = inventory.empty_cluster.nodes[name].labels
    return all(there.get(label) == str(value) for label, value in labels.items())

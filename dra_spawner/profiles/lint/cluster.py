"""What the cluster as a whole can do: its API, its classes, its nodes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from dra_spawner import names
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.facts import GATE_OF_FIELD
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim
from dra_spawner.profiles.syntax.keys import MAX_ALTERNATIVES
from dra_spawner.versions import KUBERNETES

#: Gate of each field that an API server drops when it is off, and the first release that has it on by default.
GATES: Mapping[str, tuple[str, tuple[int, int]]] = {
    "capacity": (GATE_OF_FIELD["capacity"], (1, 36)),
    "distinctAttribute": (GATE_OF_FIELD["distinctAttribute"], (1, 36)),
    "tolerations": (GATE_OF_FIELD["tolerations"], (1, 36)),
    "firstAvailable": (GATE_OF_FIELD["firstAvailable"], (1, 34)),
    "adminAccess": (GATE_OF_FIELD["adminAccess"], (1, 34)),
}
_CONSEQUENCES = {
    "capacity": "the server would get a whole device instead of a share",
    "tolerations": "devices with taints would not be given",
    "distinctAttribute": "the claim would be refused",
    "firstAvailable": "the claim would be refused",
    "adminAccess": "the devices would be taken from others instead of looked at",
}

#: How many classes a message names, most alike first.
_NAMED_CLASSES = 4


def version_findings(choice: Choice, inventory: Inventory) -> Iterator[Finding]:
    """Findings about the API that claims need."""
    version = inventory.facts.kubernetes_version
    if version is not None and version < KUBERNETES.least and choice.plan.claims:
        found = ".".join(map(str, version))
        yield rules.API_VERSION.finding(
            choice.claims_path, f"Kubernetes {found} has no resource.k8s.io/v1; device claims need 1.34 or later"
        )


def field_findings(claim: WantedClaim, inventory: Inventory) -> Iterator[Finding]:
    """Findings about fields that do not survive the API server."""
    facts = inventory.facts
    if facts.dropped_fields == frozenset() or (facts.dropped_fields is None and facts.kubernetes_version is None):
        return
    for field, path in _fields(claim):
        gate, since = GATES[field]
        if facts.dropped_fields is not None:
            if field in facts.dropped_fields:
                yield rules.FIELD_DROPPED.finding(
                    path, f"this cluster drops {field} (its feature gate {gate} is off): {_CONSEQUENCES[field]}"
                )
        elif facts.kubernetes_version is not None and KUBERNETES.least <= facts.kubernetes_version < since:
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


def class_findings(
    want: Want, inventory: Inventory, level: Level = Level.ERROR, certain: Level = Level.WARNING
) -> Iterator[Finding]:
    """Findings about the class of one request.

    Parameters
    ----------
    level
        Of a class that is missing.
    certain
        Of a class of which no device is published, although its driver publishes others.
    """
    name, classes = want.devices.device_class_name, inventory.facts.device_classes
    if classes is None:
        return
    if name not in classes:
        near = difflib.get_close_matches(name, classes, _NAMED_CLASSES, 0.5)
        named = [*near, *sorted({*classes} - {*near})][:_NAMED_CLASSES]
        more = f" and {len(classes) - len(named)} more" if len(classes) > len(named) else ""
        there = f"there are {', '.join(named)}{more}" if named else "it has none at all: is a DRA driver installed?"
        yield rules.DEVICE_CLASS.finding(
            want.path_of("device_class"), f"the cluster has no device class {name}; {there}", level
        )
    elif inventory.facts.slices is not None and has_no_devices(want, inventory):
        others = sorted(classes[name].named_drivers & inventory.drivers)
        if others:
            count = sum(each.id.driver in others for each in inventory.devices)
            message = f"{' and '.join(others)} publishes {count} devices, and none of them is of class {name}"
            is_only_one = "/" not in want.reference
            yield rules.NEVER_FITS.finding(
                want.path_of("device_class"), message, certain if is_only_one else Level.WARNING
            )
            return
        yield rules.NO_DEVICES.finding(
            want.path_of("device_class"),
            f"no node publishes a device of class {name} now; a server waits until one does",
        )


def same_hardware_findings(want: Want, inventory: Inventory) -> Iterator[Finding]:
    """Findings about devices of one request that are the same hardware as others, or whole beside their parts."""
    if not inventory.same_hardware:
        return
    candidates = inventory.all_candidates(inventory.expressions(want.devices.device_class_name, want.selectors))
    pairs = [pair for each in candidates if (pair := inventory.same_hardware.get(each.id)) is not None]
    if not pairs:
        return
    device, other = pairs[0].device.id, pairs[0].other.id
    if pairs[0].is_part:
        what = f"{device} is published whole and as its parts ({other.device}); a server with it does not start"
    else:
        what = f"{device} and {other} are one device; two servers may be given it"
    yield rules.SAME_HARDWARE.finding(
        want.path_of("device_class"),
        f"{len(pairs)} of the {len(candidates)} devices that this selects are published twice, and no shared counters "
        f"say so: {what}",
    )


def has_no_devices(want: Want, inventory: Inventory) -> bool:
    """Whether nothing of the class is published."""
    found = inventory.candidates(inventory.expressions(want.devices.device_class_name, ()))
    return not found.devices and not found.failures


def admin_findings(want: Want, inventory: Inventory) -> Iterator[Finding]:
    """Findings about access for administration, which a namespace must allow."""
    if not want.devices.admin_access or want.reference != want.request:
        return
    path, facts = want.path_of("admin_access"), inventory.facts
    if facts.namespace_labels is not None and facts.namespace_labels.get(names.ADMIN_ACCESS) != "true":
        message = (
            f'namespace {facts.namespace} lacks the label {names.ADMIN_ACCESS}: "true", without which it is refused'
        )
        yield rules.ADMIN_ACCESS.finding(path, message)
    else:
        message = "only administrators of the hub can start this; everybody else is refused"
        yield rules.ADMIN_ACCESS.finding(path, message, Level.INFO)


def alternative_findings(claim: WantedClaim) -> Iterator[Finding]:
    """Findings about alternatives in a raw spec; the language itself knows these limits."""
    for request in claim.spec.get("devices", {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        if not alternatives:
            continue
        (first, *_) = (*claim.requests.get(request.get("name"), ()), None)
        path = first.path if first is not None else claim.path
        if len(alternatives) > MAX_ALTERNATIVES:
            yield rules.ALTERNATIVES.finding(
                path.rpartition("[")[0] or path,
                f"{len(alternatives)} alternatives; at most {MAX_ALTERNATIVES} are allowed",
            )
        for want, alternative in zip(claim.requests.get(request.get("name"), ()), alternatives, strict=False):
            if "adminAccess" in alternative:
                yield rules.ALTERNATIVES.finding(
                    want.path_of("admin_access"), "an alternative has no adminAccess; only a request without any has"
                )


def config_findings(claim: WantedClaim, inventory: Inventory) -> Iterator[Finding]:
    """Findings about parameters that alternatives of different classes get alike."""
    for position, config in enumerate(claim.spec.get("devices", {}).get("config") or ()):
        driver = (config.get("opaque") or {}).get("driver", "")
        named = tuple(config.get("requests") or ())
        for name, wants in claim.covered(named).items():
            if named and name not in named:
                continue  # names alternatives one by one
            concerned = [want for want in wants if _may_be_of(want, driver, inventory)]
            classes = dict.fromkeys(want.devices.device_class_name for want in concerned)
            if len(classes) > 1:
                yield rules.CONFIG_FOR_ALL.finding(
                    claim.config_path(position),
                    f"these parameters are for each alternative of {name}, of classes {', '.join(classes)}; if they "
                    f"are for one only, name it: {concerned[0].reference}",
                )


def _may_be_of(want: Want, driver: str, inventory: Inventory) -> bool:
    if not inventory.is_known:
        return True
    expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
    devices = inventory.candidates(expressions).devices
    return not devices or any(device.id.driver == driver for device in devices)

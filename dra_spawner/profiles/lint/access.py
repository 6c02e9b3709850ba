"""Access for administration, and alternatives."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner import names
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim
from dra_spawner.profiles.syntax.keys import MAX_ALTERNATIVES

__all__ = ["admin_findings", "alternative_findings", "config_findings"]


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

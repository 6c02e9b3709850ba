"""SR-IOV: virtual functions of network cards.

Source: the driver's ``pkg/api`` and ``demo``. It publishes nothing without a SriovResourcePolicy. VLANs, trust and
addresses stand in a NetworkAttachmentDefinition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedRequest
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import MISSING_ATTACHMENT_DEFINITION
from dra_spawner.profiles.drivers.parameters import FLAG, TEXT, Fields, has_variable
from dra_spawner.profiles.drivers.published import Published
from dra_spawner.profiles.drivers.shipped.networks import INTERFACE_NAME
from dra_spawner.profiles.drivers.vocabulary import (
    Enforcement,
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    ShareEnforcement,
    ValueKind,
)
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.syntax.rules import text

_NAME = "sriovnetwork.k8snetworkplumbingwg.io"
_SENTENCE = "This is a virtual function of the network card, separated in hardware."
_DEFINITION_KIND = "NetworkAttachmentDefinition"

_SHAPE = Fields(
    {
        "driver": text("vfio-pci, default, or another kernel driver's name", r"[A-Za-z0-9_-]*", 63),
        "addVhostMount": FLAG,
        "ifName": INTERFACE_NAME,
        "netAttachDefName": TEXT,
        "netAttachDefNamespace": TEXT,
    },
    hint="a VLAN, trust, spoofchk, rates and addresses stand in the NetworkAttachmentDefinition",
)


def sriov_share(
    driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published
) -> ShareEnforcement | None:
    """A virtual function is a part of its card."""
    return ShareEnforcement(Enforcement.HARDWARE, _SENTENCE)


def definitions_exist(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """The NetworkAttachmentDefinition is there, or comes with the start."""
    for claim in situation.claims:
        for config in claim.configs:
            name = config.parameters.get("netAttachDefName")
            if config.driver != driver.name or not name or any(map(has_variable, config.written.values())):
                continue  # of a user's own, it is known at the start whether it is there
            namespace = config.parameters.get("netAttachDefNamespace") or situation.facts.namespace
            # None: unknown, so no finding.
            is_there = situation.facts.has_attachment_definition(str(namespace), str(name))
            if is_there is not False or _comes_along(situation, str(name)):
                continue
            message = f"There is no {_DEFINITION_KIND} {namespace}/{name}; without it, the server's pod does not start."
            path = f"{config.parameters_path}.netAttachDefName"
            yield situation.finding(MISSING_ATTACHMENT_DEFINITION, path, message)


def _comes_along(situation: RuleInput, name: str) -> bool:
    manifests: list[dict[str, Any]] = [each.manifest for each in situation.choice.plan.companions]
    return any(
        each.get("kind") == _DEFINITION_KIND and (each.get("metadata") or {}).get("name") == name for each in manifests
    )


SRIOV = Driver(
    name=_NAME,
    title="SR-IOV",
    prepared_for=PreparedFor.POD,
    classes=(KnownClass(_NAME),),
    attributes=(
        PublishedAttribute("pciAddress"),
        PublishedAttribute("PFName"),
        PublishedAttribute("EswitchMode"),
        PublishedAttribute("vendor"),
        PublishedAttribute("deviceID"),
        PublishedAttribute("pfDeviceID"),
        PublishedAttribute("vfID", ValueKind.INT),
        PublishedAttribute("linkType"),
        PublishedAttribute("rdmaCapable", ValueKind.BOOL),
        PublishedAttribute("pfPciAddress"),
        PublishedAttribute("k8s.cni.cncf.io/deviceID"),
        PublishedAttribute(names.PCI_BUS_ID),
        PublishedAttribute(names.PCIE_ROOT),
        PublishedAttribute("dra.net/numaNode", ValueKind.INT),
        # From DeviceAttributes objects, as are any others that an administrator adds.
        PublishedAttribute("resourceName", presence=Presence.OPTIONAL),
        PublishedAttribute("k8s.cni.cncf.io/resourceName", presence=Presence.OPTIONAL),
    ),
    parameter_kinds=(ParameterKind("VfConfig", f"{_NAME}/v1alpha1", _SHAPE),),
    share=sriov_share,
    rules=(*COMMON_RULES, definitions_exist),
)

"""DRANET: network devices moved into pods, and RDMA devices.

Source: the driver's ``pkg/apis`` and ``pkg/inventory``, release 1.4. It brings no DeviceClass. Its parameters have
neither ``apiVersion`` nor ``kind``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.names import PCI_BUS_ID, PCIE_ROOT
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import NO_INTERFACE
from dra_spawner.profiles.drivers.parameters import FLAG, TEXT, Field, Fields, Listed, Mapped
from dra_spawner.profiles.drivers.published import own_attribute
from dra_spawner.profiles.drivers.shipped.networks import ADDRESS, HARDWARE_ADDRESS, INTERFACE_NAME, PREFIX, family
from dra_spawner.profiles.drivers.vocabulary import (
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    ValueKind,
)
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.rules import either, text, whole_number

_INT32 = 2**31 - 1
_POSITIVE = whole_number("a whole number above zero", 1, _INT32)
_TABLE = whole_number("a routing table's number", 0, _INT32)
_LINK = 253


def _dhcp_or_addresses(interface: Mapping[str, object], path: str) -> Iterator[Problem]:
    if interface.get("dhcp") is True and interface.get("addresses"):
        yield Problem(f"{path}.addresses", shown(interface["addresses"]), "no addresses beside dhcp")


def _vrf_table(vrf: Mapping[str, object], path: str) -> Iterator[Problem]:
    if vrf.get("table") in (253, 254, 255):
        yield Problem(f"{path}.table", shown(vrf["table"]), "a table that Linux does not use itself (253 to 255)")


_INTERFACE = Fields(
    {
        "name": INTERFACE_NAME,
        "addresses": Listed(PREFIX),
        "dhcp": FLAG,
        "mtu": whole_number("a whole number from 68", 68, _INT32),
        "hardwareAddr": HARDWARE_ADDRESS,
        **dict.fromkeys(("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize"), _POSITIVE),
        "disableEbpfPrograms": FLAG,
        "forwarding": FLAG,
        "arpIgnore": either("0, 1, 2, 3 or 8", whole_number("", 0, 3), whole_number("", 8, 8)),
        "arpAnnounce": whole_number("0, 1 or 2", 0, 2),
        "vrf": Fields(
            {"name": Field(text("a name", r"(?s:.+)", 253), required=True), "table": _POSITIVE}, check=_vrf_table
        ),
    },
    check=_dhcp_or_addresses,
)


def _gateway_fits(route: Mapping[str, object], path: str) -> Iterator[Problem]:
    if not route.get("gateway") and route.get("scope") != _LINK:
        yield Problem(f"{path}.gateway", "", f"an address; only with scope {_LINK} (link) there is none")
    yield from _one_family(route, path, "gateway", "source")


def _rule_fits(rule: Mapping[str, object], path: str) -> Iterator[Problem]:
    yield from _one_family(rule, path, "source")


def _one_family(entry: Mapping[str, object], path: str, *keys: str) -> Iterator[Problem]:
    destination = family(entry.get("destination"))
    for key in keys:
        version = family(entry.get(key))
        if version is not None and destination is not None and version != destination:
            yield Problem(f"{path}.{key}", shown(entry[key]), f"IPv{destination}, as the destination is")


_ROUTE = Fields(
    {
        "destination": Field(PREFIX, required=True),
        "gateway": ADDRESS,
        "source": ADDRESS,
        "scope": either(f"0, or {_LINK} (link)", whole_number("", 0, 0), whole_number("", _LINK, _LINK)),
        "table": _TABLE,
    },
    check=_gateway_fits,
)
_RULE = Fields(
    {
        "priority": whole_number("a whole number from 0 to 32767", 0, 32767),
        "source": PREFIX,
        "destination": PREFIX,
        "table": _TABLE,
    },
    check=_rule_fits,
)
_NEIGHBOR = Fields(
    {"destination": Field(ADDRESS, required=True), "hardwareAddr": Field(HARDWARE_ADDRESS, required=True)}
)


def _no_rules_in_a_vrf(config: Mapping[str, object], path: str) -> Iterator[Problem]:
    interface = config.get("interface")
    if config.get("rules") and isinstance(interface, Mapping) and interface.get("vrf") is not None:
        yield Problem(f"{path}.rules", shown(config["rules"]), "no rules beside interface.vrf")


_SHAPE = Fields(
    {
        "profile": TEXT,
        "interface": _INTERFACE,
        "routes": Listed(_ROUTE),
        "rules": Listed(_RULE),
        "neighbors": Listed(_NEIGHBOR),
        "ethtool": Fields({"features": Mapped(TEXT, FLAG), "privateFlags": Mapped(TEXT, FLAG)}),
    },
    hint="neither apiVersion nor kind",
    check=_no_rules_in_a_vrf,
)
#: What can be set for a device that has no network interface.
_WITHOUT_INTERFACE = frozenset({"profile"})


def rdma_devices_have_no_interface(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """A device for RDMA alone has no interface that could be configured."""
    cluster = situation.published
    for claim in situation.claims:
        for request in driver.requests(claim, cluster):
            devices = cluster.candidates(request, driver.name)
            if not devices or any(own_attribute(each, "ifName") for each in devices):
                continue
            for config in claim.configs_of(request, driver.name):
                if any(value for key, value in config.parameters.items() if key not in _WITHOUT_INTERFACE):
                    message = (
                        f"{request.reference} gets a device for RDMA alone, without a network interface to set up."
                    )
                    yield situation.finding(NO_INTERFACE, config.parameters_path, message)


_STRING, _INT, _BOOL = ValueKind.STRING, ValueKind.INT, ValueKind.BOOL
_OWN = {
    "ifName": _STRING,
    "mac": _STRING,
    "pciAddress": _STRING,
    "pciVendor": _STRING,
    "pciDevice": _STRING,
    "pciSubsystem": _STRING,
    "numaNode": _INT,
    "mtu": _INT,
    "encapsulation": _STRING,
    "alias": _STRING,
    "state": _STRING,
    "type": _STRING,
    "ipv4": _STRING,
    "ipv6": _STRING,
    "ebpf": _BOOL,
    "sriovVfs": _INT,
    "isSriovVf": _BOOL,
    "rdmaDevice": _STRING,
}
_CLOUD = {
    "gce.dra.net": ("block", "subBlock", "host", "networkName"),
    "azure.dra.net": ("placementGroupId", "vmSize"),
    "oke.dra.net": ("hpcIslandId", "networkBlockId", "localBlockId", "rackId", "gpuMemoryFabricId"),
}

DRANET = Driver(
    name="dra.net",
    title="DRANET",
    prepared_for=PreparedFor.POD,
    # Names that its documentation uses; each cluster makes its own.
    classes=tuple(
        KnownClass(name)
        for name in (
            *("dra.net", "dranet", "dranet.net", "multinic", "rdma-net"),
            *("efa.networking.k8s.aws", "erdma.alibaba.dra.net"),
        )
    ),
    attributes=(
        PublishedAttribute("rdma", _BOOL),
        *(PublishedAttribute(name, _BOOL, Presence.OPTIONAL) for name in ("sriov", "virtual")),
        *(PublishedAttribute(name, kind, Presence.OPTIONAL) for name, kind in _OWN.items()),
        PublishedAttribute(PCI_BUS_ID, presence=Presence.NEWER),
        PublishedAttribute(PCIE_ROOT, presence=Presence.OPTIONAL),
        *(
            PublishedAttribute(f"{domain}/{name}", presence=Presence.OPTIONAL)
            for domain, names in _CLOUD.items()
            for name in names
        ),
        PublishedAttribute("alibaba.dra.net/erdma", _BOOL, Presence.OPTIONAL),
    ),
    parameter_kinds=(ParameterKind("", "", _SHAPE),),
    rules=(*COMMON_RULES, rdma_devices_have_no_interface),
)

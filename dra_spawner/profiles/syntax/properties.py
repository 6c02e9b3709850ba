"""What a device must be, in a word instead of CEL; each word is compiled to CEL that is false, and no error, elsewhere.

An expression that fails on a single device stops the scheduler for the pod on every node, so each attribute is looked
for before it is read. A driver publishes attributes in its own domain (``device.driver``) or, where Kubernetes has
standardised them, under ``resource.kubernetes.io``; both are looked at. Comparing with ``==`` is no error even where a
driver publishes another type under the name.

Where attributes may be lists (gate DRAListTypeAttributes), CEL has ``includes`` for both, a list and a single value. An
API server without the gate refuses that function up to 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.dra.cel import cel_string_literal
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.rules import ValueRule

_OWN, _STANDARD, _DRANET = "own", "standard", "dranet"
_DOMAINS = {
    _OWN: "device.attributes[device.driver]",
    _STANDARD: 'device.attributes["resource.kubernetes.io"]',
    _DRANET: 'device.attributes["dra.net"]',  # the SR-IOV driver publishes there, too
}
_NUMA_NODES: Final = (
    (_OWN, "numaNode"),
    (_OWN, "numaNodeID"),
    (_OWN, "numa"),
    (_STANDARD, "numaNode"),
    (_DRANET, "numaNode"),
)
_GATES: Final = "kubernetes_feature_gates"
_LISTS: Final = "DRAListTypeAttributes"


def may_be_lists(settings: Mapping[str, Any]) -> bool:
    """Whether attributes may be lists on the cluster, by a hub's settings: the gate is off by default."""
    gates = settings.get(_GATES)
    return isinstance(gates, Mapping) and gates.get(_LISTS) is True


@dataclass(frozen=True, slots=True)
class Property:
    """A word of the language.

    Attributes
    ----------
    rule
        What may be its value.
    meaning
        For the JSON Schema's readers.
    selector
        Makes CEL of an accepted value.
    list_selector
        The same where attributes may be lists; None if it makes no difference.
    """

    rule: ValueRule
    meaning: str
    selector: Callable[[Any], str]
    list_selector: Callable[[Any], str] | None = None

    def expression(self, value: object, *, list_attributes: bool) -> str:
        """CEL of an accepted value."""
        return (self.list_selector if list_attributes and self.list_selector else self.selector)(value)


def product_selector(pattern: str) -> str:
    """CEL that holds where a device's product name matches ``pattern``, whichever driver publishes it.

    Drivers publish it as ``productName`` (NVIDIA, AMD, HAMi) or ``model`` (Intel, the example driver) in their
    own domain; the vendor's name may stand before it ("NVIDIA A100-SXM4-40GB"). Case does not matter.
    """
    regex = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    literal = cel_string_literal(rf"(?i)^(\S+ )?{regex}$")
    matches = " || ".join(
        f'("{attribute}" in own && own.{attribute}.matches({literal}))' for attribute in ("productName", "model")
    )
    return f"cel.bind(own, {_DOMAINS[_OWN]}, {matches})"


def memory_selector(minimum: str | int) -> str:
    """CEL that holds where a device's ``memory``, shared or not, is at least ``minimum`` in all."""
    literal = cel_string_literal(str(Quantity.parse(minimum)))
    memory = f'"memory" in own && own.memory.compareTo(quantity({literal})) >= 0'
    return f"cel.bind(own, device.capacity[device.driver], {memory})"


def compute_capability_selector(minimum: str) -> str:
    """CEL that holds where the version ``cudaComputeCapability`` (NVIDIA, HAMi) is at least that of ``">=8.0"``."""
    parts = minimum.removeprefix(">=").strip().split(".")
    literal = cel_string_literal(".".join([*parts, "0", "0"][:3]))
    version = f'"cudaComputeCapability" in own && own.cudaComputeCapability.compareTo(semver({literal})) >= 0'
    return f"cel.bind(own, {_DOMAINS[_OWN]}, {version})"


def mig_profile_selector(profile: str) -> str:
    """CEL that holds for MIG devices of this profile, as NVIDIA's driver publishes it."""
    return _equal(cel_string_literal(profile), (_OWN, "profile"))


def numa_node_selector(node: int) -> str:
    """CEL that holds for devices at this NUMA node."""
    return _equal(str(node), *_NUMA_NODES)


def numa_nodes_selector(node: int) -> str:
    """CEL that holds for devices at this NUMA node, alone or among others."""
    return _any_of(f".includes({node})", *_NUMA_NODES)


def pci_bus_id_selector(address: str) -> str:
    """CEL that holds for the device at this PCI address; drivers write hexadecimal digits in lower case."""
    own = ("pciBusID", "pciAddress", "pciAddr", "pcieBusID")
    return _equal(
        cel_string_literal(address.lower()), (_STANDARD, "pciBusID"), *((_OWN, attribute) for attribute in own)
    )


def rdma_selector(_: bool) -> str:
    """CEL that holds for network devices with RDMA (DRANET ``rdma``, SR-IOV ``rdmaCapable``)."""
    return _equal("true", (_OWN, "rdma"), (_OWN, "rdmaCapable"))


def _equal(literal: str, *attributes: tuple[str, str]) -> str:
    """CEL that is true where one of these attributes (domain, name) exists and equals the literal."""
    return _any_of(f" == {literal}", *attributes)


def _any_of(condition: str, *attributes: tuple[str, str]) -> str:
    """CEL that is true where one of these attributes (domain, name) exists and the condition holds for it."""
    expression = " || ".join(f'("{name}" in {domain} && {domain}.{name}{condition})' for domain, name in attributes)
    for domain in dict.fromkeys(domain for domain, _ in attributes):
        expression = f"cel.bind({domain}, {_DOMAINS[domain]}, {expression})"
    return expression


#: In the order in which their selectors stand in a claim.
PROPERTIES: Mapping[str, Property] = {
    "product": Property(
        rules.PRODUCT,
        "Pattern of the product's name; * is any text, ? one character, case does not matter.",
        product_selector,
    ),
    "min_memory": Property(
        rules.QUANTITY,
        "The device's memory in all, at the least. Takes nothing of it; a share is asked for with capacity.",
        memory_selector,
    ),
    "compute_capability": Property(
        rules.MINIMUM_VERSION, "Least CUDA compute capability.", compute_capability_selector
    ),
    "mig_profile": Property(rules.MIG_PROFILE, "Profile of a MIG device.", mig_profile_selector),
    "numa_node": Property(
        rules.NUMA_NODE, "NUMA node at which the device is.", numa_node_selector, numa_nodes_selector
    ),
    "pci_bus_id": Property(rules.PCI_BUS_ID, "PCI address of the device.", pci_bus_id_selector),
    "rdma": Property(rules.YES, "Only network devices with RDMA.", rdma_selector),
}

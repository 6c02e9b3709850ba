"""CPUs of a node, whole ones or a number of a group (dra-driver-cpu).

Source: the driver's ``pkg/driver``, release 0.2. It gives a container its CPUs when the runtime creates it (NRI), and
keeps a claim for the first container that names it.
"""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.vocabulary import (
    KnownClass,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ValueKind,
)

CPUS = Driver(
    name="dra.cpu",
    title="CPUs",
    prepared_for=PreparedFor.CONTAINER,
    classes=(KnownClass("dra.cpu"),),
    attributes=(
        PublishedAttribute("numCPUs", ValueKind.INT, Presence.OPTIONAL),
        PublishedAttribute("smtEnabled", ValueKind.BOOL, Presence.OPTIONAL),
        PublishedAttribute(names.NUMA_NODE, ValueKind.INT, Presence.OPTIONAL),
        PublishedAttribute(names.PCIE_ROOT, presence=Presence.OPTIONAL),
    ),
    # Published with its domain, and so it must be asked for; of groups of CPUs only.
    capacities=(PublishedCapacity("dra.cpu/cpu", Presence.OPTIONAL),),
    rules=COMMON_RULES,
)

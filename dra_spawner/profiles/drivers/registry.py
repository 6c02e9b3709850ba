"""All known drivers, by name and by DeviceClass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.drivers.asked import asked_claim
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import DRIVER_RULES
from dra_spawner.profiles.drivers.installed import installed_drivers
from dra_spawner.profiles.drivers.published import published
from dra_spawner.profiles.drivers.shipped.amd import AMD_GPU
from dra_spawner.profiles.drivers.shipped.cni import CNI
from dra_spawner.profiles.drivers.shipped.cpus import CPUS
from dra_spawner.profiles.drivers.shipped.dranet import DRANET
from dra_spawner.profiles.drivers.shipped.example import EXAMPLE_CPU, EXAMPLE_GPU, EXAMPLE_NET
from dra_spawner.profiles.drivers.shipped.hami import HAMI_GPU
from dra_spawner.profiles.drivers.shipped.intel import INTEL_GAUDI, INTEL_GPU, INTEL_QAT
from dra_spawner.profiles.drivers.shipped.nvidia import NVIDIA_GPU
from dra_spawner.profiles.drivers.shipped.nvidia_compute_domain import NVIDIA_COMPUTE_DOMAIN
from dra_spawner.profiles.drivers.shipped.sriov import SRIOV
from dra_spawner.profiles.drivers.vocabulary import ShareEnforcement
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, LintRule

_SHIPPED = (
    *(NVIDIA_GPU, NVIDIA_COMPUTE_DOMAIN, INTEL_GPU, INTEL_GAUDI, INTEL_QAT, AMD_GPU, HAMI_GPU),
    *(CNI, DRANET, SRIOV, CPUS, EXAMPLE_GPU, EXAMPLE_NET, EXAMPLE_CPU),
)


@cache
def _drivers() -> Mapping[str, Driver]:
    """By name. An installed driver replaces a shipped one, as it may know a newer release."""
    return {each.name: each for each in (*_SHIPPED, *installed_drivers())}


@cache
def _by_class() -> Mapping[str, Driver]:
    return {name: each for each in _drivers().values() for name in each.class_types}


def known_drivers() -> tuple[Driver, ...]:
    """The shipped drivers, then those of installed packages.

    Raises
    ------
    DriverNotUsable
        If an installed package adds a driver that cannot be used. So does every other function of this module.
    """
    return tuple(_drivers().values())


def known_driver(name: str) -> Driver | None:
    """The driver of this name, as in ``spec.driver`` of its ResourceSlices."""
    return _drivers().get(name)


def drivers_prepare_for(configured: object = None) -> Mapping[str, PreparedFor]:
    """What drivers prepare claims for, by name of the driver; of other drivers it is not known.

    Parameters
    ----------
    configured
        The administrator's setting (`configured_drivers`), which counts more than this project's knowledge.
    """
    known = {each.name: each.prepared_for for each in known_drivers() if each.prepared_for is not None}
    return {**known, **configured_drivers(configured)}


def configured_drivers(value: object) -> Mapping[str, PreparedFor]:
    """The setting ``drivers_prepare_for``, with its valid entries."""
    entries = value.items() if isinstance(value, Mapping) else ()
    allowed = {str(each): each for each in PreparedFor}
    return {str(driver): allowed[str(word)] for driver, word in entries if str(word) in allowed}


def driver_rules() -> tuple[LintRule, ...]:
    """The rules about drivers, those of installed packages included."""
    return tuple(dict.fromkeys((*DRIVER_RULES, *(rule for each in known_drivers() for rule in each.own_rules))))


def driver_of_class(device_class: str, facts: ClusterFacts | None) -> Driver | None:
    """The known driver whose devices a DeviceClass selects.

    What the class's CEL says counts (``device.driver == "…"``), then which devices it selects, then its name.
    """
    name = published(facts).driver_of_class(device_class)
    return _drivers().get(name) if name else _by_class().get(device_class)


def driver_findings(choice: Choice, facts: ClusterFacts | None) -> Iterator[Finding]:
    """What the drivers of a choice's devices would refuse, or do otherwise than meant."""
    situation = RuleInput.of(choice, facts)
    concerned: dict[str, Driver] = {}
    for claim in (*situation.claims, *situation.fixed_claims):
        for driver in (driver_of_class(request.device_class, facts) for request in claim.requests):
            if driver is not None:
                concerned[driver.name] = driver
        for config in claim.configs:
            if (configured := known_driver(config.driver)) is not None:
                concerned[config.driver] = configured
    for driver in concerned.values():
        yield from driver.findings_of(situation)


def share_enforcements(claim: DeviceClaim, facts: ClusterFacts | None) -> Mapping[str, ShareEnforcement]:
    """What enforces each share of a claim, by request or request/alternative.

    Requests for whole devices, and requests for unknown drivers, are left out.
    """
    cluster = published(facts)
    asked = asked_claim(claim)
    found = {}
    for request in asked.requests:
        driver = driver_of_class(request.device_class, facts)
        share = driver.share(driver, asked, request, cluster) if driver is not None else None
        if share is not None:
            found[request.reference] = share
    return found

"""All drivers that are known, by name and by the classes that they bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.drivers.amd import AMD_GPU
from dra_spawner.profiles.drivers.asked import asked_claim, asked_claims
from dra_spawner.profiles.drivers.cni import CNI
from dra_spawner.profiles.drivers.dranet import DRANET
from dra_spawner.profiles.drivers.driver import Driver, Situation
from dra_spawner.profiles.drivers.example import EXAMPLE_CPU, EXAMPLE_GPU, EXAMPLE_NET
from dra_spawner.profiles.drivers.hami import HAMI_GPU
from dra_spawner.profiles.drivers.intel import INTEL_GAUDI, INTEL_GPU, INTEL_QAT
from dra_spawner.profiles.drivers.nvidia import NVIDIA_GPU
from dra_spawner.profiles.drivers.nvidia_compute_domain import NVIDIA_COMPUTE_DOMAIN
from dra_spawner.profiles.drivers.published import published
from dra_spawner.profiles.drivers.sriov import SRIOV
from dra_spawner.profiles.drivers.vocabulary import ShareEnforcement
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding

_ALL = (
    *(NVIDIA_GPU, NVIDIA_COMPUTE_DOMAIN, INTEL_GPU, INTEL_GAUDI, INTEL_QAT, AMD_GPU, HAMI_GPU),
    *(CNI, DRANET, SRIOV, EXAMPLE_GPU, EXAMPLE_NET, EXAMPLE_CPU),
)
_DRIVERS: Mapping[str, Driver] = {each.name: each for each in _ALL}
_BY_CLASS: Mapping[str, Driver] = {name: each for each in _DRIVERS.values() for name in each.class_types}


def known_drivers() -> tuple[Driver, ...]:
    """Every driver of which something is known."""
    return tuple(_DRIVERS.values())


def known_driver(name: str) -> Driver | None:
    """The driver of this name, as in ``spec.driver`` of its ResourceSlices."""
    return _DRIVERS.get(name)


def driver_of_class(device_class: str, facts: ClusterFacts | None) -> Driver | None:
    """The known driver whose devices a DeviceClass selects.

    What the class's CEL says counts (``device.driver == "…"``), then which devices it selects, then its name.
    """
    name = published(facts).driver_of_class(device_class)
    return _DRIVERS.get(name) if name else _BY_CLASS.get(device_class)


def driver_findings(choice: Choice, facts: ClusterFacts | None) -> Iterator[Finding]:
    """What the drivers that a choice is about would refuse, or not do as meant."""
    situation = Situation(choice, asked_claims(choice), published(facts))
    concerned: dict[str, Driver] = {}
    for claim in situation.claims:
        for driver in (driver_of_class(request.device_class, facts) for request in claim.requests):
            if driver is not None:
                concerned[driver.name] = driver
        for config in claim.configs:
            if config.driver in _DRIVERS:
                concerned[config.driver] = _DRIVERS[config.driver]
    for driver in concerned.values():
        yield from driver.findings_of(situation)


def share_enforcements(claim: DeviceClaim, facts: ClusterFacts | None) -> Mapping[str, ShareEnforcement]:
    """How firmly each share of a claim is one: by request, or request/alternative.

    Requests that get devices for themselves, and those for drivers of which nothing is known, are not there.
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

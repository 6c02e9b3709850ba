"""The example driver of Kubernetes (dra-example-driver): GPUs, network cards and CPUs that are none.

Source: the driver's ``api`` and ``internal/profiles``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedRequest
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.parameters import Field, Fields
from dra_spawner.profiles.drivers.published import Published
from dra_spawner.profiles.drivers.shares import takes_a_part
from dra_spawner.profiles.drivers.vocabulary import (
    Enforcement,
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ShareEnforcement,
    ValueKind,
)
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.rules import one_of, whole_number

_SENTENCE = "The share is not enforced: this is an example device, without hardware."
#: Bits; the driver keeps bytes in 32 bits.
_MAX_BURST = 8 * (2**32 - 1) - 1


def example_share(
    driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published
) -> ShareEnforcement | None:
    """Nothing is there that could be enforced."""
    return ShareEnforcement(Enforcement.NONE, _SENTENCE) if takes_a_part(driver, request, cluster) else None


_STRATEGIES = {"TimeSlicing": "timeSlicingConfig", "SpacePartitioning": "spacePartitioningConfig"}


def _strategy_has_its_own_settings(sharing: Mapping[str, object], path: str) -> Iterator[Problem]:
    strategy = sharing.get("strategy")
    if not isinstance(strategy, str) or strategy not in _STRATEGIES:
        return
    own = _STRATEGIES[strategy]
    if sharing.get(own) is None:
        yield Problem(f"{path}.{own}", "", f"the settings of strategy {strategy}")
    for key in _STRATEGIES.values():
        if key != own and sharing.get(key) is not None:
            yield Problem(f"{path}.{key}", key, f"no {key} beside strategy {strategy}")


_SHARING = Fields(
    {
        "strategy": Field(one_of("TimeSlicing or SpacePartitioning", *_STRATEGIES), required=True),
        "timeSlicingConfig": Fields(
            {
                "interval": Field(
                    one_of("Default, Short, Medium or Long", "Default", "Short", "Medium", "Long"), required=True
                )
            }
        ),
        "spacePartitioningConfig": Fields({"partitionCount": whole_number("a whole number from 0", 0, 2**63 - 1)}),
    },
    check=_strategy_has_its_own_settings,
)
_BURST = whole_number("bits, less than 4 GiB in bytes", 0, _MAX_BURST)

EXAMPLE_GPU = Driver(
    name="gpu.example.com",
    title="Example GPUs",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("gpu.example.com"),),
    attributes=(
        PublishedAttribute("index", ValueKind.INT),
        PublishedAttribute("uuid"),
        PublishedAttribute("model"),
        PublishedAttribute("driverVersion", ValueKind.VERSION),
        PublishedAttribute(names.PCIE_ROOT, presence=Presence.OPTIONAL),
    ),
    capacities=(PublishedCapacity("memory"), PublishedCapacity("compute", Presence.NEWER)),
    parameter_kinds=(
        ParameterKind(
            "GpuConfig", "gpu.resource.example.com/v1alpha1", Fields({"sharing": Field(_SHARING, required=True)})
        ),
    ),
    equal_sharers=True,  # a GPU is either sliced in time or partitioned
    share=example_share,
    rules=COMMON_RULES,
)
EXAMPLE_NET = Driver(
    name="net.example.com",
    title="Example network cards",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("net.example.com"),),
    capacities=(
        PublishedCapacity("vfs"),
        PublishedCapacity("ingressBandwidth"),
        PublishedCapacity("egressBandwidth"),
    ),
    parameter_kinds=(
        ParameterKind(
            "NetConfig",
            "net.resource.example.com/v1alpha1",
            Fields({"bwBurst": Field(Fields({"ingressBurst": _BURST, "egressBurst": _BURST}), required=True)}),
        ),
    ),
    share=example_share,
    rules=COMMON_RULES,
)
EXAMPLE_CPU = Driver(
    name="cpu.example.com",
    title="Example CPUs",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("cpu.example.com"),),
    attributes=(PublishedAttribute("numaNodeID", ValueKind.INT),),
    # Published with its domain, and so it must be asked for.
    capacities=(PublishedCapacity("cpu.example.com/cpu"),),
    share=example_share,
    rules=COMMON_RULES,
)

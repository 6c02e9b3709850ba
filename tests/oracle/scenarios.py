"""Random scenarios for the allocator: a family decides the frequent features, the seed decides everything else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from tests.oracle.claim_specs import make_claims, make_classes, make_existing
from tests.oracle.hardware import make_hardware

__all__ = ["FAMILIES", "Family", "make_scenario", "scenarios"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """How often each peculiarity occurs; probabilities from 0 to 1 where nothing else is said."""

    nodes: tuple[int, int] = (1, 3)
    devices: tuple[int, int] = (1, 5)
    """Per slice."""
    claims: tuple[int, int] = (1, 2)
    requests: tuple[int, int] = (1, 2)
    count: tuple[int, int] = (1, 2)
    busy: float = 0.15
    """Of devices."""
    shared: float = 0.0
    """Devices with allowMultipleAllocations."""
    policies: float = 0.5
    """Capacities of shared devices with a requestPolicy."""
    odd_amounts: float = 0.0
    """Amounts that are negative, fractional, huge or written in an unusual way."""
    mig: float = 0.0
    """Pools with the partitions of one GPU: a device for each placement of a profile on its eight memory slices."""
    numa: float = 0.0
    """Constraints that are about NUMA nodes."""
    uncounted: float = 0.0
    """Shared devices without any capacity."""
    odd_names: float = 0.0
    """Names with and without domain that look the same."""
    counters: float = 0.0
    """Pools with shared counters."""
    same_pool_names: float = 0.0
    per_device_nodes: float = 0.0
    """Pools whose devices choose nodes themselves."""
    network: float = 0.3
    """Pools that are attached to no node."""
    taints: float = 0.0
    binding: float = 0.0
    binds_to_node: float = 0.0
    lists: float = 0.0
    """Attributes that are lists; with any, the feature is on."""
    admin: float = 0.0
    take_all: float = 0.0
    first_available: float = 0.0
    constraints: float = 0.0
    distinct: float = 0.3
    """Of constraints."""
    selectors: float = 0.4
    failing_selectors: float = 0.02
    config: float = 0.0
    extra_slices: float = 0.2
    """Pools made of several slices."""
    generations: float = 0.0
    """Pools with slices of several generations."""
    incomplete: float = 0.0
    contradicting: float = 0.0
    """Pools that are invalid."""
    odd_node_selectors: float = 0.0
    features_off: float = 0.0
    malformed: float = 0.0
    """Claims that nothing can serve."""
    alternatives: tuple[int, int] = (1, 3)
    """Of ``firstAvailable``."""
    for_alternatives: float = 0.0
    """Constraints that name alternatives and no whole request."""
    edge_amounts: float = 0.0
    """Amounts of capacities, shares and counters at the edge of what the API takes."""
    edge_policies: float = 0.0
    """Policies that do not go with their capacity."""


_TABLE = """
plain
network nodes=2-3 count=1-4 busy=0.05 per_device_nodes=0.3 network=1 binds_to_node=0.05 odd_node_selectors=0.6
pools nodes=2-3 network=0.8 take_all=0.2 extra_slices=0.6 generations=0.4 incomplete=0.25 contradicting=0.2
generations nodes=2-3 requests=1-1 network=1 take_all=0.4 extra_slices=0.3 generations=0.8 incomplete=0.1
all shared=0.3 admin=0.2 take_all=0.6 constraints=0.2 incomplete=0.04 contradicting=0.04
admin busy=0.5 shared=0.3 counters=0.4 taints=0.1 admin=0.6
match devices=2-5 requests=1-3 constraints=0.9 distinct=0
distinct devices=3-6 requests=1-3 count=1-4 constraints=0.9 distinct=1
lists devices=2-5 requests=1-3 count=1-3 lists=0.7 constraints=0.9
narrowing nodes=1-1 devices=5-9 claims=1-1 count=2-4 busy=0.05 network=0 lists=0.9 constraints=1 distinct=0.1
    selectors=0.1
list-alternatives devices=2-5 requests=1-3 count=1-3 lists=0.7 take_all=0.1 first_available=0.8 constraints=0.9
combinations nodes=1-1 devices=3-6 requests=2-3 count=2-4 constraints=0.6
shares devices=2-5 requests=1-3 count=1-1 busy=0.3 shared=0.7
share-amounts <shares policies=0.8 odd_amounts=0.4
share-names <shares uncounted=0.1 odd_names=0.5
share-constraints <shares claims=1-3 take_all=0.15 constraints=0.5
numa-shares <shares requests=2-3 shared=0.9 policies=0.8 numa=0.9 first_available=0.2 constraints=0.9 distinct=0.2
share-counters <shares claims=1-3 uncounted=0.2 counters=0.9 admin=0.1
first-available claims=1-3 requests=1-3 count=1-3 first_available=0.8 constraints=0.4
partitions devices=2-6 counters=0.9
partition-nodes <partitions nodes=2-3 per_device_nodes=0.4 network=1 extra_slices=0.5 contradicting=0.15
partition-binding <partitions binding=0.3 binds_to_node=0.2
partition-names <partitions claims=1-3 same_pool_names=0.8 admin=0.1
two-drivers <partitions claims=2-3 count=1-3 busy=0.3 same_pool_names=1
mig claims=1-3 requests=1-3 count=1-3 busy=0.08 mig=0.8 network=0.1 first_available=0.2
partition-all <partitions network=0.5 take_all=0.4 extra_slices=0.4 incomplete=0.15
fabric nodes=2-3 network=1 taints=0.15 binding=0.7 binds_to_node=0.4 first_available=0.3 extra_slices=0.4
    generations=0.2
binding network=0.8 binding=0.3 binds_to_node=0.2
taints taints=0.5 take_all=0.15 first_available=0.1
config requests=1-4 first_available=0.4 config=0.9
limits nodes=1-1 devices=11-17 claims=1-3 count=1-20 busy=0.02 take_all=0.1 first_available=0.5 selectors=0.1
    extra_slices=0.5
malformed first_available=0.3 failing_selectors=0.3 malformed=0.5
selectors shared=0.3 selectors=0.9 failing_selectors=0.15
features shared=0.3 counters=0.3 per_device_nodes=0.2 taints=0.3 binding=0.2 admin=0.2 first_available=0.2
    features_off=0.25
mix claims=1-3 requests=0-3 shared=0.3 odd_amounts=0.1 odd_names=0.1 counters=0.3 same_pool_names=0.2
    per_device_nodes=0.15 taints=0.15 binding=0.1 binds_to_node=0.05 admin=0.1 take_all=0.1 first_available=0.25
    constraints=0.3 config=0.2 generations=0.1 incomplete=0.03 contradicting=0.03
mix-lists <mix lists=0.4 constraints=0.6
eight-alternatives requests=1-3 count=1-4 shared=0.3 take_all=0.05 first_available=0.9 constraints=0.3 selectors=0.8
    config=0.3 alternatives=5-8
list-subrequests devices=3-6 requests=2-3 count=1-3 busy=0.05 lists=0.8 first_available=0.9 constraints=1 distinct=0.4
    config=0.3 for_alternatives=0.7
subrequests devices=3-6 requests=2-3 count=1-3 first_available=0.9 constraints=1 config=0.6 for_alternatives=0.8
binding-counts nodes=2-3 devices=3-6 count=2-4 shared=0.2 counters=0.3 per_device_nodes=0.3 network=1 binding=0.5
    binds_to_node=0.3 take_all=0.1 extra_slices=0.5
admin-taints claims=1-3 requests=1-3 busy=0.4 shared=0.3 counters=0.3 taints=0.6 admin=0.6 take_all=0.3
edge-amounts <shares policies=0.6 edge_amounts=0.6 edge_policies=0.3
edge-policies <shares claims=1-3 policies=1 edge_amounts=0.3 edge_policies=0.9
edge-names <shares odd_names=0.7 take_all=0.2 edge_amounts=0.3 edge_policies=0.4
edge-counters <partitions claims=1-3 shared=0.3 same_pool_names=0.5 take_all=0.1 edge_amounts=0.7
drawn
"""
"""A line for each family: its name, the family that it begins with if any, and what differs. In ``drawn``, each scenario has
a family of its own."""


def _read(table: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for line in table.strip().replace("\n ", " ").splitlines():
        name, *words = line.split()
        base = found[words.pop(0)[1:]] if words and words[0].startswith("<") else Family()
        pairs = (word.split("=") for word in words)
        found[name] = replace(base, **{field: _value(text) for field, text in pairs})
    return found


def _value(text: str) -> Any:
    least, is_range, most = text.partition("-")
    return (int(least), int(most)) if is_range else float(text)


FAMILIES: dict[str, Family] = _read(_TABLE)

_RARE = {"failing_selectors", "incomplete", "contradicting", "odd_node_selectors", "features_off", "malformed"}


def _drawn(rng: random.Random) -> Family:
    """A family in which any peculiarities come together."""
    chosen: dict[str, Any] = {}
    for field in fields(Family):
        if isinstance(field.default, float) and rng.random() < 0.35:
            chosen[field.name] = rng.choice((0.1, 0.3, 0.6, 0.9)) * (0.2 if field.name in _RARE else 1.0)
    most = rng.choice((1, 2, 2, 3))
    return Family(
        nodes=(1, 3),
        devices=(1, rng.randint(1, 6)),
        claims=(1, rng.randint(1, 3)),
        requests=(1, rng.randint(1, 3)),
        count=(1, most),
        alternatives=(1, rng.choice((2, 3, 8))),
        **chosen,
    )


MAX_STEPS = 2_000
"""Of the search on one node; it may take exponential time."""

_FEATURES = (
    "AdminAccess",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "PartitionableDevices",
    "PrioritizedList",
)


def make_scenario(family_name: str, seed: int) -> Json:
    """The scenario of a family with this seed; always the same."""
    rng = random.Random(f"{family_name} {seed}")
    family = _drawn(rng) if family_name == "drawn" else FAMILIES[family_name]
    features: Json = {name: rng.random() >= family.features_off for name in _FEATURES}
    features["ListTypeAttributes"] = family.lists > 0 and rng.random() < 0.9
    nodes, slices = make_hardware(rng, family)
    return {
        "name": f"{family_name}-{seed}",
        "maxSteps": MAX_STEPS,
        "features": features,
        "nodes": nodes,
        "slices": slices,
        "classes": make_classes(rng, family),
        "existing": make_existing(rng, family, slices),
        "claims": make_claims(rng, family, lists=features["ListTypeAttributes"]),
    }


def scenarios(count: int, seed: int, only: str = "") -> Iterator[Json]:
    """So many scenarios, the families in turn."""
    names = [name for name in FAMILIES if not only or name == only]
    for position in range(count):
        yield make_scenario(names[position % len(names)], seed * 1_000_003 + position // len(names))

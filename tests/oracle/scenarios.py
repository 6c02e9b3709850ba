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


_SHARES = Family(shared=0.7, busy=0.3, count=(1, 1), requests=(1, 3), devices=(2, 5))
_PARTITIONS = Family(counters=0.9, busy=0.15, devices=(2, 6))

FAMILIES: dict[str, Family] = {
    "plain": Family(),
    "network": Family(
        nodes=(2, 3),
        network=1.0,
        odd_node_selectors=0.6,
        per_device_nodes=0.3,
        binds_to_node=0.05,
        busy=0.05,
        count=(1, 4),
    ),
    "pools": Family(
        nodes=(2, 3), network=0.8, extra_slices=0.6, generations=0.4, incomplete=0.25, contradicting=0.2, take_all=0.2
    ),
    "generations": Family(
        nodes=(2, 3), network=1.0, extra_slices=0.3, generations=0.8, incomplete=0.1, take_all=0.4, requests=(1, 1)
    ),
    "all": Family(take_all=0.6, incomplete=0.04, contradicting=0.04, admin=0.2, shared=0.3, constraints=0.2),
    "admin": Family(admin=0.6, busy=0.5, counters=0.4, shared=0.3, taints=0.1),
    "match": Family(constraints=0.9, distinct=0.0, requests=(1, 3), devices=(2, 5)),
    "distinct": Family(constraints=0.9, distinct=1.0, requests=(1, 3), count=(1, 4), devices=(3, 6)),
    "lists": Family(lists=0.7, constraints=0.9, requests=(1, 3), count=(1, 3), devices=(2, 5)),
    "narrowing": Family(
        nodes=(1, 1),
        network=0.0,
        lists=0.9,
        constraints=1.0,
        distinct=0.1,
        requests=(1, 2),
        count=(2, 4),
        devices=(5, 9),
        busy=0.05,
        selectors=0.1,
        claims=(1, 1),
    ),
    "list-alternatives": Family(
        lists=0.7,
        constraints=0.9,
        first_available=0.8,
        take_all=0.1,
        requests=(1, 3),
        count=(1, 3),
        devices=(2, 5),
    ),
    "combinations": Family(nodes=(1, 1), devices=(3, 6), count=(2, 4), requests=(2, 3), constraints=0.6),
    "shares": _SHARES,
    "share-amounts": replace(_SHARES, odd_amounts=0.4, policies=0.8),
    "share-names": replace(_SHARES, odd_names=0.5, uncounted=0.1),
    "share-constraints": replace(_SHARES, constraints=0.5, claims=(1, 3), take_all=0.15),
    "numa-shares": replace(
        _SHARES, shared=0.9, numa=0.9, constraints=0.9, distinct=0.2, policies=0.8, requests=(2, 3), first_available=0.2
    ),
    "share-counters": replace(_SHARES, counters=0.9, uncounted=0.2, claims=(1, 3), admin=0.1),
    "first-available": Family(first_available=0.8, requests=(1, 3), claims=(1, 3), count=(1, 3), constraints=0.4),
    "partitions": _PARTITIONS,
    "partition-nodes": replace(
        _PARTITIONS, nodes=(2, 3), per_device_nodes=0.4, network=1.0, extra_slices=0.5, contradicting=0.15
    ),
    "partition-binding": replace(_PARTITIONS, binding=0.3, binds_to_node=0.2),
    "partition-names": replace(_PARTITIONS, same_pool_names=0.8, admin=0.1, claims=(1, 3)),
    "two-drivers": replace(_PARTITIONS, same_pool_names=1.0, busy=0.3, claims=(2, 3), count=(1, 3)),
    "mig": Family(mig=0.8, busy=0.08, requests=(1, 3), claims=(1, 3), count=(1, 3), first_available=0.2, network=0.1),
    "partition-all": replace(_PARTITIONS, take_all=0.4, incomplete=0.15, network=0.5, extra_slices=0.4),
    "fabric": Family(
        nodes=(2, 3),
        network=1.0,
        binding=0.7,
        binds_to_node=0.4,
        taints=0.15,
        first_available=0.3,
        extra_slices=0.4,
        generations=0.2,
    ),
    "binding": Family(binding=0.3, binds_to_node=0.2, network=0.8),
    "taints": Family(taints=0.5, take_all=0.15, first_available=0.1),
    "config": Family(config=0.9, first_available=0.4, requests=(1, 4)),
    "limits": Family(
        nodes=(1, 1),
        count=(1, 20),
        devices=(11, 17),
        extra_slices=0.5,
        first_available=0.5,
        take_all=0.1,
        busy=0.02,
        requests=(1, 2),
        claims=(1, 3),
        selectors=0.1,
    ),
    "malformed": Family(malformed=0.5, failing_selectors=0.3, first_available=0.3),
    "selectors": Family(selectors=0.9, failing_selectors=0.15, shared=0.3),
    "features": Family(
        features_off=0.25,
        shared=0.3,
        counters=0.3,
        taints=0.3,
        binding=0.2,
        admin=0.2,
        first_available=0.2,
        per_device_nodes=0.2,
    ),
    "mix": Family(
        shared=0.3,
        counters=0.3,
        same_pool_names=0.2,
        per_device_nodes=0.15,
        taints=0.15,
        binding=0.1,
        binds_to_node=0.05,
        admin=0.1,
        take_all=0.1,
        first_available=0.25,
        constraints=0.3,
        config=0.2,
        generations=0.1,
        incomplete=0.03,
        contradicting=0.03,
        claims=(1, 3),
        requests=(0, 3),
        odd_amounts=0.1,
        odd_names=0.1,
    ),
}
FAMILIES["mix-lists"] = replace(FAMILIES["mix"], lists=0.4, constraints=0.6)
FAMILIES |= {
    "eight-alternatives": Family(
        first_available=0.9,
        alternatives=(5, 8),
        requests=(1, 3),
        claims=(1, 2),
        count=(1, 4),
        take_all=0.05,
        shared=0.3,
        selectors=0.8,
        constraints=0.3,
        config=0.3,
    ),
    "list-subrequests": Family(
        lists=0.8,
        constraints=1.0,
        for_alternatives=0.7,
        first_available=0.9,
        requests=(2, 3),
        count=(1, 3),
        devices=(3, 6),
        distinct=0.4,
        busy=0.05,
        config=0.3,
    ),
    "subrequests": Family(
        constraints=1.0,
        for_alternatives=0.8,
        first_available=0.9,
        requests=(2, 3),
        count=(1, 3),
        devices=(3, 6),
        config=0.6,
    ),
    "binding-counts": Family(
        nodes=(2, 3),
        binding=0.5,
        binds_to_node=0.3,
        network=1.0,
        count=(2, 4),
        devices=(3, 6),
        extra_slices=0.5,
        per_device_nodes=0.3,
        shared=0.2,
        counters=0.3,
        take_all=0.1,
    ),
    "admin-taints": Family(
        admin=0.6, taints=0.6, busy=0.4, take_all=0.3, shared=0.3, counters=0.3, claims=(1, 3), requests=(1, 3)
    ),
    "edge-amounts": replace(_SHARES, edge_amounts=0.6, edge_policies=0.3, policies=0.6, busy=0.3),
    "edge-policies": replace(_SHARES, edge_amounts=0.3, edge_policies=0.9, policies=1.0, claims=(1, 3)),
    "edge-names": replace(_SHARES, edge_amounts=0.3, edge_policies=0.4, odd_names=0.7, take_all=0.2),
    "edge-counters": replace(
        _PARTITIONS, edge_amounts=0.7, shared=0.3, same_pool_names=0.5, claims=(1, 3), take_all=0.1
    ),
    # Each scenario has a family of its own.
    "drawn": Family(),
}

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

"""A simulated hub that packs devices, and servers that start as a hub starts them."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.preferences import with_preferences
from tests.placeholders.planner.objects import GPU, SHARE, Json, gpu_claim, gpu_slice, preferring
from tests.placeholders.planner.world import World, hub


def world_with_identifiers(**policy: Any) -> World:
    """Two nodes with two shared devices each."""
    world = hub((SHARE, 0, 10), (GPU, 0, 10), nodes="ab", gpus=2, memory="80Gi", policy=policy)
    for node in "ab":
        published = gpu_slice(node, 2, "80Gi")
        for device in published["spec"]["devices"]:
            device["attributes"] = {"uuid": {"string": f"GPU-{node}-{device['name']}"}}
        world.cluster.apply(published)
    return world


def start(world: World, name: str, spec: Json) -> None:
    """A server starts as a hub starts it: with what the service answered."""
    shape = GPU if spec == gpu_claim() else SHARE
    placement = world.placement(shape)
    preferences = placement.preferences.of_claims.get("gpu", {})
    world.user(name, {"gpu": with_preferences(spec, preferences)}, affinity=preferring(placement.node))
    world.settle()


def devices(world: World) -> list[tuple[str, str]]:
    return sorted(
        (each.id.pool, each.id.device)
        for claim in world.snapshot.claims.values()
        for each in claim.claim.status.devices or ()
    )

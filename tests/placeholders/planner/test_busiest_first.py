"""The fast search for a server's node finds the same node as the slow search."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.examples import example_count
from tests.placeholders.planner.chaos import Chaos
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim
from tests.placeholders.planner.world import World, hub


def by_looking_everywhere(world: World, shape: Shape) -> str:
    """The busiest of all nodes where a server fits, computed without any cache."""
    view = world.view(ClusterIndex())
    pod, templates = simulated_user(shape, NAMESPACE)
    with view.snapshot.trial():
        for template in templates:
            view.snapshot.put(template)
        fitting = view.snapshot.fits(pod).fitting
        open_nodes = [name for name in fitting if not is_labelled(view.snapshot.nodes[name], names.DRAINING)]
        busyness = NodesBusyness(view)
        return max(open_nodes or fitting, key=lambda name: (busyness.of(name).rank, name), default="")


SEEDS = 6


@pytest.mark.promise("Servers go to the busiest node where they fit.")
@pytest.mark.parametrize("seed", range(example_count(SEEDS)))
def test_a_server_is_sent_to_the_busiest_node_where_it_fits(seed: int) -> None:
    """After each random step of a quarter of an hour. A cached busyness equals a fresh one."""
    chaos, found, figures = Chaos(200 + seed), 0, set[object]()
    world = chaos.world
    while world.now - chaos.begun < timedelta(minutes=15):
        chaos.step()
        for shape in world.policy.shapes.values():
            placement = world.placement(shape)
            if placement.state is not AvailabilityState.READY:
                expected = by_looking_everywhere(world, shape)
                assert (placement.node if placement.state is AvailabilityState.FREE else "") == expected
                found += bool(expected)
        known, fresh = NodesBusyness(world.view()), NodesBusyness(world.view(ClusterIndex()))
        for name in world.snapshot.nodes:
            assert known.of(name) == fresh.of(name)
            figures.add(known.of(name).figure)
    assert found > 9
    assert len(figures) > 3


def test_busyness_follows_claims_and_slices_though_no_pod_changes() -> None:
    world = hub((GPU, 0, 1), nodes="a", gpus=2)
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()

    def figure() -> Fraction | None:
        found = NodesBusyness(world.view()).of("a")
        assert found == NodesBusyness(world.view(ClusterIndex())).of("a")
        return found.figure

    assert figure() == Fraction(1, 2)
    (item,) = world.snapshot.slices.values()
    world.snapshot.put(replace(item, devices=item.devices[:1]))
    assert figure() == Fraction(1)
    (claim,) = world.snapshot.claims.values()
    world.snapshot.remove_claim(claim.key)
    assert figure() == Fraction(1, 10), "of the CPU"

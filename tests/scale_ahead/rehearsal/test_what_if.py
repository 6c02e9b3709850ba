"""Loss of nodes: servers are started again on free capacity, and on nodes whose placeholders are preempted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply, supplies_of_known_kinds
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNodes
from dra_spawner.scale_ahead.rehearsal.what_if import ImpossibleChange, Simulation, WhatIf, simulate
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, SHARE, gpu_claim, preferring, share_claim
from tests.placeholders.planner.packed_world import devices, start, world_with_identifiers
from tests.placeholders.planner.world import World
from tests.scale_ahead.rehearsal.questions import hub


def lost(world: World, *nodes: str, users: int = 0) -> Simulation:
    question = WhatIf("gpu", GPU, users, lost=frozenset(nodes))
    shapes = {each.id: each for each in (PLAIN, GPU, SHARE)}
    view, budget = world.view(), SearchBudget(100_000)
    with world.snapshot.trial():
        return simulate(world.snapshot, view.now, Namespaces(), NAMESPACE, shapes, question, budget)


def test_a_node_of_a_kind_that_no_node_has_now() -> None:
    world = hub("a", labels={names.IMAGES_READY: names.TRUE})
    seen = SeenNodes(names.INSTANCE_TYPE)
    seen.look(world.view())
    world.remove_node("a")
    supplies = supplies_of_known_kinds(world.view(), names.INSTANCE_TYPE, timedelta(), past=seen.found(world.now))

    def asked(**kinds: int) -> Simulation:
        view, question = world.view(), WhatIf("gpu", GPU, 5, added_of_kind=kinds)
        with world.snapshot.trial():
            budget, shapes = SearchBudget(100_000), {GPU.id: GPU}
            return simulate(world.snapshot, view.now, Namespaces(), NAMESPACE, shapes, question, budget, supplies)

    assert asked().starting == 0
    assert asked(g2=2).starting == 4
    with pytest.raises(ImpossibleChange, match=r"^no node of the kind g3 is present or remembered$"):
        asked(g3=1)


def test_servers_of_a_lost_node_use_free_capacity_first_and_then_placeholders() -> None:
    world = hub("a")
    for user in ("ada", "bob"):
        world.user(user, {"gpu": gpu_claim()}, requires_ready=False)
    world.schedule()
    world.node("b", gpus=2, memory="40Gi")
    world.create_placeholder(GPU)
    world.schedule()
    (placeholder,) = world.view().placeholders.values()
    assert placeholder.node == "b"
    found = lost(world, "a")
    assert (found.lost_servers, found.on_free_capacity, found.after_preemption) == (2, 1, 1)
    assert found.sentence == ("2 of 2 servers on lost nodes fit elsewhere, 1 of them in the place of placeholders.")
    assert lost(world, "a", users=1).starting == 0, "their placeholder is gone"
    found = lost(world, "b", users=1)
    assert (found.lost_servers, found.moved_servers, found.starting) == (0, 0, 0)
    assert len(world.view().placeholders) == 1, "the cluster itself is as before"


def test_servers_that_fit_nowhere_else_are_told_with_the_cause() -> None:
    world = hub("a")
    for user in ("ada", "bob"):
        world.user(user, {"gpu": gpu_claim()}, requires_ready=False)
    world.schedule()
    assert lost(world, "a").stranded[0].servers == 2, "no node is left"
    world.node("b", gpus=1, memory="40Gi")
    (stranded,) = lost(world, "a").stranded
    assert (stranded.shape, stranded.servers) == (GPU.id, 1)
    assert stranded.because == "memory: 0 left, 40Gi needed"


def test_a_node_of_a_kind_is_like_the_fullest_of_its_nodes() -> None:
    """Whichever of them sorts first."""
    for small in ("a", "c"):
        world = hub("b")
        world.node(small, gpus=1, memory="40Gi")
        supplies = supplies_of_known_kinds(world.view(), names.INSTANCE_TYPE, timedelta())

        def asked(world: World, given: tuple[NodeSupply, ...], kind: str) -> Simulation:
            view, question = world.view(), WhatIf("gpu", GPU, 9, added_of_kind={kind: 2})
            with world.snapshot.trial():
                budget, shapes = SearchBudget(100_000), {GPU.id: GPU}
                return simulate(world.snapshot, view.now, Namespaces(), NAMESPACE, shapes, question, budget, given)

        found = asked(world, supplies, "g2")
        assert found.starting == 3 + 2 * 2
        assert "differ" not in found.sentence, "one GPU is missing there"
        world.node("d", gpus=2, memory="40Gi", cpu="4")
        found = asked(world, supplies_of_known_kinds(world.view(), names.INSTANCE_TYPE, timedelta()), "g2")
        assert found.sentence.endswith("Nodes of g2 differ; the added ones are like b.")


def test_a_cluster_that_packs_is_simulated_so() -> None:
    """A share that moves goes to the GPU in use, so that a whole one is left for the next user."""
    found = {}
    for packs in (False, True):
        world = world_with_identifiers(packs_devices=True)
        start(world, "whole", gpu_claim())
        start(world, "first", share_claim("10Gi"))
        world.leave("whole")
        world.settle()
        ((node, device),) = devices(world)
        assert device == "gpu-1", "kube-scheduler would try gpu-0 first"
        (other,) = {"a", "b"} - {node}
        world.user("second", {"gpu": share_claim("10Gi")}, affinity=preferring(other))
        world.settle()
        question = WhatIf("gpu", GPU, 2, lost=frozenset(other))
        shapes, view = {each.id: each for each in (GPU, SHARE)}, world.view()
        with world.snapshot.trial():
            budget, arguments = SearchBudget(100_000), (Namespaces(), NAMESPACE, shapes, question)
            simulated = simulate(world.snapshot, view.now, *arguments, budget, packs_devices=packs)
        assert (simulated.lost_servers, simulated.moved_servers) == (1, 1)
        found[packs] = simulated.starting
    assert found == {False: 0, True: 1}

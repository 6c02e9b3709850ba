"""Rehearsals on a simulated cluster: questions, and checks of each answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply, supplies_of_known_kinds
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, SHARE
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World

LEAD = timedelta(minutes=10)
IN_AN_HOUR = START + timedelta(hours=1)
#: Words that only an administrator of Kubernetes knows.
KUBERNETES_WORDS = ("pod", "claim", "placeholder", "quota", "namespace", "resource", "class", "shape")


def hub(*nodes: str, gpus: int = 2, **more: Any) -> World:
    """Nodes that run eight servers with a share each."""
    world = World(Policy(shapes={each.id: each for each in (PLAIN, GPU, SHARE)}))
    for name in nodes:
        world.node(name, gpus=gpus, memory="40Gi", **more)
    return world


def expect(users: int, shape: Shape = SHARE, **more: Any) -> ExpectedUsers:
    return ExpectedUsers("gpu-slice", shape, users, **{"begins": IN_AN_HOUR, **more})


def supplies(world: World, **more: Any) -> tuple[NodeSupply, ...]:
    return tuple(replace(each, **more) for each in supplies_of_known_kinds(world.view(), names.INSTANCE_TYPE, LEAD))


def answer(world: World, expected: ExpectedUsers, given: Iterable[NodeSupply] | None = None, **more: Any) -> Rehearsal:
    found = rehearse(
        expected,
        world.view(),
        NAMESPACE,
        tuple(given) if given is not None else supplies(world),
        RehearsalSettings(**more),
    )
    for sentence in (found.verdict, *(each.plain for each in found.problems)):
        assert not [word for word in (*KUBERNETES_WORDS, expected.profile) if word in sentence.lower()], sentence
    assert found.is_possible == found.verdict.startswith("Yes")
    begin = {"yes": "Yes", "only-if": "Only if", "no": "No:", "not-known": "Not known"}[found.verdict_kind]
    assert found.verdict.startswith(begin)
    assert found.is_possible == (not any(each.blocks for each in found.problems))
    return found


def codes(found: Rehearsal) -> list[ProblemCode]:
    return [each.code for each in found.problems if each.blocks]

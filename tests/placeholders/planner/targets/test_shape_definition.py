"""A shape as text: the same shape is read back, and invalid definitions are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dra_spawner.placeholders.planner.targets.shape_definition import (
    MAX_BYTES,
    DefinitionError,
    read_definition,
)
from dra_spawner.placeholders.planner.targets.shapes import definition_of, shape_id
from tests.placeholders.planner.objects import GPU, PLAIN, SHARE, gpu_claim, user_shape

SHAPES = {
    "plain": PLAIN,
    "gpu": GPU,
    "share": SHARE,
    "parameters": user_shape(
        {
            "gpu": {
                "devices": {
                    **gpu_claim()["devices"],
                    "config": [{"opaque": {"driver": "d", "parameters": {"ratio": 0.5, "deep": [{"x": None}]}}}],
                }
            }
        }
    ),
    "nodes": user_shape(
        {"gpu": gpu_claim()},
        nodeSelector={"pool": "a"},
        tolerations=[{"key": "b", "operator": "Exists"}, {"key": "a", "value": "é"}],
        runtimeClassName="kata",
    ),
}


def test_the_same_comes_back() -> None:
    for name, shape in SHAPES.items():
        found = read_definition(definition_of(shape), shape.id)
        assert (found.id, definition_of(found)) == (shape.id, definition_of(shape)), name
        # Administrators decide which images nodes need: a user's choice of an image makes no node less ready.
        assert found.images == frozenset()


def changed(**parts: Any) -> tuple[str, str]:
    """A definition with its correct id, valid or not."""
    value = {**json.loads(definition_of(GPU)), **parts}
    return json.dumps(value), shape_id(value["claims"], value["containers"], value["node_fields"])


def deep(levels: int) -> str:
    """A definition with a number of nested lists, at a path where any value is allowed."""
    opaque = {"driver": "d", "parameters": {"x": "@"}}
    spec = {"devices": {**gpu_claim()["devices"], "config": [{"opaque": opaque}]}}
    text = json.dumps({**json.loads(definition_of(GPU)), "claims": {"gpu": spec}})
    return text.replace('"@"', "[" * levels + "]" * levels)


def test_deep_definitions_are_refused_at_any_depth() -> None:
    """Some depths can be read but not written."""
    for levels in range(400, 1100):
        with pytest.raises(DefinitionError):
            read_definition(deep(levels), GPU.id)


def refusal(text: str, expected: str) -> str:
    try:
        read_definition(text, expected)
    except DefinitionError as error:
        return str(error)
    return ""


PARTS = "it is not an object with claims, containers, node_fields"
REFUSED = (
    (definition_of(GPU), PLAIN.id, f"it is of shape {GPU.id}, not of {PLAIN.id}"),
    ("{", GPU.id, "it is not JSON"),
    ("[" * 20_000, GPU.id, "it is not JSON"),
    *((deep(levels), GPU.id, "it has more than 64 levels") for levels in (60, 500)),
    ("[]", GPU.id, PARTS),
    ('{"claims": {}}', GPU.id, PARTS),
    (*changed(claims=["gpu"]), "claims: allowed: at most 32 specs of claims by name"),
    (*changed(claims={str(number): {} for number in range(33)}), "claims: allowed: at most 32"),
    (*changed(containers=[]), "containers: allowed: a list of 1 to 64"),
    (*changed(containers=[{"requests": {}, "image": "evil"}]), "containers: allowed: claims,"),
    (*changed(containers=[{"requests": {"cpu": "x"}}]), "containers: allowed: "),
    (*changed(containers=[{"requests": {"cpu": "-1"}}]), "containers: allowed: "),
    (*changed(node_fields={"hostNetwork": True}), "node_fields: allowed: affinity, nodeSelector,"),
    (*changed(node_fields={"affinity": {"nodeAffinity": 3}}), "no pod can be built of it"),
    (*changed(claims={"gpu": {"devices": {"requests": 3}}}), "no pod can be built"),
    (*changed(node_fields={"nodeSelector": {"pool": "x" * MAX_BYTES}}), "more than 32768 bytes"),
)


def test_invalid_definitions_are_refused() -> None:
    found = [(text[:200], problem, refusal(text, expected)) for text, expected, problem in REFUSED]
    assert [each for each in found if each[1] not in each[2]] == []

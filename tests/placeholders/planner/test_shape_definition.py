"""A shape as text: the same shape is read back, and invalid definitions are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dra_spawner.placeholders.planner.shape_definition import (
    MAX_BYTES,
    DefinitionError,
    definition_of,
    read_definition,
)
from dra_spawner.placeholders.planner.shapes import Shape, shape_id
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


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_same_comes_back(shape: Shape) -> None:
    found = read_definition(definition_of(shape), shape.id)
    assert found.id == shape.id
    assert definition_of(found) == definition_of(shape)
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


@pytest.mark.parametrize(
    ("text", "expected", "problem"),
    [
        pytest.param(definition_of(GPU), PLAIN.id, f"it is of shape {GPU.id}, not of {PLAIN.id}", id="another"),
        pytest.param("{", GPU.id, "it is not JSON", id="no-json"),
        pytest.param("[" * 20_000, GPU.id, "it is not JSON", id="deep"),
        *(
            pytest.param(deep(levels), GPU.id, "it has more than 64 levels", id=f"{levels}-levels")
            for levels in (60, 500)
        ),
        pytest.param("[]", GPU.id, "it is not an object with claims, containers, node_fields", id="a-list"),
        pytest.param('{"claims": {}}', GPU.id, "it is not an object with claims, containers, node_fields", id="a-part"),
        pytest.param(*changed(claims=["gpu"]), "claims: allowed: at most 32 specs of claims by name", id="claims"),
        pytest.param(
            *changed(claims={str(number): {} for number in range(33)}), "claims: allowed: at most 32", id="many-claims"
        ),
        pytest.param(*changed(containers=[]), "containers: allowed: a list of 1 to 64", id="no-container"),
        pytest.param(
            *changed(containers=[{"requests": {}, "image": "evil"}]), "containers: allowed: claims,", id="an-image"
        ),
        pytest.param(*changed(containers=[{"requests": {"cpu": "x"}}]), "containers: allowed: ", id="no-quantity"),
        pytest.param(*changed(containers=[{"requests": {"cpu": "-1"}}]), "containers: allowed: ", id="negative"),
        pytest.param(
            *changed(node_fields={"hostNetwork": True}), "node_fields: allowed: affinity, nodeSelector,", id="a-field"
        ),
        pytest.param(
            *changed(node_fields={"affinity": {"nodeAffinity": 3}}), "no pod can be built of it", id="wrong-affinity"
        ),
        pytest.param(*changed(claims={"gpu": {"devices": {"requests": 3}}}), "no pod can be built", id="wrong-claim"),
        pytest.param(
            *changed(node_fields={"nodeSelector": {"pool": "x" * MAX_BYTES}}), "more than 32768 bytes", id="too-large"
        ),
    ],
)
def test_invalid_definitions_are_refused(text: str, expected: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        read_definition(text, expected)
    assert problem in str(refused.value)

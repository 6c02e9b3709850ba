"""Opaque parameters as each driver decodes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.drivers import known_driver, known_drivers
from dra_spawner.profiles.drivers.parameters import Fields, Listed, Mapped, Shape
from tests.all_of_them import all_of_them
from tests.profiles.drivers.parameter_cases import ACCEPTED, NV, REFUSED, Json, nvidia


def problems(driver: str, parameters: Json) -> list[tuple[str, str, str]]:
    known = known_driver(driver)
    assert known is not None
    return [(each.path, each.found, each.allowed) for each in known.problems_of_parameters(parameters, "")]


@all_of_them("driver, parameters", ACCEPTED)
def test_accepted(driver: str, parameters: Json):
    assert problems(driver, parameters) == []


@all_of_them("driver, parameters, path, value, words", REFUSED)
def test_refused(driver: str, parameters: Json, path: str, value: str, words: str):
    ((where, value_found, allowed),) = problems(driver, parameters)
    assert (where, value_found.strip("'")) == (path, value.strip("'"))
    assert words in allowed


def test_every_problem_is_reported():
    parameters = nvidia(
        sharing={"strategy": "x", "mpsConfig": {"multiUser": 1, "defaultActiveThreadPercentage": -1}}, a=1
    )
    assert [path for path, _, _ in problems(NV, parameters)] == [
        ".sharing.strategy",
        ".sharing.mpsConfig.multiUser",
        ".sharing.mpsConfig.defaultActiveThreadPercentage",
        ".a",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """JSON that looks like a shape, and is wrong here and there."""
    if isinstance(shape, Fields):
        fields = {
            name: values(each if not hasattr(each, "shape") else each.shape) for name, each in shape.fields.items()
        }
        return st.fixed_dictionaries({}, optional=fields) | JSON
    if isinstance(shape, Listed):
        return st.lists(values(shape.of), max_size=2) | JSON
    if isinstance(shape, Mapped):
        return st.dictionaries(st.text(max_size=3), values(shape.values), max_size=2) | JSON
    enumerated = shape.schema.get("enum") if hasattr(shape, "schema") else None
    return JSON | (st.sampled_from(enumerated) if enumerated else st.integers(0, 300))


@all_of_them(
    "driver, kind",
    [
        pytest.param(driver, kind, id=f"{driver.name} {kind.kind}")
        for driver in known_drivers()
        for kind in driver.parameter_kinds
    ],
)
def test_each_problem_of_any_parameters_has_a_path(driver, kind):
    @given(values(kind.shape), st.text(min_size=1, max_size=5))
    def check(parameters: Any, stranger: str) -> None:
        if not isinstance(parameters, dict):
            parameters = {}
        own = {"apiVersion": kind.api_version, "kind": kind.kind} if kind.kind else {}
        found = list(driver.problems_of_parameters({**parameters, **own}, "here"))
        assert all(problem.path.startswith("here") and problem.allowed for problem in found)
        if stranger not in kind.shape.fields and stranger not in own and not kind.shape.open:
            more = list(driver.problems_of_parameters({**parameters, **own, stranger: 1}, "here"))
            assert f"here.{stranger}" in [problem.path for problem in more]

    check()

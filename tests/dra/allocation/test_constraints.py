"""matchAttribute and distinctAttribute, with and without lists, and their state after undoing."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.allocation.constraints import Constraint, find_attribute, make_constraint
from dra_spawner.dra.model.objects import Device, DeviceConstraint
from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, make_device, with_features

NAME = "example.com/a"
ABSENT = object()
MATCH, DISTINCT = DeviceConstraint(match_attribute=NAME), DeviceConstraint(distinct_attribute=NAME)


def make(constraint: DeviceConstraint, *, lists: bool = False, rules: SchedulerRules = RULES[1, 36]) -> Constraint:
    made = make_constraint(constraint, with_features(rules, list_type_attributes=lists))
    assert made is not None
    return made


def with_value(value: Any) -> Device:
    return make_device(attributes={} if value is ABSENT else {NAME: value})


def accepts(constraint: Constraint, *values: Any, request: str = "r") -> list[bool]:
    return [constraint.add(request, "", with_value(value)) for value in values]


@all_of_them(
    "values, match, distinct",
    {
        "equal": (["x", "x"], [True, True], [True, False]),
        "different": (["x", "y"], [True, False], [True, True]),
        "int-and-bool": ([1, True], [True, False], [True, True]),
        "string-and-int": (["1", 1], [True, False], [True, True]),
        "version": ([{"version": "1.0.0"}, {"version": "1.0.0"}], [True, True], [True, False]),
        "build": ([{"version": "1.0.0"}, {"version": "1.0.0+b"}], [True, False], [True, True]),
        "version-and-string": ([{"version": "1.0.0"}, "1.0.0"], [True, False], [True, True]),
        "absent": ([ABSENT, "x"], [False, True], [False, True]),
        "lists-are-unknown-but-first-passes": ([["x"], ["x"]], [True, False], [True, False]),
        "unknown-first": ([{}, "x"], [True, False], [True, True]),
    },
)
def test_scalars(values: list[Any], match: list[bool], distinct: list[bool]) -> None:
    assert accepts(make(MATCH), *values) == match
    assert accepts(make(DISTINCT), *values) == distinct


@pytest.mark.parametrize(
    ("values", "match", "distinct"),
    [
        pytest.param(["x", "x"], [True, True], [True, False], id="scalars-equal"),
        pytest.param([["x", "y"], ["y", "z"]], [True, True], [True, False], id="overlap"),
        pytest.param([["x"], ["y"]], [True, False], [True, True], id="disjoint"),
        pytest.param([["x", "y"], "y"], [True, True], [True, False], id="list-and-scalar"),
        pytest.param([["1"], {"ints": [1]}], [True, False], [True, True], id="types"),
        pytest.param([{"bools": [True]}, {"ints": [1]}], [True, False], [True, True], id="bool-and-int"),
        pytest.param([{}, "x"], [False, True], [True, True], id="unknown-first"),
        pytest.param(["x", {}], [True, False], [True, False], id="unknown-second"),
    ],
)
def test_lists(values: list[Any], match: list[bool], distinct: list[bool]) -> None:
    assert accepts(make(MATCH, lists=True), *values) == match
    assert accepts(make(DISTINCT, lists=True), *values) == distinct


def test_match_narrows() -> None:
    constraint = make(MATCH, lists=True)
    assert accepts(constraint, ["x", "y"], ["x"], ["y"]) == [True, True, False]


@pytest.mark.parametrize(
    ("rules", "passes"), [pytest.param(RULES[1, 36], False, id="1.36"), pytest.param(RULES[1, 37], True, id="1.37")]
)
def test_match_narrowed_by_a_device_given_up(rules: SchedulerRules, passes: bool) -> None:
    constraint = make(MATCH, lists=True, rules=rules)
    accepts(constraint, ["x", "y"], ["x"])
    constraint.remove("r", "", with_value(["x"]))
    assert accepts(constraint, ["y"]) == [passes]


def test_match_forgets_when_the_last_device_is_gone() -> None:
    for lists in (False, True):
        constraint = make(MATCH, lists=lists)
        accepts(constraint, "x")
        constraint.remove("r", "", with_value("x"))
        assert accepts(constraint, "y") == [True]


@pytest.mark.parametrize(
    ("rules", "passes"), [pytest.param(RULES[1, 36], True, id="1.36"), pytest.param(RULES[1, 37], False, id="1.37")]
)
def test_distinct_remembers_one_device_of_a_request(rules: SchedulerRules, passes: bool) -> None:
    assert accepts(make(DISTINCT, rules=rules), "x", "y", "x") == [True, True, passes]


@pytest.mark.parametrize(
    ("rules", "passes"), [pytest.param(RULES[1, 36], True, id="1.36"), pytest.param(RULES[1, 37], False, id="1.37")]
)
def test_distinct_forgets_a_request_at_once(rules: SchedulerRules, passes: bool) -> None:
    constraint = make(DISTINCT, rules=rules)
    accepts(constraint, "x", "y")
    constraint.remove("r", "", with_value("y"))
    assert accepts(constraint, "x") == [passes]


def test_distinct_remembers_every_request() -> None:
    constraint = make(DISTINCT)
    assert accepts(constraint, "x", request="r") == [True]
    assert accepts(constraint, "y", request="s") == [True]
    assert accepts(constraint, "x", "y", "z", request="t") == [False, False, True]


@all_of_them(
    "requests, request_name, alternative, concerned",
    {
        "all": ((), "r", "", True),
        "request": (("r",), "r", "", True),
        "other-request": (("s",), "r", "", False),
        "every-alternative": (("r",), "r", "sub", True),
        "alternative": (("r/sub",), "r", "sub", True),
        "other-alternative": (("r/sub",), "r", "other", False),
        "alternative-of-none": (("r/sub",), "r", "", False),
    },
)
def test_which_requests(requests: tuple[str, ...], request_name: str, alternative: str, concerned: bool) -> None:
    for kind in ("match", "distinct"):
        constraint = make(DeviceConstraint(requests, **{f"{kind}_attribute": NAME}))
        device = with_value(ABSENT)
        assert constraint.add(request_name, alternative, device) is not concerned, kind
        if not concerned:
            constraint.remove(request_name, alternative, device)
            assert constraint.add("s", "", with_value("x")), kind


def test_match_wins_over_distinct() -> None:
    both = make(DeviceConstraint(match_attribute=NAME, distinct_attribute=NAME))
    assert accepts(both, "x", "x") == [True, True]


def test_neither() -> None:
    assert make_constraint(DeviceConstraint(), RULES[1, 36]) is None


@pytest.mark.parametrize(
    ("published", "asked", "found"),
    [
        pytest.param(f"{DRIVER}/a", f"{DRIVER}/a", True, id="qualified"),
        pytest.param("a", f"{DRIVER}/a", True, id="short"),
        pytest.param("a", "other.example.com/a", False, id="other-domain"),
        pytest.param(f"{DRIVER}/a", "a", False, id="asked-without-domain"),
        pytest.param("a", "a", True, id="exact"),
    ],
)
def test_find_attribute(published: str, asked: str, found: bool) -> None:
    assert (find_attribute(make_device(attributes={published: "x"}), asked) is not None) is found

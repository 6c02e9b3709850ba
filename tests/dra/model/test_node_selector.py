"""Node selectors: matching, and selectors that Kubernetes refuses to parse."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.model.node_selector import (
    NodeSelector,
    NodeSelectorError,
    NodeSelectorTerm,
    Requirement,
    add_missing,
    node_name_selector,
)
from tests.all_of_them import all_of_them

LABELS = {"tier": "a", "rank": "7", "word": "many"}


def selector(*requirements: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm(requirements, fields),))


@all_of_them(
    "key, operator, values, matches",
    {
        "in": ("tier", "In", ("b", "a"), True),
        "in-other": ("tier", "In", ("b",), False),
        "in-missing": ("none", "In", ("a",), False),
        "not-in": ("tier", "NotIn", ("a",), False),
        "not-in-missing": ("none", "NotIn", ("a",), True),
        "exists": ("tier", "Exists", (), True),
        "exists-missing": ("none", "Exists", (), False),
        "does-not-exist": ("tier", "DoesNotExist", (), False),
        "does-not-exist-missing": ("none", "DoesNotExist", (), True),
        "gt": ("rank", "Gt", ("6",), True),
        "gt-equal": ("rank", "Gt", ("7",), False),
        "lt": ("rank", "Lt", ("8",), True),
        "gt-no-number": ("word", "Gt", ("1",), False),
        "lt-missing": ("none", "Lt", ("1",), False),
    },
)
def test_labels(key: str, operator: str, values: tuple[str, ...], matches: bool) -> None:
    assert selector(Requirement(key, operator, values)).matches("n1", LABELS) is matches


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        pytest.param(Requirement("metadata.name", "In", ("n1",)), True, id="in"),
        pytest.param(Requirement("metadata.name", "In", ("n2",)), False, id="in-other"),
        pytest.param(Requirement("metadata.name", "NotIn", ("n1",)), False, id="not-in"),
        pytest.param(Requirement("spec.unschedulable", "In", ("",)), True, id="other-field-is-empty"),
        pytest.param(Requirement("spec.unschedulable", "In", ("true",)), False, id="other-field"),
    ],
)
def test_fields(requirement: Requirement, matches: bool) -> None:
    assert selector(fields=(requirement,)).matches("n1", LABELS) is matches


def test_terms_are_ored_and_requirements_anded() -> None:
    yes, no = Requirement("tier", "Exists"), Requirement("none", "Exists")
    assert NodeSelector((NodeSelectorTerm((no,)), NodeSelectorTerm((yes,)))).matches("n1", LABELS)
    assert not selector(yes, no).matches("n1", LABELS)
    assert not selector(yes, fields=(Requirement("metadata.name", "In", ("n2",)),)).matches("n1", LABELS)


@pytest.mark.parametrize("terms", [(), (NodeSelectorTerm(),)], ids=["no-terms", "empty-term"])
def test_nothing_selects_nothing(terms: Any) -> None:
    assert not NodeSelector(terms).matches("n1", LABELS)


@all_of_them(
    "requirement",
    {
        "operator": Requirement("tier", "Like", ("a",)),
        "in-without-values": Requirement("tier", "In"),
        "exists-with-values": Requirement("tier", "Exists", ("a",)),
        "gt-text": Requirement("tier", "Gt", ("x",)),
        "gt-two": Requirement("tier", "Gt", ("1", "2")),
        "gt-too-large": Requirement("tier", "Gt", (str(2**63),)),
        "key": Requirement("-tier", "Exists"),
        "domain": Requirement("UPPER.example.com/tier", "Exists"),
        "two-slashes": Requirement("a/b/c", "Exists"),
        "long-key": Requirement("t" * 64, "Exists"),
        "value": Requirement("tier", "In", ("a b",)),
        "long-value": Requirement("tier", "In", ("a" * 64,)),
    },
)
def test_malformed(requirement: Requirement) -> None:
    # A term that matches does not help: all of them are parsed first.
    both = NodeSelector((NodeSelectorTerm((Requirement("tier", "Exists"),)), NodeSelectorTerm((requirement,))))
    with pytest.raises(NodeSelectorError):
        both.matches("n1", LABELS)


@pytest.mark.parametrize(
    "requirement",
    [
        pytest.param(Requirement("metadata.name", "Exists"), id="operator"),
        pytest.param(Requirement("metadata.name", "In", ("a", "b")), id="two-values"),
    ],
)
def test_malformed_fields(requirement: Requirement) -> None:
    with pytest.raises(NodeSelectorError):
        selector(fields=(requirement,)).matches("n1", LABELS)


def test_equal_requirements_are_added_once() -> None:
    requirements = [Requirement("tier", "In", ("a", "b"))]
    add_missing(requirements, [Requirement("tier", "In", ("b", "a")), Requirement("tier", "In", ("a",))])
    assert requirements == [Requirement("tier", "In", ("a", "b")), Requirement("tier", "In", ("a",))]


def test_json() -> None:
    assert node_name_selector("n1").to_json() == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }

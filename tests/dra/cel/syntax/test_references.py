"""Which attributes an expression reads."""

from __future__ import annotations

import pytest

from dra_spawner.dra.cel.errors import CelCompileError
from dra_spawner.dra.cel.syntax.references import Collection, Reference, referenced_attributes
from tests.all_of_them import all_of_them

G = 'device.attributes["d"]'


def attribute(name: str, guarded: bool, domain: str | None = "d") -> Reference:
    return Reference(Collection.ATTRIBUTES, domain, name, guarded)


CASES = [
    ("true", []),
    ('device.driver == "d"', []),
    (f'{G}.a == "x"', [attribute("a", False)]),
    (f'{G}["a"] == "x"', [attribute("a", False)]),
    (f"has({G}.a)", []),
    (f'"a" in {G}', []),
    (f"has({G}.a) && {G}.a > 1", [attribute("a", True)]),
    (f"{G}.a > 1 && has({G}.a)", [attribute("a", True)]),
    (f'"a" in {G} && {G}.a > 1', [attribute("a", True)]),
    (f"has({G}.a) && has({G}.b) && {G}.a > {G}.b", [attribute("a", True), attribute("b", True)]),
    (f"has({G}.a) || {G}.a > 1", [attribute("a", False)]),
    (f"!has({G}.a) || {G}.a > 1", [attribute("a", True)]),
    (f"!(has({G}.a) && true) || {G}.a > 1", [attribute("a", True)]),
    (f"!(!has({G}.a) || !has({G}.b)) && {G}.a > {G}.b", [attribute("a", True), attribute("b", True)]),
    (f"has({G}.a) ? {G}.a > 1 : false", [attribute("a", True)]),
    (f"has({G}.a) ? true : {G}.a > 1", [attribute("a", False)]),
    (f"!has({G}.a) ? false : {G}.a > 1", [attribute("a", True)]),
    (f"has({G}.b) && {G}.a > 1", [attribute("a", False)]),
    (f"(has({G}.a) && {G}.a > 1) || {G}.a > 2", [attribute("a", False)]),
    (f"{G}.?a.orValue(1) > 1", [attribute("a", True)]),
    (f'{G}[?"a"].orValue(1) > 1', [attribute("a", True)]),
    (f"cel.bind(g, {G}, has(g.a) && g.a > 1)", [attribute("a", True)]),
    (f"cel.bind(g, {G}, g.a > 1)", [attribute("a", False)]),
    (f"cel.bind(g, {G}, [1].exists(g, g.a > 1))", []),
    (f"cel.bind(t, {G}.a, has({G}.a) && t > 1)", [attribute("a", False)]),
    ("device.attributes[device.driver].a > 1", [attribute("a", False, domain=None)]),
    (
        'device.capacity["d"].memory.compareTo(quantity("1Gi")) > 0',
        [Reference(Collection.CAPACITY, "d", "memory", False)],
    ),
    (f"[1, 2].exists(x, {G}.a == x)", [attribute("a", False)]),
    (f'{G}.exists(k, k == "a")', []),
    (f"{G}.?a.optMap(x, x + {G}.b).orValue(0) > 1", [attribute("a", True), attribute("b", False)]),
    ('cel.bind(device, {"attributes": {"d": {"a": 1}}}, device.attributes["d"].a == 1)', []),
]


@all_of_them("expression, references", CASES)
def test_references(expression: str, references: list[Reference]):
    assert list(referenced_attributes(expression)) == references


def test_expressions_that_cannot_be_parsed_are_refused():
    with pytest.raises(CelCompileError):
        referenced_attributes("device.")

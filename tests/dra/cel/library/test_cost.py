"""Verdicts, estimated costs and actual costs of the same random selectors, here and in Kubernetes' own code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.dra.cel import (
    CelBudgetExceeded,
    CelCompileError,
    CelRuntimeError,
    CelTooComplexError,
    CelUnsupportedError,
    compile_selector,
)
from dra_spawner.dra.cel.checker import check
from dra_spawner.dra.cel.estimation.estimate import estimate_cost
from dra_spawner.dra.cel.evaluation.budget import MAX_STEPS
from dra_spawner.dra.cel.evaluation.compiler import compile_checked
from dra_spawner.dra.cel.syntax.parser import parse
from tests.all_of_them import all_of_them
from tests.dra.cel.expensive_selectors import ExpensiveSelectors
from tests.dra.cel.kubernetes_costs import DEVICE, EXCUSES, RELEASE, expensive_selectors, kubernetes, recorded_answers
from tests.dra.cel.random_selectors import RandomSelectors
from tests.oracle.binary import binary_or_skip


def outcome(expression: str) -> str:
    """The verdict here, in the oracle's words."""
    try:
        matches = compile_selector(expression).matches(DEVICE)
    except CelUnsupportedError:
        return "unsupported"
    except CelTooComplexError:
        return "too complex"
    except CelCompileError:
        return "invalid"
    except CelBudgetExceeded:
        return "budget"
    except CelRuntimeError:
        return "error"
    return "match" if matches else "no match"


def actual_cost(expression: str) -> int:
    """Cost of the evaluation where everything is counted."""
    program = compile_checked(check(parse(expression), expression), always_metered=True)
    local = [0] * program.local_count
    program.closure(DEVICE, local)
    return int(local[0])


def compare(expressions: list[str], answers: list[dict[str, Any]]) -> Counter[str]:
    """Outcomes by how often they occurred, all of them the same here and there."""
    outcomes: Counter[str] = Counter()
    for expression, answer in zip(expressions, answers, strict=True):
        found, expected = outcome(expression), answer["outcome"]
        outcomes[found] += 1
        problem = answer.get("error", "")
        if found == "unsupported" or any(each in problem for each in EXCUSES):
            continue
        if expected != "invalid":
            assert estimate_cost(check(parse(expression), expression)) == answer["estimate"], expression
        if found == "budget":
            assert expected in ("match", "no match", "error"), expression
            continue
        assert found == expected, expression
        if found in ("match", "no match"):
            assert actual_cost(expression) == answer["cost"] <= MAX_STEPS, expression
    return outcomes


def test_expensive_selectors() -> None:
    outcomes = compare(expensive_selectors(), recorded_answers())
    assert min(outcomes["match"], outcomes["no match"], outcomes["too complex"]) > 20, outcomes
    assert outcomes["budget"] < 10, outcomes


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 4))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_any_expensive_selectors(seed: int, depth: int) -> None:
    selectors = ExpensiveSelectors(seed)
    expressions = [selectors.selector(depth) for _ in range(10)]
    compare(expressions, kubernetes(binary_or_skip(RELEASE), expressions))


def test_estimates_of_ordinary_selectors(oracle: Path):
    selectors = RandomSelectors(5)
    expressions = [selectors.selector(1 + index % 5) for index in range(300)]
    compared = 0
    for expression, answer in zip(expressions, kubernetes(oracle, expressions), strict=True):
        if answer["outcome"] == "invalid":
            continue
        compared += 1
        assert estimate_cost(check(parse(expression), expression)) == answer["estimate"], expression
        assert outcome(expression) == answer["outcome"], expression
    assert compared > 150


@all_of_them(
    "expression, estimate, cost",
    [
        ("true", 0, 0),
        ('"%.999999999f".format([1.5]).size() > 0', 14, 4),
        ('device.attributes["gpu.example.com"].product == "A100"', 5, 5),
        ('"product" in device.attributes["gpu.example.com"]', 4, 4),
        ('has(device.attributes["gpu.example.com"].product)', 3, 3),
        ('device.attributes["gpu.example.com"].product.matches("^A.*")', 11, 5),
        ("[1, 2].exists(x, x > 0)", 23, 10),
        ('cel.bind(v, device.attributes["gpu.example.com"], v.product == "A100" && v.index == 7)', 19, 9),
        ("optional.of(1).optMap(x, x + 1).hasValue()", 18, 8),
        ("[3, 1].sortBy(x, x) == [1, 3]", 89, 49),
    ],
)
def test_costs_that_kubernetes_counts(expression: str, estimate: int, cost: int):
    assert estimate_cost(check(parse(expression), expression)) == estimate
    assert actual_cost(expression) == cost

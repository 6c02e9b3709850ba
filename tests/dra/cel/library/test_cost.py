"""Verdicts, estimated costs and actual costs of the same random selectors, here and in Kubernetes' own code."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.dra.cel import (
    CelBudgetExceeded,
    CelCompileError,
    CelDevice,
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
from dra_spawner.dra.quantity import Quantity
from tests.all_of_them import all_of_them
from tests.dra.cel.expensive_selectors import ExpensiveSelectors
from tests.dra.cel.random_selectors import RandomSelectors

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "product": {"string": "A100"},
    "index": {"int": 7},
    "mig": {"bool": False},
    "uuid": {"string": "gpu-0"},
    "cuda": {"version": "12.4.0"},
    "other.example.com/product": {"string": "é"},
}
DEVICE = CelDevice.from_device(
    "gpu.example.com", ATTRIBUTES, {"memory": Quantity.parse("40Gi")}, allow_multiple_allocations=True
)
GO_DEVICE = {
    "driver": "gpu.example.com",
    "allowMultipleAllocations": True,
    "attributes": ATTRIBUTES,
    "capacity": {"memory": {"value": "40Gi"}},
}


def kubernetes(oracle: Path, expressions: list[str]) -> list[dict[str, Any]]:
    """Results of the API server and the scheduler for each."""
    question = {
        "name": "selectors",
        "features": {"ConsumableCapacity": True},
        "expressions": expressions,
        "device": GO_DEVICE,
    }
    done = subprocess.run(
        [oracle], input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=240, check=True
    )
    verdicts = json.loads(done.stdout)["selectors"]
    assert len(verdicts) == len(expressions)
    return list(verdicts)


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
        # The API server takes includes() only where the feature is on, the scheduler always; and cel-go crashes on
        # some lists that were made by flatten() and then concatenated.
        if found == "unsupported" or "'includes'" in problem or "internal error: runtime error" in problem:
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


@pytest.mark.parametrize("seed", [1, 2])
def test_expensive_selectors(oracle: Path, seed: int):
    selectors = ExpensiveSelectors(seed)
    expressions = [selectors.selector(1 + index % 4) for index in range(200)]
    outcomes = compare(expressions, kubernetes(oracle, expressions))
    assert min(outcomes["match"], outcomes["no match"], outcomes["too complex"]) > 10, outcomes
    assert outcomes["budget"] < 5, outcomes


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 4))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_any_expensive_selectors(oracle: Path, seed: int, depth: int):
    selectors = ExpensiveSelectors(seed)
    expressions = [selectors.selector(depth) for _ in range(10)]
    compare(expressions, kubernetes(oracle, expressions))


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

"""Verdicts recorded from Kubernetes 1.36.3's own compiler and evaluator (``k8s.io/dynamic-resource-allocation/cel``).

``message``, ``line`` and ``column`` are there where the wording is Kubernetes' own (not that of a Go library) and it
reported one error only. "too complex" is the API server's verdict on costs above its limit.
``refused`` marks functions that are not implemented.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.dra.cel import (
    CelCompileError,
    CelDevice,
    CelRuntimeError,
    CelTooComplexError,
    CelUnsupportedError,
    compile_selector,
)
from tests.all_of_them import all_of_them
from tests.dra.cel.devices import FISH, FISH_WITH_LISTS, GPU

RECORDED = Path(__file__).parent / "recorded"


def rows(name: str) -> list[Any]:
    lines = (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [pytest.param(row, id=row["expression"]) for row in map(json.loads, lines)]


def verdict(expression: str, device: CelDevice, *, list_attributes: bool = False) -> dict[str, Any]:
    try:
        selector = compile_selector(expression, list_attributes=list_attributes)
    except CelUnsupportedError as error:
        return {"refused": error.message}
    except CelTooComplexError:
        return {"verdict": "too complex"}
    except CelCompileError as error:
        return {"verdict": "invalid", "line": error.line, "column": error.column, "message": error.message}
    try:
        return {"verdict": "match" if selector.matches(device) else "no match"}
    except CelRuntimeError as error:
        return {"verdict": "error", "message": str(error)}


def agrees(row: dict[str, Any], found: dict[str, Any]) -> None:
    if "refused" in row:
        assert found == {"refused": row["refused"]}
        return
    expected = {key: value for key, value in row.items() if key != "expression"}
    assert {key: found.get(key) for key in expected} == expected


@all_of_them("row", rows("language"))
def test_language(row: dict[str, Any]):
    agrees(row, verdict(row["expression"], FISH))


@all_of_them("row", rows("list_attributes"))
def test_list_attributes(row: dict[str, Any]):
    agrees(row, verdict(row["expression"], FISH_WITH_LISTS, list_attributes=True))


@all_of_them("row", rows("random"))
def test_random_selectors(row: dict[str, Any]):
    agrees(row, verdict(row["expression"], GPU))

"""The same random selectors, evaluated here and by Google's C++ implementation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dra_spawner.dra.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector
from tests.dra.cel.random_selectors import RandomSelectors

pytest.importorskip("cel_expr_python")

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional

COUNT = 6000
ERROR = "error"
SKIPPED = "skipped"


# Without versions and quantities, which the oracle has not.
DEVICE = CelDevice.from_device(
    "gpu.example.com",
    {
        "product": {"string": "A100"},
        "index": {"int": 7},
        "mig": {"bool": False},
        "uuid": {"string": "gpu-0"},
        "count": {"int": -1},
        "other.example.com/product": {"string": "é"},
        "other.example.com/index": {"int": 1},
        "other.example.com/mig": {"bool": True},
    },
    {},
    allow_multiple_allocations=True,
)


class Oracle:
    """cel-expr-python with our device as plain maps."""

    def __init__(self) -> None:
        self.environment = cel.NewEnv(
            variables={"device": cel.Type.DYN}, extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
        )
        attributes = {domain: dict(names) for domain, names in DEVICE.attributes.items()}
        fields = {"driver": DEVICE.driver, "attributes": attributes, "capacity": {}, "allowMultipleAllocations": True}
        self.activation = self.environment.Activation({"device": fields})

    def verdict(self, expression: str) -> Any:
        try:
            program = self.environment.compile(expression)
        except RuntimeError as error:
            assert "INVALID_ARGUMENT" in str(error), error  # noqa: PT017
            # It has no mixed comparisons, and mistakes cel.bind right of a macro.
            return SKIPPED
        value = program.eval(self.activation).value()
        return value if isinstance(value, bool) else ERROR


def verdict(expression: str) -> Any:
    try:
        selector = compile_selector(expression)
    except CelCompileError:
        return SKIPPED  # Kubernetes wants one type in a list; and it folds conversions of constants
    try:
        return selector.matches(DEVICE)
    except CelRuntimeError:
        return ERROR


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_selectors_agree(seed: int):
    oracle = Oracle()
    selectors = RandomSelectors(seed, sloppiness=0.0, plain=True)
    verdicts: Counter[Any] = Counter()
    for index in range(COUNT // 3):
        expression = selectors.selector(1 + index % 4)
        if " in [])" in expression:
            continue  # Kubernetes does not evaluate x in `x in []`
        ours, theirs = verdict(expression), oracle.verdict(expression)
        if SKIPPED in (ours, theirs):
            verdicts[SKIPPED] += 1
            continue
        assert ours == theirs, expression
        verdicts[ours] += 1
    assert min(verdicts[True], verdicts[False], verdicts[ERROR]) > 100, verdicts
    assert verdicts[SKIPPED] < COUNT // 3 * 0.45, verdicts

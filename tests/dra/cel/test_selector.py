"""Selectors as their users see them: compiling, matching, errors, limits."""

from __future__ import annotations

import pytest

from dra_spawner.dra.cel import (
    MAX_EXPRESSION_BYTES,
    CelBudgetExceeded,
    CelCompileError,
    CelCostLimitExceeded,
    CelDevice,
    CelRuntimeError,
    CelTooComplexError,
    CelUnsupportedError,
    compile_selector,
)
from dra_spawner.dra.cel.checker import check
from dra_spawner.dra.cel.evaluation.compiler import compile_checked
from dra_spawner.dra.cel.syntax.parser import parse
from dra_spawner.dra.quantity import Quantity
from tests.all_of_them import all_of_them
from tests.dra.cel.devices import FISH

DRIVER = "gpu.nvidia.com"


def device(attributes: dict[str, dict[str, object]], **options: bool) -> CelDevice:
    return CelDevice.from_device(DRIVER, attributes, {"memory": Quantity.parse("40Gi")}, **options)


A100 = device(
    {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA A100-SXM4-40GB"},
        "driverVersion": {"version": "550.54.14"},
        "cudaComputeCapability": {"version": "8.0.0"},
        "minor": {"int": 3},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }
)

TYPICAL = [
    (f'device.driver == "{DRIVER}"', True),
    (f'device.attributes["{DRIVER}"].type == "gpu"', True),
    (f'device.attributes["{DRIVER}"].type == "mig"', False),
    (f'device.attributes["{DRIVER}"].productName.matches("A100")', True),
    (f'device.attributes["{DRIVER}"].productName.lowerAscii().contains("h100")', False),
    (f'device.attributes["{DRIVER}"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0', True),
    (f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("v550", true))', True),
    (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("10Gi")) >= 0', True),
    (f'device.capacity["{DRIVER}"].memory == quantity("40960Mi")', True),
    (f'has(device.attributes["{DRIVER}"].parentUUID)', False),
    (f'"parentUUID" in device.attributes["{DRIVER}"] && device.attributes["{DRIVER}"].parentUUID == "x"', False),
    ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
    (f'device.attributes["{DRIVER}"].minor in [2, 3]', True),
    (f'cel.bind(gpu, device.attributes["{DRIVER}"], gpu.type == "gpu" && gpu.minor < 4)', True),
    (f'device.attributes["{DRIVER}"].?profile.orValue("whole") == "whole"', True),
    ('"other.example.com" in device.attributes', False),
    ('"memory" in device.capacity["other.example.com"]', False),
    ("device.allowMultipleAllocations", False),
]


@all_of_them("expression, matches", TYPICAL)
def test_typical_selectors(expression: str, matches: bool):
    assert compile_selector(expression).matches(A100) is matches


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["gpu.nvidia.com"].type', "CEL result of type string could not be converted to bool"),
        ('false || device.attributes["x"].gone', "no such key: gone"),
        ('quantity("ten") == quantity("10")', "'ten' is not a quantity"),
        ('semver("1").major() == 1', "'1' is not a semantic version"),
    ],
)
def test_an_error_is_not_a_mismatch(expression: str, message: str):
    """Other errors are in the recorded verdicts."""
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector(expression).matches(A100)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('device.attributes["x"].gone || true', True),
        ('device.attributes["x"].gone && false', False),
        ('[1, 2].exists(x, device.attributes["x"].gone || x == 2)', True),
        ('[1, 2].all(x, x == 1 && device.attributes["x"].gone)', False),
    ],
)
def test_errors_are_absorbed_where_the_rest_decides(expression: str, matches: bool):
    assert compile_selector(expression).matches(A100) is matches


@all_of_them(
    "expression, name",
    [
        ('device.attributes["x"].t.getHours() == 0', "getHours()"),
        (f"{'(' * 51}true{')' * 51}", "levels of brackets"),
        (f"1{' + 1' * 150} == 1", "levels of brackets"),
    ],
)
def test_functions_that_are_not_implemented_are_named(expression: str, name: str):
    """Most are in the recorded verdicts."""
    with pytest.raises(CelUnsupportedError) as caught:
        compile_selector(expression)
    assert name in caught.value.message


@all_of_them(
    "expression, line, column, message",
    [
        ("'é' == 1", 1, 5, "found no matching overload for '_==_' applied to '(string, int)'"),
        ("true &&", 1, 8, "Syntax error: the end of the expression where an expression was expected"),
        ("true true", 1, 6, "Syntax error: 'true' where the end was expected"),
        ("", 1, 1, "Syntax error: the end of the expression where an expression was expected"),
        ("\ud800", 1, 1, "the expression is not Unicode text"),
    ],
)
def test_compile_errors_say_where(expression: str, line: int, column: int, message: str):
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    assert (caught.value.line, caught.value.column, caught.value.message) == (line, column, message)
    assert str(caught.value) == f"{line}:{column}: {message}"
    assert not isinstance(caught.value, CelUnsupportedError)


def padded(size: int) -> str:
    return "true" + " " * (size - 4)


def test_length_limit_counts_bytes():
    assert compile_selector(padded(MAX_EXPRESSION_BYTES)).matches(A100)
    with pytest.raises(CelCompileError, match="too long: 10241 bytes"):
        compile_selector(padded(MAX_EXPRESSION_BYTES + 1))
    with pytest.raises(CelCompileError, match="too long"):
        compile_selector(f'"{"é" * (MAX_EXPRESSION_BYTES // 2)}" != ""')


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested_loops(count: int, inner: str = "true") -> str:
    for index in range(count):
        inner = f"{TEN}.all(x{index}, {inner})"
    return inner


def test_expressions_that_may_cost_too_much_are_refused():
    with pytest.raises(CelTooComplexError, match="too complex, exceeds cost limit") as caught:
        compile_selector(nested_loops(6))
    assert caught.value.estimate == 4_555_551
    with pytest.raises(CelTooComplexError):
        compile_selector('["a", "b"].join(",") == "a,b"')


LONG = '"%.65535e".format([1.5])'


def evaluate(expression: str) -> object:
    """Evaluate an expression that the API server would refuse as too complex."""
    return compile_checked(check(parse(expression), expression)).run(A100)


def test_underestimated_evaluations_end_at_the_cost_limit():
    with pytest.raises(CelCostLimitExceeded, match="actual cost limit exceeded"):
        evaluate(f"{LONG}.contains({LONG})")


def test_cheaper_loops_do_not():
    expression = "true"
    for index in range(4):
        expression = f"{TEN}.all(x{index}, {expression})"
    assert compile_selector(expression).matches(A100)


@pytest.mark.parametrize(
    ("expression", "error"),
    [(f"{LONG}.contains({LONG})", CelCostLimitExceeded), (nested_loops(5, "x0 * x1 > 0"), CelBudgetExceeded)],
)
def test_limits_are_never_absorbed(expression: str, error: type[Exception]):
    with pytest.raises(error):
        evaluate(f"{expression} || true")


def test_texts_that_double_again_and_again_are_refused():
    expression = 'v60 != ""'
    for index in range(60, 0, -1):
        expression = f"cel.bind(v{index}, v{index - 1} + v{index - 1}, {expression})"
    with pytest.raises(CelCompileError):
        compile_selector(f'cel.bind(v0, "a", {expression})')


def test_failing_bindings_are_not_computed_again_and_again():
    expression = "v40 || true"
    for index in range(40, 0, -1):
        expression = f"cel.bind(v{index}, v{index - 1} && v{index - 1}, {expression})"
    assert compile_selector(f"cel.bind(v0, 1 / 0 == 1, {expression})").matches(A100)


@pytest.mark.parametrize("depth", [300, 5000])
def test_deep_nesting_is_a_compile_error(depth: int):
    with pytest.raises(CelCompileError, match="recursion limit"):
        compile_selector("(" * depth + "true" + ")" * depth)
    with pytest.raises(CelCompileError, match="recursion limit"):
        compile_selector("1" + "+1" * depth + " == 1")


def test_long_flat_conditions_are_fine():
    assert compile_selector(" && ".join(["true"] * 1000)).matches(A100)


class TestDevice:
    def test_names_without_domain_are_the_drivers(self):
        prepared = device({"a": {"int": 1}, f"{DRIVER}/b": {"int": 2}, "other/a": {"int": 3}})
        assert {domain: dict(names) for domain, names in prepared.attributes.items()} == {
            DRIVER: {"a": 1, "b": 2},
            "other": {"a": 3},
        }

    @pytest.mark.parametrize(
        "attribute",
        [
            {"strings": ["a"]},
            {},
            {"version": "1.2"},
            {"version": "18446744073709551616.0.0"},
            {"int": 2**63},
            {"int": "1"},
            {"int": True},
            {"bool": 1},
            {"string": 1},
        ],
        ids=str,
    )
    def test_an_attribute_that_cannot_be_converted_fails_every_selector(self, attribute: dict[str, object]):
        prepared = device({"fine": {"int": 1}, "odd": attribute})
        with pytest.raises(CelRuntimeError, match="attribute odd: "):
            compile_selector("true").matches(prepared)

    def test_lists_are_known_with_the_gate_on(self):
        prepared = device({"names": {"strings": ["a", "b"]}}, list_attributes=True)
        expression = f'device.attributes["{DRIVER}"].names.exists(name, name == "b")'
        assert compile_selector(expression, list_attributes=True).matches(prepared)
        with pytest.raises(CelCompileError, match="expression of type 'any' cannot be range"):
            compile_selector(expression)

    def test_a_bad_version_in_a_list_fails_every_selector(self):
        prepared = device({"v": {"versions": ["1.0.0", "1"]}}, list_attributes=True)
        with pytest.raises(CelRuntimeError, match="attribute v: parse semantic version"):
            compile_selector("true").matches(prepared)

    @pytest.mark.parametrize(("allow", "expected"), [(None, False), (False, False), (True, True)])
    def test_allow_multiple_allocations(self, allow: bool | None, expected: bool):
        prepared = CelDevice.from_device(DRIVER, {}, {}, allow)
        assert compile_selector("device.allowMultipleAllocations").matches(prepared) is expected

    def test_null_members_of_an_attribute_are_absent(self):
        prepared = device({"a": {"int": None, "string": "x"}})
        assert compile_selector(f'device.attributes["{DRIVER}"].a == "x"').matches(prepared)


def test_selectors_are_cached_and_hold_no_state():
    expression = f'[1, 2].exists(x, x == device.attributes["{DRIVER}"].minor)'
    selector = compile_selector(expression)
    assert compile_selector(expression) is selector
    found = [selector.matches(device({"minor": {"int": minor}})) for minor in (1, 5, 2)]
    assert found == [True, False, True]
    assert selector.expression == expression
    assert expression in repr(selector)


def test_same_expression_with_and_without_lists_are_two_selectors():
    expression = 'device.attributes["d.com"].b'
    assert compile_selector(expression) is not compile_selector(expression, list_attributes=True)
    assert compile_selector(expression).matches(FISH)

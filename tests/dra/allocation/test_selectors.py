"""Selectors are evaluated once for each distinct device, in order, and their failures are distinguished."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.allocation import selectors
from dra_spawner.dra.allocation.selectors import SelectorCache, SelectorFailure
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.errors import FatalReason
from tests.containers import max_held
from tests.dra.builders import DRIVER, make_device

OWN = f"device.attributes['{DRIVER}']"
A = make_device(attributes={"model": "A100"}).description
SAME_AS_A = make_device("other", attributes={"model": "A100"}).description
B = make_device(attributes={"model": "H100"}).description


def test_once_for_each_distinct_device(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []
    prepare = CelDevice.from_device

    def noted(driver: str, attributes: Any, *rest: Any, **options: Any) -> CelDevice:
        prepared.append(attributes)
        return prepare(driver, attributes, *rest, **options)

    monkeypatch.setattr(CelDevice, "from_device", noted)
    cache = SelectorCache(list_attributes=False)
    wanted = cache.filter((f"{OWN}.model == 'A100'",))
    assert [wanted.verdict(item) for item in (A, SAME_AS_A, B, A)] == [True, True, False, True]
    assert len(prepared) == 2
    assert cache.filter((f"{OWN}.model == 'A100'",)) is wanted
    assert cache.filter(("true", f"{OWN}.model == 'A100'")).verdict(SAME_AS_A) is True
    assert len(prepared) == 2


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param((), True, id="none"),
        pytest.param(("true", "true"), True, id="all-true"),
        pytest.param(("true", "false"), False, id="one-false"),
        pytest.param(("false", "nonsense("), False, id="selectors-after-a-no-are-not-evaluated"),
        pytest.param(("true", "nonsense("), (FatalReason.SELECTOR, 1), id="does-not-compile"),
        pytest.param((f"{OWN}.none == 1", "false"), (FatalReason.SELECTOR, 0), id="fails"),
        pytest.param(("device.driver",), (FatalReason.SELECTOR, 0), id="no-boolean"),
    ],
)
def test_filter(expressions: tuple[str, ...], expected: Any) -> None:
    verdict = SelectorCache(list_attributes=False).filter(expressions).verdict(A)
    if isinstance(verdict, SelectorFailure):
        assert (verdict.reason, verdict.position) == expected
    else:
        assert verdict is expected


@pytest.mark.parametrize("list_attributes", [False, True])
def test_list_attributes(list_attributes: bool) -> None:
    device = make_device(attributes={"links": ["a", "b"], "model": "A100"}).description
    cache = SelectorCache(list_attributes=list_attributes)
    verdict = cache.verdict(f"{OWN}.model == 'A100'", device)
    assert isinstance(verdict, SelectorFailure) is not list_attributes


def test_refused_by() -> None:
    assert SelectorCache(list_attributes=False).filter(("true", "false", "true")).refused_by(A) == 1


def test_an_expression_of_too_many_steps_gets_no_verdict() -> None:
    nested = "lists.range(300).all(i, lists.range(300).all(j, i + j >= 0))"
    verdict = SelectorCache(list_attributes=False).verdict(nested, A)
    assert isinstance(verdict, SelectorFailure)
    assert verdict.reason is FatalReason.SELECTOR_UNSUPPORTED
    assert verdict.message == "no verdict on CEL expression: evaluating it takes more than 100000 steps"


def test_loops_have_a_budget_for_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "STEPS", 5_000)
    monkeypatch.setattr(selectors, "STEPS_EACH", 100)
    cache = SelectorCache(list_attributes=False)
    devices = [make_device(attributes={"index": index}).description for index in range(50)]
    cheap = f"[1, 2].exists(x, x == {OWN}.index)"
    assert [cache.verdict(cheap, device) for device in devices].count(True) == 2
    dear = f"lists.range(90).exists(x, x == {OWN}.index)"
    failures = [verdict for device in devices if isinstance(verdict := cache.verdict(dear, device), SelectorFailure)]
    assert 10 < len(failures) < 50
    assert {failure.reason for failure in failures} == {FatalReason.SELECTOR_UNSUPPORTED}
    assert cache.verdict(dear, devices[0]) is True  # known verdicts are not forgotten


def test_old_selectors_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "MAX_CACHED", 10)
    cache = SelectorCache(list_attributes=False)
    for index in range(25):
        assert cache.filter((f"{index} == {index}", "true")).verdict(A) is True
    assert max_held(cache) <= 10

"""Selectors are evaluated once for each distinct device, in order, and their failures are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra import selectors
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.selectors import SelectorCache, SelectorFailure
from tests.dra.builders import DRIVER, make_device

OWN = f"device.attributes['{DRIVER}']"
A = make_device(attributes={"model": "A100"}).description
SAME_AS_A = make_device("other", attributes={"model": "A100"}).description
B = make_device(attributes={"model": "H100"}).description


def test_once_for_each_distinct_device(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    prepare = SelectorCache._prepare
    monkeypatch.setattr(
        selectors.SelectorCache, "_prepare", lambda self, item: prepared.append(item) or prepare(self, item)
    )
    cache = SelectorCache(list_attributes=False)
    wanted = cache.filter((f"{OWN}.model == 'A100'",))
    assert [wanted.verdict(item) for item in (A, SAME_AS_A, B, A)] == [True, True, False, True]
    assert prepared == [A, B]
    assert cache.filter((f"{OWN}.model == 'A100'",)) is wanted
    assert cache.filter(("true", f"{OWN}.model == 'A100'")).verdict(SAME_AS_A) is True
    assert prepared == [A, B]


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param((), True, id="none"),
        pytest.param(("true", "true"), True, id="all-true"),
        pytest.param(("true", "false"), False, id="one-false"),
        pytest.param(("false", "nonsense("), False, id="what-follows-a-no-is-not-asked"),
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

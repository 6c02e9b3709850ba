"""Which lists and events can be the present state of a collection."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.kube.client.answer_checks import AnswerChecks, WrongAnswer


def _list(version: Any = "7", kind: str | None = "PodList", items: Any = ()) -> dict[str, Any]:
    return {**({"kind": kind} if kind else {}), "metadata": {"resourceVersion": version}, "items": list(items)}


def _checks() -> AnswerChecks:
    checks = AnswerChecks("Pod", "pods")
    checks.newest = "7"
    return checks


def test_a_present_list_is_believed() -> None:
    for each in (_list(), _list("8"), _list("10"), _list(kind=None), _list(items=[{"kind": "Pod"}, {}, 5])):
        assert _checks().version_of_list(each) == each["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_list("6"), "older state than before (resourceVersion 6, was 7)"),
        (_list(""), "without a resourceVersion"),
        (_list(None), "without a resourceVersion"),
        (_list(8), "without a resourceVersion"),
        (_list(kind="NodeList"), "a NodeList instead of a PodList"),
        (_list(kind="Status"), "a Status instead of a PodList"),
        (_list("8", items=[{}, {"kind": "Node"}]), "a Node instead of a Pod"),
    ],
)
def test_any_other_list_is_a_failure(answer: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongAnswer) as raised:
        _checks().version_of_list(answer)
    assert says in str(raised.value)


def test_an_event_is_of_the_kind_and_no_older() -> None:
    checks = _checks()
    assert checks.version_of_event({"kind": "Pod", "metadata": {"resourceVersion": "7"}}) == "7"
    for kind, version in (("Pod", "6"), ("Node", "8"), ("Pod", "")):
        with pytest.raises(WrongAnswer):
            checks.version_of_event({"kind": kind, "metadata": {"resourceVersion": version}})


def test_what_a_list_lacks_is_gone_only_in_a_newer_version_and_all_of_it_only_twice() -> None:
    checks = _checks()
    checks.check_removal(0, 5, "7")
    with pytest.raises(WrongAnswer, match="lists 2 pods less than before, in the same version"):
        checks.check_removal(2, 5, "7")
    checks.check_removal(2, 5, "8")
    with pytest.raises(WrongAnswer, match="lists no pods, where 3 were"):
        checks.check_removal(3, 3, "9")
    checks.check_removal(3, 3, "10")
    checks.check_removal(0, 0, "11")
    with pytest.raises(WrongAnswer):
        checks.check_removal(1, 1, "12")

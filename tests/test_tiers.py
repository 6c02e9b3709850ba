"""The tier of a test follows from what it needs, and what is run at night only exists."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers
from tests.all_of_them import all_of_them
from tests.tier_lists import DAYS, DEAR, LONG
from tests.tiers import TESTS, Tier, may_hold, order_of, stage_of, tier_of

MODULE = "kube/client/test_api.py"


def made(module: str = MODULE, *, fixtures: str = "", marks: str = "", **parameters: Any) -> Any:
    """A test with these fixtures, marks and values of parameters."""
    return SimpleNamespace(
        path=TESTS / module,
        name="test_something",
        fixturenames=fixtures.split(),
        callspec=SimpleNamespace(params=parameters) if parameters else None,
        get_closest_marker=lambda name: name in marks.split(),
    )


def tier(*arguments: str, **parameters: Any) -> Tier:
    return tier_of(made(*arguments, **parameters))


def test_the_tier_follows_from_fixtures_parameters_and_directories() -> None:
    assert tier() is Tier.DEFAULT
    assert tier(fixtures="tmp_path embedded_cluster") is Tier.EMBEDDED
    assert tier(fixtures="cluster", cluster="embedded") is Tier.EMBEDDED
    assert tier(fixtures="cluster", cluster="real") is Tier.REAL
    assert tier(fixtures="background_loop control_plane real_cluster") is Tier.REAL
    assert tier("integration/test_hub.py") is Tier.EMBEDDED
    assert tier("browser/test_form.py", fixtures="embedded_cluster") is Tier.SYSTEM
    assert tier("history/test_database.py", url="postgresql") is Tier.SYSTEM
    assert tier("docs/test_commands.py", fixtures="helm") is Tier.SYSTEM
    assert tier("test_monitoring.py", marks="needs_program") is Tier.SYSTEM
    assert tier("service/http/test_openapi.py") is Tier.SYSTEM, "its packages are not in the extra `test`"
    assert tier("placeholders/planner/test_chaos.py") is Tier.SYSTEM
    assert tier("service/test_chaos.py", fixtures="cluster", cluster="real") is Tier.LONG
    assert tier("dra/test_quirks.py", fixtures="oracles") is Tier.SYSTEM


def test_what_users_count_on_is_of_the_default_tier() -> None:
    assert tier(fixtures="cluster", marks="promise", cluster="embedded") is Tier.DEFAULT
    assert tier(fixtures="cluster", marks="promise", cluster="real") is Tier.REAL
    assert tier("browser/test_form.py", marks="promise") is Tier.SYSTEM
    assert tier("placeholders/planner/test_chaos.py", marks="promise") is Tier.DEFAULT


def test_dear_tests_begin_first_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "DEAR", ("c", "f", "a", "z"))
    names = list("abcdefgh")

    def ordered(names: Sequence[str], processes: int, late: str = "") -> str:
        found = [names[place] for place in order_of(names, [int(name[0] in late) for name in names], processes)]
        return "".join(name[0] for name in found)

    assert ordered(names, 1) == "cfabdegh"
    assert ordered(names, 2) == "cadg" + "fbeh"
    assert ordered(names, 3) == "ae" + "cbg" + "fdh", "of the sizes that pytest-xdist gives"
    assert ordered(names, 8) == "cfabdegh"
    assert ordered(names[:3], 8) == "cab"
    assert ordered(["b::1", "b::2", "d::1", "e::1", "g::1", "g::2"], 2) == "bbg" + "deg", "modules stay together"
    # What is built meanwhile is needed in the second half of each process's part.
    assert ordered(names, 1, "abc") == "fdeghcab"
    assert ordered(names, 2, "abgc") == "fecb" + "dhag"


def test_what_needs_go_runs_late() -> None:
    def stage(module: str, fixtures: str = "", **parameters: Any) -> int:
        return stage_of(made(module, fixtures=fixtures, **parameters))

    assert stage("kube/client/test_api.py", "cluster", cluster="embedded") == 0
    assert stage("browser/test_form.py") == 0
    assert stage("history/test_database.py", url="postgresql") == 0
    assert stage("kube/client/test_api.py", "cluster", cluster="real") == 1
    assert stage("docs/test_commands.py", "helm") == 2
    assert stage("chart/test_release.py", "real_cluster") == 2


@all_of_them("name", [*LONG, *DAYS, *DEAR])
def test_tests_of_the_night_exist(name: str) -> None:
    path, _, function = name.partition("::")
    defined = [getattr(each, "name", "") for each in ast.parse((TESTS / path).read_text()).body]
    assert not function or function.partition("[")[0] in defined


def test_a_directory_that_is_named_is_collected() -> None:
    assert not may_hold(TESTS / "browser", [str(TESTS)])
    assert may_hold(TESTS / "browser", [str(TESTS / "browser" / "test_form.py")])
    assert may_hold(TESTS / "kube", [])
    assert not may_hold(TESTS / "service" / "http" / "test_openapi.py", [])


def test_each_tier_is_documented() -> None:
    table = (TESTS.parent / "CONTRIBUTING.md").read_text()
    assert [each for each in Tier if f"| `{each}` |" not in table] == []

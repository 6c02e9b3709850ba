"""``dra-spawner budgets``: on a history, with budgets and groups of several forms."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.cli import main
from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Combination, Per
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from tests.all_of_them import all_of_them
from tests.local_server import serving

DAY = timedelta(days=1)
GPU = "gpu.example.com"
LIMIT = {"value": 5, "unit": "device-hours"}


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def url(tmp_path: Path, now: datetime) -> str:
    """A history with plain names: ada has used 6 hours, bob a quarter of a device for 4, eve's use is not known."""
    found = f"sqlite:///{tmp_path / 'history.sqlite'}"

    def launch(uid: str, user: str, hours_ago: float, hours: float, devices: Any) -> Launch:
        asked = now - timedelta(hours=hours_ago)
        ended = asked + timedelta(hours=hours)
        return Launch(uid, asked, "gpu", f"gpu/{uid[0]}", user, bound=asked, ended=ended, devices=devices)

    database = HistoryDatabase.open(found, UserNameMode.PLAIN)
    database.add(
        (
            launch("a1", "ada", 20, 6, {GPU: 1.0}),
            launch("a2", "ada", 1, 0.5, {GPU: 1.0}),
            launch("b1", "bob\x1b[2J", 9, 4, {GPU: 0.25}),
            launch("e1", "eve", 9, 4, None),
        )
    )
    database.close()
    return found


class Command:
    def __init__(self, url: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._directory, self._capsys = url, directory, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        try:
            code: Any = main(["budgets", *arguments, "--url", self._url])
        except SystemExit as end:
            code = end.code
        found = self._capsys.readouterr()
        return code, found.out, found.err

    def file(self, name: str, value: Any) -> str:
        path = self._directory / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)


@pytest.fixture
def command(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(url, tmp_path, capsys)


@pytest.mark.promise("`dra-spawner budgets` shows who used the devices, and what a limit would have done.")
def test_use_and_what_a_limit_would_have_done(command: Command) -> None:
    code, text, err = command()
    assert code == 0
    assert "4 launches, 7.5 device-hours" in text
    assert [line.split() for line in text.splitlines() if "  " in line] == [
        ["user", "device-hours"], ["ada", "6.5"], ["bob?[2J", "1.0"],
    ]  # fmt: skip
    assert err.startswith("1 launches count as without devices")
    budgets = command.file("b.yaml", "policy: [{resource: devices, limit: {value: 5, unit: device-hours}, window: 7}]")
    code, text, _ = command(budgets, "--by", "choice")
    assert code == 0
    assert ["gpu/a", "6.5"] in [line.split() for line in text.splitlines()]
    assert "5.0 h in 7 days   6.5  over budget" in text
    assert "1 of 4 launches were asked for over budget, by 1 users. 0 of them" in " ".join(text.split())


async def test_groups_from_a_file_and_from_a_hub(command: Command, tmp_path: Path) -> None:
    budgets = command.file("b.json", [{"limit": LIMIT, "window": 7, "scope": {"group": ["maths"]}, "per": "group"}])
    code, text, err = command(budgets, "--format", "json")
    assert (code, json.loads(text)["budgets"][0]["used"]) == (0, 0)
    assert "No groups are known, so budgets for groups hold for no user." in err
    groups = {"maths": ["ada", "bob\x1b[2J"], "arts": ["zoe"]}
    answered = json.loads(command(budgets, "--format", "json", "--groups", command.file("g.json", groups))[1])
    assert answered["deviceHours"]["byGroup"] == pytest.approx({"maths": 7.5})
    assert [(each["subject"], each["isOver"]) for each in answered["budgets"]] == [("maths", True)]
    items = [{"kind": "group", "name": name, "users": users} for name, users in groups.items()]
    (tmp_path / "token").write_text("secret\n")

    async def hub(request: web.Request) -> web.Response:
        assert (request.path, request.headers["Authorization"]) == ("/hub/api/groups", "token secret")
        return web.json_response({"items": items, "_pagination": {}})

    async with serving(hub) as address:
        arguments = "--groups", f"{address}/hub/api", "--token-file", str(tmp_path / "token"), "--format", "json"
        _, text, _ = await asyncio.to_thread(command, budgets, *arguments)
    assert json.loads(text)["deviceHours"] == answered["deviceHours"]


def test_names_that_are_hashed_are_found_by_their_groups(
    tmp_path: Path, now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'hashed.sqlite'}"
    database = HistoryDatabase.open(url)
    asked = now - timedelta(hours=3)
    database.add((Launch("a", asked, user="ada", bound=asked, ended=now - timedelta(hours=1), devices={GPU: 1.0}),))
    database.close()
    command = Command(url, tmp_path, capsys)
    _, text, _ = command("--by", "group", "--groups", command.file("g.json", {"maths": ["ada"]}))
    assert "maths           2.0" in text


#: As in the documentation of jupyterhub-usage-quotas, with another resource.
OF_OTHERS = {
    "policy": [
        {"resource": "memory", "limit": {"value": 5000, "unit": "GiB-hours"}, "window": 30, "scope": {"group": ["A"]}},
        {
            "resource": "devices",
            "limit": {"value": 50, "unit": "device-hours"},
            "window": 30,
            "scope": {"group": ["A"]},
        },
    ],
    "scope_backup_strategy": {
        "empty": {"resource": "devices", "limit": {"value": 5, "unit": "device-hours"}, "window": 7},
        "intersection": "max",
    },
}


def test_policies_of_jupyterhub_usage_quotas() -> None:
    found = read_budgets(OF_OTHERS)
    assert found.policy == BudgetPolicy((Budget(50, 30 * DAY, ("A",)),), (Budget(5, 7 * DAY),), Combination.MAX)
    assert found.left_out == ("budgets.policy[0]: memory is not recorded in the history, so this budget is left out",)
    own = {
        "policy": [{"resource": GPU, "limit": {"value": 1}, "per": "group", "scope": {"group": ["A"]}}],
        "prices": {GPU: 3},
    }
    assert read_budgets(own).policy == BudgetPolicy((Budget(1, 30 * DAY, ("A",), GPU, Per.GROUP),), prices={GPU: 3.0})


@all_of_them("value, problem", {
    "text": ("no", "budgets: found 'no'; allowed: a mapping with the key policy, or a list"),
    "no limit": ([{}], "budgets.policy[0].limit: "),
    "zero": ([{"limit": {"value": 0}}], "budgets.policy[0].limit.value: found 0; allowed: a number from 1e-06"),
    "infinity": ([{"limit": {"value": float("inf")}}], "budgets.policy[0].limit.value: found inf"),
    "not a number": ([{"limit": {"value": float("nan")}}], "budgets.policy[0].limit.value: found nan"),
    "truth": ([{"limit": {"value": True}}], "budgets.policy[0].limit.value: found True"),
    "unit": ([{"limit": {"value": 1, "unit": "GiB-hours"}}], "budgets.policy[0].limit.unit: found 'GiB-hours'"),
    "window": ([{"limit": {"value": 1}, "window": -1}], "budgets.policy[0].window: found -1"),
    "a group as text": ([{"limit": {"value": 1}, "scope": {"group": "A"}}], "budgets.policy[0].scope.group: found 'A'"),
    "together without groups": ([{"limit": {"value": 1}, "per": "group"}], "budgets.policy[0].per: found 'group'"),
    "unknown key": ([{"limit": {"value": 1}, "user": "ada"}], "budgets.policy[0].user: found 'user'; allowed: the keys"),
    "combination": ({"scope_backup_strategy": {"intersection": "all"}}, "intersection: found 'all'; allowed: min or max"),
    "price": ({"prices": {"gpu": "free"}}, "budgets.prices.'gpu': found 'free'; allowed: a price of 0 or more"),
    "too many": ([{"limit": {"value": 1}}] * 1001, "budgets.policy: found 1001 entries; allowed: a list of at most 1000"),
})  # fmt: skip
def test_wrong_budgets_are_refused_with_their_path(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_budgets(value)
    assert problem in str(caught.value)


@all_of_them("arguments, said", {
    "no file": (("none.yaml",), "none.yaml"),
    "groups": (("--groups", "none.json"), "none.json: No such file or directory"),
    "days": (("--days", "0"), "'0' is not a whole number from 1 to 3650"),
})  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "h").touch()
    code, _, err = Command(f"sqlite:///{tmp_path / 'h'}", tmp_path, capsys)(*arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


@all_of_them("groups", {
    "text": "ada", "a number": {"maths": 3}, "numbers": {"maths": [1]}, "list of texts": ["maths"], "nothing": None,
})  # fmt: skip
def test_groups_of_another_form_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], groups: Any) -> None:
    (tmp_path / "h").touch()
    command = Command(f"sqlite:///{tmp_path / 'h'}", tmp_path, capsys)
    code, _, err = command("--groups", command.file("g.json", json.dumps(groups)))
    assert code == 2
    assert "allowed: a list like" in err

"""Budgets that are enforced: who is over one leaves warm placeholders to others, while devices are scarce."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.service.figures.budget_use import BudgetUse
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.local_server import serving
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.replica import replica, set_up

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
GPU = "gpu.example.com"
SHAPE = shape(WHOLE)
POLICY: dict[str, Any] = {
    "policy": [
        {"limit": 10, "window": 7},
        {"limit": 30, "window": 30, "scope": {"group": ["maths"]}, "per": "group"},
        {"limit": 1, "window": 7, "scope": {"group": ["strict"]}},
    ]
}


def used(uid: str, user: str, hours: float, now: datetime = NOW, *, running: bool = False) -> Launch:
    begin = now - timedelta(hours=hours)
    more: dict[str, Any] = {"bound": begin, "ended": None if running else now, "devices": {GPU: 1.0}}
    return Launch(uid, begin, "gpu", "gpu", user, **more)


@pytest.fixture
def database(tmp_path: Path) -> HistoryDatabase:
    return HistoryDatabase.open(f"sqlite:///{tmp_path / 'history.sqlite'}")


def budget_use(database: HistoryDatabase | None, now: Callable[[], datetime], hub: str = "") -> BudgetUse:
    return BudgetUse(read_budgets(POLICY), lambda: database, lambda: (hub, "secret"), now)


async def test_who_is_over(database: HistoryDatabase) -> None:
    async def hub(_: web.Request) -> web.Response:
        return web.json_response([{"name": "maths", "users": ["bob", "carl"]}])

    database.add((used("1", "ada", 12), used("2", "bob", 9, running=True), used("3", "carl", 22)))
    now = NOW
    async with serving(hub) as address:
        found = budget_use(database, lambda: now, f"{address}/hub/api")
        assert found.over("ada", ()) is None, "nothing is known yet"
        await found.refresh()
    # The group strict was renamed in the hub, or misspelt here.
    assert found.problems() == ("Budgets name groups in which the hub has no user, so they limit nobody: strict.",)
    over = found.over("ada", ())
    assert over is not None
    assert (over.hours, over.budget.hours) == (12, 10)
    assert found.over("bob", ()) is None, "the hub tells the groups of a start"
    of_group = found.over("bob", ("maths",))
    assert of_group is not None
    assert (of_group.subject, of_group.hours) == ("maths", 31)
    strict = found.over("bob", ("strict",))
    assert strict is not None
    assert strict.budget.hours == 1
    many = [f"group-{number}" for number in range(998)]
    assert found.over("bob", (*many, "maths", "strict")) is not None
    assert found.over("zoe", many) is None
    assert [each.is_over for each in found.standings("zoe", ("strict",))] == [False, False]
    for jump in (timedelta(hours=2), timedelta(hours=-2)):
        now = NOW + jump
        assert found.over("ada", ()) is None, "old figures, and those of a clock that jumped, say nothing"
        assert found.standings("ada", ()) == ()


async def test_a_group_whose_members_are_not_known_is_never_over(database: HistoryDatabase) -> None:
    async def hub(_: web.Request) -> web.Response:
        return web.json_response({"message": "Missing scopes"}, status=403)

    database.add((used("1", "bob", 9), used("2", "carl", 40)))
    async with serving(hub) as address:
        found = budget_use(database, lambda: NOW, f"{address}/hub/api")
        await found.refresh()
    assert found.is_known
    assert found.over("bob", ("maths",)) is None
    assert found.over("carl", ()) is not None


async def test_without_a_history_no_one_is_over(database: HistoryDatabase, tmp_path: Path) -> None:
    found = budget_use(None, lambda: NOW)
    await found.refresh()
    assert not found.is_known
    assert found.over("ada", ("maths",)) is None
    database.add((used("1", "ada", 12),))
    broken = budget_use(database, lambda: NOW)
    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        connection.execute("DROP TABLE launches")
    await broken.refresh()
    assert not broken.is_known
    assert broken.over("ada", ()) is None


@pytest.mark.promise("A user over budget borrows devices while any is free, and leaves warm ones to others else.")
async def test_borrowing_of_a_real_service(embedded_cluster: ClusterUnderTest) -> None:
    await set_up(embedded_cluster, {"gpu": SHAPE}, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    placeholders = {"gpu": {"min": 1}}
    async with replica(embedded_cluster, placeholders=placeholders, budgets=POLICY, enforce_budgets=True) as service:
        await service.until_warm(SHAPE, 1)
        history = service.context.history
        assert history is not None
        await service.until(lambda: history.recorder.database is not None, "the history is open")
        database = history.recorder.database
        assert database is not None
        database.add((used("1", "ada", 12, datetime.now(UTC)),))
        await service.context.budget_use.refresh()
        free = await service.place(SHAPE, "ada-1", user="ada", groups=["maths"])
        assert (free["state"], free["behind"], free["note"]) == ("ready", False, ""), "another device is free"
        await service.start(SHAPE, "ada-1", WHOLE, free)
        await service.until_running("ada-1")
        # The new placeholder has the last device.
        await service.until_warm(SHAPE, 1)
        scarce = await service.place(SHAPE, "ada-2", user="ada")
        assert (scarce["state"], scarce["claims"], scarce["behind"]) == ("after-preemption", {}, True)
        assert scarce["note"] == (
            "You have used 12 of your 10 device-hours in the last 7 days. "
            "No device is free at the moment, so users within their budget come first."
        )
        others = await service.place(SHAPE, "bob", user="bob")
        assert (others["state"], others["behind"]) == ("ready", False)
        for wrong in ({"user": 5}, {"user": "x" * 300}, {"groups": "maths"}, {"groups": ["a"] * 1001}):
            status, answer = await service.ask(
                {"shape": SHAPE.id, "pod": "p", "namespace": embedded_cluster.namespace, **wrong}
            )
            assert (status, answer["detail"].partition(":")[0]) == (400, next(iter(wrong)))

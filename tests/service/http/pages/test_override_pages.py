"""The pages with overrides of placeholders, without a cluster: filters, missing data, and names as text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dra_spawner.history.decision_log import Decision
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.pages import override_pages, timeline_handler, today_page
from tests.local_server import get
from tests.service.open_service import open_to_all, web_service

EVIL = "<script>alert(1)</script>"
DECISION = '<td data-label="decision">delete-placeholder'
PAGES = {
    "placeholders": override_pages.PlaceholdersPage,
    "calendar": override_pages.CalendarPage,
    "decisions": override_pages.DecisionsPage,
    "audit": override_pages.AuditPage,
    "what-if": override_pages.WhatIfPage,
    "timeline": timeline_handler.TimelinePage,
    "today": today_page.TodayPage,
}


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    pages = [(f"open/{name}", open_to_all(each, EVIL)) for name, each in PAGES.items()]
    async with web_service(context, *pages) as found:
        yield f"{found}/open"


def decide(
    context: ServiceContext, number: int, kind: str = "delete-placeholder", reason: str = "Because.", **fields: Any
) -> None:
    at = datetime(2026, 11, 21, 12, number // 60, number % 60, tzinfo=UTC)
    context.decisions.append(Decision(at, kind, f"Pod hub/p{number}", reason, **fields))


async def test_before_the_cluster_is_found(url: str) -> None:
    guesses = (
        "is empty",
        "No users are announced",
        "Nothing is set",
        "Nobody has changed",
        "no choice yet",
        "Nothing is wrong",
        "No server waits",
        EVIL,
    )
    problems = []
    for name in PAGES:
        status, text = await get(f"{url}/{name}")
        wrong = [each for each in guesses if each in text]
        if status != 200 or wrong or "The cluster is not found yet." not in text:
            problems.append(f"{name}: {status}, {wrong}: {text}")
    assert not problems, "\n".join(problems)


async def test_search_and_filters(url: str, context: ServiceContext) -> None:
    for number in range(5):
        decide(context, number, node=f"n{number}")
    decide(context, 9, kind=EVIL, reason=f"{EVIL} % {{{{1}}}}", profile=EVIL, outcome=EVIL)
    for query, count in {
        "search=P3": 1,
        "search=because": 5,
        "kind=delete-placeholder": 5,
        "node=n1": 1,
        "node=n": 0,
    }.items():
        _, text = await get(f"{url}/decisions?{query}")
        assert text.count(DECISION) == count, query
    _, text = await get(f"{url}/decisions?search={EVIL}")
    assert EVIL not in text
    assert text.count("&lt;script&gt;") >= 6
    assert "No decision matches." in (await get(f"{url}/decisions?search=nowhere"))[1]
    assert (await get(f"{url}/decisions?before=many"))[0] == 400


async def test_older_decisions_are_on_the_next_page(url: str, context: ServiceContext) -> None:
    for number in range(150):
        decide(context, number, node="n1")
    _, text = await get(f"{url}/decisions?node=n1")
    assert text.count(DECISION) == 100
    assert 'href="/decisions?node=n1&amp;before=51"' in text
    assert 'data-live="decisions"' in text
    assert "cover the latest 150 decisions, since" in text
    assert "Sat 2026-11-21 12:00 UTC" in text
    _, text = await get(f"{url}/decisions?node=n1&before=51")
    assert text.count(DECISION) == 50
    assert "data-live" not in text.partition("<section")[2].partition(">")[0], "older ones do not change"

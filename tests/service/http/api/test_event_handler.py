"""The stream of changes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial

import aiohttp
import pytest

from dra_spawner.history.decision_log import Decision
from dra_spawner.service.change_feed import ChangeFeed
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.event_handler import EventsHandler
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.polling import eventually
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import UnstartedWatch

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    async with web_service(context, ("events", open_to_all(EventsHandler))) as found:
        yield f"{found}/events"


async def next_event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The next event that is neither a comment nor the heartbeat."""
    while True:
        lines = (await answer.content.readuntil(b"\n\n")).decode().splitlines()
        found = dict(each.split(": ", 1) for each in lines if each and each[0] != ":")
        if found.get("event", "retry") != "age" and found:
            return found


async def test_changes_and_decisions_come_and_a_stream_goes_on(url: str, context: ServiceContext) -> None:
    watch = UnstartedWatch()
    context.follow(watch)
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.content_type == "text/event-stream"
            assert "retry" in await next_event(answer)
            watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n1"}})
            found = await next_event(answer)
            assert (found["event"], found["data"]) == ("changed", '{"resources":["nodes","profiles"]}')
            watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
            found = await next_event(answer)
            assert found["data"] == '{"resources":["nodes","profiles","settings"]}', "hubs look again, as after a drain"
        context.decisions.append(Decision(NOW, "preempted", "Pod hub/p", "A user waits."))
        async with session.get(url, headers={"Last-Event-ID": found["id"]}) as answer:
            assert "event" not in await next_event(answer)
            assert (await next_event(answer))["event"] == "decision"
        for unknown in ("x", "x-1", found["id"].replace("-2", "-99")):
            async with session.get(url, headers={"Last-Event-ID": unknown}) as answer:
                assert (await next_event(answer))["event"] == "reset"
        async with session.head(url) as answer:
            assert answer.status == 200


async def test_the_heartbeat_and_each_answer_say_how_old_the_data_are(url: str, context: ServiceContext) -> None:
    """Not how long ago the stream had something: it goes on while the cluster does not answer."""
    ages: list[str] = []
    async with aiohttp.ClientSession() as session:
        for age in (math.inf, 3.21, 52.0):
            context.feed.data_age = partial(float, age)
            async with session.get(url) as answer:
                ages.append(answer.headers["DRA-Spawner-Data-Age"])
                await answer.content.readuntil(b"\n\n")
                ages.append((await answer.content.readuntil(b"\n\n")).decode())
    beats = [f'event: age\ndata: {{"seconds":{each}}}\n\n' for each in ("null", "3.2", "52.0")]
    assert ages == ["unknown", beats[0], "3.2", beats[1], "52.0", beats[2]]


async def test_heartbeats_go_on_while_much_changes() -> None:
    feed = ChangeFeed(heartbeat_seconds=0.01)
    with feed.stream("", 30) as events:
        found = b""
        while found.count(b"event: age") < 3:
            feed.publish("decision", {})
            found += await anext(events)


async def test_a_first_connection_continues_from_what_the_page_has(url: str, context: ServiceContext) -> None:
    """A browser cannot send a header there."""
    before = context.feed.last_id
    for reason in ("A user waits.", "Another one waits."):
        context.decisions.append(Decision(NOW, "preempted", "Pod hub/p", reason))
    async with aiohttp.ClientSession() as session:
        async with session.get(url, params={"after": before}) as answer:
            assert "event" not in await next_event(answer)
            found = [await next_event(answer) for _ in range(2)]
            assert ["Another" in each["data"] for each in found] == [False, True]
        async with session.get(url, params={"after": before}, headers={"Last-Event-ID": found[0]["id"]}) as answer:
            assert "event" not in await next_event(answer)
            assert await next_event(answer) == found[1]


async def test_streams_are_limited(url: str, context: ServiceContext) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        answers = [await session.get(url) for _ in range(200)]
        async with session.get(url) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
        assert context.feed.streams == 200
        for each in answers:
            each.close()
        await eventually(lambda: context.feed.streams == 0, "closed streams are forgotten")

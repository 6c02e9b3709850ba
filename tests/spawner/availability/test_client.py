"""The hub's questions to the service: their number, their duration, and the effect of a service that fails."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.shown import UNKNOWN
from dra_spawner.spawner.placement.service_address import ServiceAddress
from tests.all_of_them import all_of_them
from tests.log_messages import log_messages
from tests.polling import PATIENCE_SECONDS
from tests.set_clock import SetClock
from tests.spawner.service_stand_in import PREFIX, TOKEN, ServiceStandIn, profile_items

LOG = logging.getLogger("client of availability")


@pytest.fixture
async def service():
    async with ServiceStandIn().listening() as service:
        yield service


def client_of(service):
    return AvailabilityClient(lambda: ServiceAddress(service.url + PREFIX, TOKEN), LOG)


def answering(response):
    async def answer(_):
        return response() if callable(response) else response

    return answer


async def test_many_forms_ask_once(service):
    service.profiles = answering(profile_items(gpu="free"))
    client = client_of(service)
    views = await asyncio.gather(*(client.latest(5) for _ in range(50)))
    assert service.questions == [{}]
    assert {view.of("gpu").state for view in views} == {AvailabilityState.FREE}
    assert views[0].of("other") == UNKNOWN
    assert views[0].age_seconds is not None
    assert 0 <= views[0].age_seconds < PATIENCE_SECONDS


async def test_the_age_of_the_services_answer_counts(service):
    """A header that is none counts as no age."""
    ages = iter(("7", "-3", "1e9", "\u0663", ""))

    async def answer(_):
        return web.json_response({"items": []}, headers={"Age": next(ages)})

    service.profiles = answer
    now = SetClock(100.0)
    client = AvailabilityClient(lambda: ServiceAddress(service.url + PREFIX, TOKEN), LOG, now)
    found = []
    for _ in range(5):
        found.append((await client.latest(5)).age_seconds)
        now.now += 1.0
    assert found == [7, 0, 0, 0, 0]


async def test_a_slow_service_is_asked_less_often(service):
    now = SetClock(100.0)
    durations = [0.1, 1.5, 0.1, 0.1]

    async def answer(_):
        now.now += durations[len(service.questions) - 1]
        return profile_items(gpu="free")

    service.profiles = answer
    client = AvailabilityClient(lambda: ServiceAddress(service.url + PREFIX, TOKEN), LOG, now)
    asked_at: list[float] = []
    for tenths in range(1000, 1060):
        now.now = max(now.now, tenths / 10)
        before = now.now
        await client.latest(5)
        if len(service.questions) > len(asked_at):
            asked_at.append(before)
    assert asked_at[:3] == [100.0, 101.0, 104.0], "a second after the first, twice its duration after the second"


async def test_a_combination_is_asked_for_by_its_name(service):
    async def answer(query):
        return profile_items(**{"gpu/size=5Gi,image=c": "never"}) if query == {"name": "gpu/image=c,size=5Gi"} else {}

    service.profiles = answer
    client = client_of(service)
    assert (await client.of_combination("gpu/image=c,size=5Gi", 5)).state is AvailabilityState.NEVER
    await client.of_combination("gpu/image=c,size=5Gi", 5)
    assert len(service.questions) == 1


async def test_a_combination_that_is_not_published_is_unknown(service, caplog):
    service.profiles = answering(lambda: web.json_response({"message": "none"}, status=404))
    assert await client_of(service).of_combination("gpu/size=5Gi,image=c", 5) == UNKNOWN
    assert log_messages(caplog, LOG.name) == []


async def test_a_slow_service_is_not_waited_for_and_answers_the_next_form(service):
    may_answer = asyncio.Event()

    async def answer(_):
        await may_answer.wait()
        return profile_items(gpu="ready")

    service.profiles = answer
    client = client_of(service)
    first = await client.latest(0.01)
    assert (first.age_seconds, dict(first.choices)) == (None, {})
    may_answer.set()
    assert (await client.latest(5)).of("gpu").state is AvailabilityState.READY
    assert len(service.questions) == 1


@all_of_them(
    "response, logged",
    {
        "500": (lambda: web.Response(status=500), "it answers 500"),
        "redirect": (lambda: web.Response(status=302, headers={"Location": "/"}), "it answers 302"),
        "another address": (lambda: web.Response(status=404), "it answers 404"),
        "no JSON": (lambda: web.Response(text="{"), "its answer is no JSON"),
        "deep JSON": (lambda: web.Response(text="[" * 10**6), "its answer is no JSON"),
        "another version": ({"profiles": []}, "its answer has no list of items"),
        "endless": (lambda: web.Response(body=b" " * (2**23 + 1)), "more than 8388608 bytes"),
    },
)
async def test_a_service_that_fails_makes_availability_unknown(service, response, logged, caplog):
    service.profiles = answering(response)
    view = await client_of(service).latest(5)
    assert (view.age_seconds, view.of("gpu")) == (None, UNKNOWN)
    (message,) = log_messages(caplog, LOG.name)
    assert logged in message
    assert TOKEN not in message
    caplog.clear()


async def test_a_service_that_is_away_makes_availability_unknown(caplog):
    client = AvailabilityClient(lambda: ServiceAddress("http://127.0.0.1:1/", TOKEN), LOG)
    assert (await client.latest(5)).of("gpu") == UNKNOWN
    nowhere = AvailabilityClient(lambda: None, LOG)
    assert (await nowhere.latest(5)).of("gpu") == UNKNOWN
    assert len(log_messages(caplog, LOG.name)) == 2

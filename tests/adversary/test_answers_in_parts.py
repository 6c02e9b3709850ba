"""Answers of hub and service that come in several packets: none counts as one that cannot be read."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import aiohttp
from aiohttp import web

from dra_spawner.commands.trying.hub_client import HubClient
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.names import IDLE_NOTICE
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from dra_spawner.spawner.idle_devices.keep_handlers import NotKept, keep_server
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.placement.standing import own_budget_sentences
from tests.local_server import serving
from tests.spawner.service_stand_in import TOKEN, service_of_the_hub

#: What each asker understands of it.
ANSWER: Final = {"isEnforced": True, "sentences": ["2 of 10 hours."], "detail": "Kept twice already.", "version": "1"}
LOG: Final = logging.getLogger(__name__)


async def in_parts(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=409 if request.path.endswith("keep") else 200)
    await response.prepare(request)
    whole = json.dumps(ANSWER).encode()
    for part in (whole[:20], whole[20:40], whole[40:]):
        await response.write(part)
        await asyncio.sleep(0.02)  # so that the parts are packets of their own
    return response


async def budgets(url: str) -> Any:
    return await own_budget_sentences("dra-spawner", "ada", ["maths"], LOG)


async def keep(url: str) -> Any:
    now = utc_now()
    pod = {"metadata": {"annotations": {IDLE_NOTICE: Notice(warned_at=now, stops_at=now).text()}}}
    spawner = SimpleNamespace(
        placeholder_service="dra-spawner", placeholder_service_ca_file="", namespace="hub", pod_name="jupyter-ada"
    )
    server: Any = SimpleNamespace(pod=lambda: pod, spawner=spawner, pod_key="hub/jupyter-ada", log=LOG)
    try:
        await keep_server(server)
    except NotKept as refused:
        return str(refused)


async def trial(url: str) -> Any:
    async with aiohttp.ClientSession() as session:
        return await HubClient(session, url, TOKEN).get("hub/api/user")


class Examination(DoctorReader):
    """Of a hub alone."""

    async def body(self, url: str) -> Any:
        answer = await self._ask("the hub", url, "hub/api")
        return answer and answer.body


async def examination(url: str) -> Any:
    return await Examination(cast(Any, None), Questions("hub")).body(url)


ASKERS: Final[dict[Callable[[str], Awaitable[Any]], Any]] = {
    budgets: ("2 of 10 hours.",),
    keep: "Kept twice already.",
    trial: ANSWER,
    examination: ANSWER,
}


async def test_an_answer_in_parts_is_read_to_its_end() -> None:
    async with serving(in_parts) as url:
        with service_of_the_hub(url):
            found = {ask: await ask(url) for ask in ASKERS}
    forget_hub()
    assert found == ASKERS

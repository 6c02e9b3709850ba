"""Names that somebody invents, at every address of the service and of the hub: nothing of them is kept."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from prometheus_client import generate_latest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.web_application import ADDRESSES
from dra_spawner.service.web_settings import WebSettings
from dra_spawner.spawner.availability.availability_handler import AvailabilityHandler
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.form_choices import FormChoices, FormOption
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub, this_hub
from tests.examples import example_count
from tests.placeholders.controller.objects import shape
from tests.service.device_board import some_of_all
from tests.service.open_service import whole_service
from tests.service.unstarted_watch import unstarted_controller

IS_LONG: Final = example_count(100) == 100
NAMES: Final = 100 if IS_LONG else 9
"""For each address, method and way to ask."""
MANY: Final = {"api/profiles": 10_000} if IS_LONG else {}
"""Names for addresses that compute an answer for one name."""
WARM: Final = 3
"""Requests before the first measurement, which fill what is made once."""
HUB_WARM: Final = 510
"""Requests that fill the hub's caches: more than combinations are kept."""
HUB_NAMES: Final = 10_000 if IS_LONG else 70
NOT_ASKED: Final = ("api/events",)
"""A stream of 45 s; the number of streams is limited."""
ASK_CLUSTER: Final = ("api/settings/", "api/servers/", "api/devices/")
"""Addresses that change objects; there is no cluster here, so they fail."""
PARAMETERS: Final = (
    "name",
    "profile",
    "choice",
    "node",
    "user",
    "server",
    "kind",
    "continue",
    "subject",
    "state",
    "code",
)
BODIES: Final[dict[str, dict[str, Any]]] = {
    "api/placements": {"shape": "{}", "namespace": "{}", "pod": "{}"},
    "api/placeholders/resume": {"name": "{}"},
    "api/rehearsals": {"line": "3 of {} at 17:00"},
    "api/what-if": {"profile": "{}", "servers": 1},
    "api/calendar-entries": {"name": "{}", "profile": "{}"},
}


NOT_OURS: Final = (type, ModuleType, FunctionType, asyncio.AbstractEventLoop, logging.Logger)
"""What holds others without keeping them; pytest's handler of logs is a logger's."""


def entries(root: object) -> int:
    """Members of all containers that an object holds, itself or by others."""
    found, seen, stack = 0, set[int](), [root]
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, NOT_OURS):
            continue
        seen.add(id(each))
        if isinstance(each, (dict, list, set, deque)):
            found += len(each)
        stack += gc.get_referents(each)
    return found


def measured(context: ServiceContext) -> tuple[int, int, int]:
    """Entries, tasks and series of metrics."""
    gc.collect()
    series = [line for line in generate_latest(context.registry).decode().splitlines() if not line.startswith("#")]
    return entries(context), len(asyncio.all_tasks()), len(series)


async def ask(session: aiohttp.ClientSession, url: str, method: str, address: str, name: str) -> int:
    path, body = address, None
    for part in ("{name}", "{id}", "{user}", "{node}", "{device}"):
        path = path.replace(part, name)
    if method in ("POST", "PUT"):
        body = filled(BODIES.get(address, {"min": 1, "name": "{}"}), name)
    query = dict.fromkeys(PARAMETERS, name) if method == "GET" and path == address else {}
    async with session.request(method, url + path, params=query, json=body, allow_redirects=False) as answer:
        await answer.read()
        return answer.status


def filled(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value.format(name) if isinstance(value, str) else value for key, value in body.items()}


async def ask_all(session: aiohttp.ClientSession, url: str, address: str, name: str) -> set[int]:
    """Each method, with a name among all parameters, and with a name alone."""
    found = {await ask(session, url, method, address, name) for method in ("GET", "POST", "PUT", "DELETE")}
    async with session.get(f"{url}{address}", params={"name": name}) as answer:
        await answer.read()
    return found


async def test_nothing_of_an_invented_name_is_kept() -> None:
    controller = unstarted_controller(
        ControllerSettings("hub", replicas={"gpu": ReplicaRange(1, 1)}), some_of_all("", "")
    )
    controller.shapes.put(published_config_map(PublishedShapes({"gpu": shape({})}), "hub", {}))
    context = ServiceContext(WebSettings("/"), DecisionLog(5), max_staleness_seconds=60)
    context.follow(controller.watch, controller)
    problems, statuses, failed = list[str](), set[int](), set[str]()
    async with whole_service(context) as url, aiohttp.ClientSession() as session:
        for address, _ in ADDRESSES:
            if address in NOT_ASKED:
                continue
            for number in range(WARM):
                await ask_all(session, url, address, f"warm-{number}")
            before = measured(context)
            for number in range(MANY.get(address, 0)):
                await ask(session, url, "GET", address, f"much-invented-{number}")
            for number in range(NAMES):
                found = await ask_all(session, url, address, f"invented-{number}")
                statuses |= found
                if 500 in found:
                    failed.add(address)
            after = measured(context)
            if any(later > earlier + NAMES // 3 for earlier, later in zip(before, after, strict=True)):
                problems.append(f"{address}: {before} -> {after}")
    assert problems == []
    assert {each for each in failed if not each.startswith(ASK_CLUSTER)} == set()
    assert {400, 404, 405} <= statuses, "requests arrive"


class Asked(AvailabilityHandler):
    """The hub's address of availability, for a form of a logged-in user; it keeps its answer."""

    form: FormChoices
    client: AvailabilityClient
    answer: Any = None

    def server_parts(self) -> Any:
        return SimpleNamespace(form=self)

    @property
    def availability(self) -> AvailabilityClient:
        return self.client

    async def choices_of_form(self) -> FormChoices:
        return self.form

    def finish(self, chunk: Any = None) -> Any:
        self.answer = chunk


async def test_the_hub_keeps_nothing_of_an_invented_name() -> None:
    """Names of profiles, of options and of choices, and combinations that the form has: too many to be kept."""
    size, image = (FormOption(each, "0", tuple(map(str, range(200)))) for each in ("size", "image"))
    form, log = FormChoices((("gpu", (size, image)), ("plain", ()))), logging.getLogger("hub")
    client = AvailabilityClient(lambda: None, log)
    encoded: OrderedDict[Any, str] = this_hub().shared("encoded availability", OrderedDict)
    kept = client, form, encoded
    application = Application(headers={"Content-Security-Policy": "x"}, log=log)

    def handler_for(*asked: str) -> Asked:
        query = urlencode([("name", each) for each in asked] + [("user", "nobody"), ("server", asked[0])])
        start = RequestStartLine("GET", f"/hub/dra-spawner/availability?{query}", "HTTP/1.1")
        connection: Any = SimpleNamespace(context=None, set_close_callback=lambda _: None)
        request = HTTPServerRequest(headers=HTTPHeaders({"Host": "h"}), connection=connection, start_line=start)
        found = Asked(application, request)
        found.form, found.client = form, client
        return found

    async def ask_for(number: int) -> None:
        asked = f"much-{number}", f"gpu/size={number}", f"gpu/size={number},colour=red", f"plain/image={number}"
        combination = f"gpu/size={1 + number % 199},image={1 + number // 199 % 199}"
        handler = handler_for(*asked, combination)
        await handler.get()
        found = json.loads(handler.answer)["choices"]
        assert all(found[each]["state"] == "unknown" for each in (*asked, combination))

    for number in range(HUB_WARM):
        await ask_for(number)
    gc.collect()
    before = entries(kept), len(asyncio.all_tasks())
    for number in range(HUB_WARM, HUB_WARM + HUB_NAMES):
        await ask_for(number)
    gc.collect()
    assert (entries(kept), len(asyncio.all_tasks())) <= (before[0] + 5, before[1])
    forget_hub()

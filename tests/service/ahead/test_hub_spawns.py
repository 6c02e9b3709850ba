"""The hub's pending spawns, as its REST API shows them: here from documents that a hub has sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.spawn_counts import KnownServers, ServerName
from dra_spawner.service.ahead.hub_spawns import HubSpawns
from tests.local_server import serving
from tests.log_messages import log_messages
from tests.placeholders.planner.objects import PLAIN
from tests.polling import eventually
from tests.running import running
from tests.set_clock import SetClock
from tests.virtual_loop import pass_time, run_in_virtual_time

PUBLISHED = PublishedShapes({"gpu": PLAIN, "gpu/memory=large": PLAIN, "cpu": PLAIN})
TOKEN = "0123456789abcdef"
NOT_COUNTED = "Servers that the hub is starting are not counted; all else works: "
NO_RIGHT = (
    f"{NOT_COUNTED}the hub refuses it; the service's role there needs the scopes list:users and read:servers"
    " (helm-values/full.yaml)."
)


def server(name: str = "", pending: str | None = "spawn", **options: Any) -> dict[str, Any]:
    """As JupyterHub's `server_model`, as far as it is read."""
    return {"name": name, "pending": pending, "ready": pending is None, "stopped": False, "user_options": options}


def user(name: str, *servers: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "user", "name": name, "admin": False, "servers": {each["name"]: each for each in servers}}


class Hub:
    """Answers ``GET users`` in pages of three, as JupyterHub does."""

    def __init__(self, *users: dict[str, Any]) -> None:
        self.users = list(users)
        self.pages = 0
        self.answer: Callable[[], web.StreamResponse] | None = None

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/hub/api/users"
        assert request.headers["Authorization"] == f"token {TOKEN}"
        assert request.headers["Accept"] == "application/jupyterhub-pagination+json"
        assert request.query["state"] == "active"
        self.pages += 1
        if self.answer is not None:
            return self.answer()
        offset, limit, total = int(request.query["offset"]), min(3, int(request.query["limit"])), len(self.users)
        following = {"offset": offset + limit, "limit": limit, "url": "http://elsewhere.example.com/"}
        pagination = {
            "offset": offset,
            "limit": limit,
            "total": total,
            "next": following if offset + limit < total else None,
        }
        return web.json_response({"items": self.users[offset : offset + limit], "_pagination": pagination})


def spawns_of(url: str, known: KnownServers | None = None, clock: SetClock[float] | None = None) -> HubSpawns:
    there = known or KnownServers()
    return HubSpawns(f"{url}/hub/api", TOKEN, lambda: PUBLISHED, lambda: there, now=clock or SetClock(1000.0))


async def test_only_servers_that_are_starting_count_and_by_their_choice() -> None:
    hub = Hub(
        user("ada", server(profile="gpu"), server("second", profile="gpu", memory="large")),
        user("bob", server(pending=None, profile="gpu")),
        user("cem", server(pending="stop", profile="gpu")),
        user("dan", server(profile="gpu", memory="small"), server("other", pending=None)),
        user("eve", server(**{"profile": "gpu", "memory--unlisted-choice": "7Gi"})),
        user("fay"),
        user("gil", server()),
        user("hal", server(**{"profile": "gpu", names.TRIAL_OPTION: "true"})),
    )
    async with serving(hub) as url:
        spawns = spawns_of(url)
        assert spawns.pending("gpu") == 0
        await spawns.refresh()
    assert hub.pages == 3
    assert (spawns.pending("gpu"), spawns.pending("gpu/memory=large"), spawns.pending("cpu")) == (2, 1, 0)
    assert (spawns.pending("gpu/*"), spawns.pending("")) == (1, 1)
    assert spawns.problems() == ()


async def test_spawns_with_a_pod_in_the_cluster_do_not_count() -> None:
    hub = Hub(*(user(f"user-{number}", server(profile="gpu")) for number in range(7)))
    async with serving(hub) as url:
        clock, with_pod = SetClock(1000.0), {ServerName("user-0", ""), ServerName("user-6", "")}
        spawns = spawns_of(url, KnownServers(with_pod, [["gpu"]]), clock)
        await spawns.refresh()
    assert spawns.pending("gpu") == 4
    with_pod.add(ServerName("user-1", ""))
    clock.now += 2
    assert spawns.pending("gpu") == 3, "a pod that came since counts at once"


async def test_without_the_scopes_one_sentence_says_so_and_nothing_counts(caplog: Any) -> None:
    hub = Hub(user("ada", server(profile="gpu")))
    no_scope: Any = {"status": 403, "message": "no"}
    async with serving(hub) as url:
        spawns = spawns_of(url)
        await spawns.refresh()
        for status, said in ((403, no_scope), (200, [{"kind": "user", "name": "ada"}])):
            caplog.clear()
            assert spawns.pending("gpu") == 1
            hub.answer = lambda status=status, said=said: web.json_response(said, status=status)
            for _ in range(3):
                await spawns.refresh()
            assert (spawns.problems(), spawns.pending("gpu")) == ((NO_RIGHT,), 0), said
            assert len(log_messages(caplog)) == 1
            hub.answer = None
            await spawns.refresh()
            assert (spawns.problems(), spawns.pending("gpu")) == ((), 1), said


async def test_an_answer_that_cannot_be_used_leaves_the_last_one_for_two_minutes() -> None:
    login = {"Location": "/hub/login"}
    answers: dict[str, Callable[[], web.Response]] = {
        "the hub answers with status 503": lambda: web.Response(status=503),
        "the hub answers with status 302": lambda: web.Response(status=302, headers=login),
        "the hub's answer is not JSON": lambda: web.Response(text="<html>"),
        "the hub's answer is not a list of users": lambda: web.json_response({"items": 3}),
        "the hub's answer has a user without a name": lambda: web.json_response([3]),
    }
    hub, clock = Hub(user("ada", server(profile="gpu"))), SetClock(1000.0)
    async with serving(hub) as url:
        for cause, answer in answers.items():
            spawns, hub.answer = spawns_of(url, clock=clock), None
            await spawns.refresh()
            hub.answer = answer
            await spawns.refresh()
            assert spawns.problems() == (f"{NOT_COUNTED}{cause}.",)
            clock.now += 120
            assert spawns.pending("gpu") == 1, cause
            clock.now += 1
            assert spawns.pending("gpu") == 0, cause


async def test_an_unreachable_hub_is_reported_without_its_address() -> None:
    async with serving(Hub()) as url:
        pass
    spawns = spawns_of(url)
    await spawns.refresh()
    (problem,) = spawns.problems()
    assert "the hub cannot be reached: Connect call failed" in problem


async def test_pages_always_end() -> None:
    nexts: list[Any] = [{"next": {"offset": each}} for each in (0, -5, "3")]
    for page in (*({"items": [], "_pagination": each} for each in (*nexts, 3)), {"items": []}, []):
        hub = Hub()
        hub.answer = lambda page=page: web.json_response(page)
        async with serving(hub) as url:
            spawns = spawns_of(url)
            await spawns.refresh()
        assert (hub.pages, spawns.problems()) == (1, ()), page


async def test_options_are_any_json_of_a_user() -> None:
    nonsense: list[Any] = [None, 3, "gpu", ["gpu"], {"profile": {"gpu": 1}}, {"profile": "gpu", "x" * 10**5: "y"}]
    users = [user(f"user-{number}", server() | {"user_options": each}) for number, each in enumerate(nonsense)]
    users.append({"name": "no-servers", "servers": None})
    users.append({"name": "other-servers", "servers": {"": None, "a": [], "b": {"pending": ["spawn"]}}})
    assert json.dumps(users)
    async with serving(Hub(*users)) as url:
        spawns = spawns_of(url)
        await spawns.refresh()
    assert spawns.problems() == ()
    assert (spawns.pending(""), spawns.pending("gpu")) == (5, 1)


async def test_the_hub_is_asked_while_it_starts_servers_and_seldom_else() -> None:
    """Each question is a line in the hub's log: every five seconds made 17,000 a day."""
    hub = Hub(user("ada", server(profile="gpu")))
    async with serving(hub) as url:
        spawns = HubSpawns(f"{url}/hub/api", TOKEN, lambda: PUBLISHED, KnownServers, interval_seconds=0.001)
        assert spawns.idle_seconds >= 120
        async with running(spawns.run()):
            await eventually(lambda: hub.pages >= 3, "a server without a pod: it asks again and again")
            hub.users = []
            await eventually(lambda: not spawns.pending("gpu"), "no server is starting")
            asked, others = hub.pages, 100
            for _ in range(others):
                await spawns_of(url).refresh()
            assert hub.pages - asked <= others + 10, "its pauses double meanwhile"
            hub.users = [user("bob", server(profile="gpu"))]
            spawns.note_new_pod()
            await eventually(lambda: spawns.pending("gpu") == 1, "a new pod: it asks at once")


class _Asked(HubSpawns):
    """Notes when it would ask."""

    times: list[float]

    async def refresh(self) -> None:
        self.times.append(asyncio.get_running_loop().time())


def test_the_hub_is_asked_after_a_form_was_left() -> None:
    """A hook of the hub holds back the pods, so the form is the only sign of starts."""

    async def forms() -> list[float]:
        loop = asyncio.get_running_loop()
        spawns = _Asked("http://hub/api", TOKEN, lambda: PUBLISHED, KnownServers, now=loop.time)
        spawns.times = []
        async with running(spawns.run()):
            await pass_time(600)
            begun, known = loop.time(), len(spawns.times)
            for _ in range(3):
                spawns.note_form()
                await pass_time(3)
            await pass_time(8)
            return [each - begun for each in spawns.times[known:]]

    (asked,) = run_in_virtual_time(forms())
    assert asked == 16, "ten seconds after its last question"

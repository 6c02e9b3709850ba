"""Servers that hold devices but are idle: who is warned, who is stopped, and who is not, on a real hub."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.kube.leader import NotLeading
from dra_spawner.service.idle.hub_reports import HubReports, NotStopped
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.device_questions import new_token, server_tokens
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_with_service import log_in
from tests.integration.idle_hub import POLICY, IdleHub, idle_hub
from tests.integration.service_process import free_url
from tests.polling import eventually
from tests.service.replica import TOKEN

WARN, WITHDRAW, STOP = ("warn-idle-server", "done"), ("withdraw-idle-warning", "done"), ("stop-idle-server", "done")


def report(state: str = "idle", **more: Any) -> dict[str, Any]:
    """What a server reports; its kernel was used a day ago."""
    last = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    return {"kernels": [{"execution_state": state, "last_activity": last}], "terminals": [], "connections": 0, **more}


class Server:
    """Ada's server, whose reports the test sends."""

    def __init__(self, world: IdleHub, token: str) -> None:
        self.world = world
        self.token = token

    async def says(self, state: str = "idle", **more: Any) -> Any:
        status, answer = await self.world.asked("activity", self.token, report(state, **more))
        assert status == 200, answer
        return answer

    async def pass_minutes(self, minutes: int, state: str = "idle") -> None:
        """Looks and reports, one after the other."""
        for _ in range(minutes):
            await self.says(state)
            await self.world.pass_minutes(1)


async def started(world: IdleHub, user: str = "ada", profile: str = "share") -> Server:
    """A running server, whose pod the service sees."""
    await world.hub.spawn(user, {"profile": profile})
    await world.hub.until_ready(user)
    token = (await server_tokens(world.service.cluster))[f"jupyter-{user}"]

    async def is_seen() -> bool:
        return profile == "none" or user in await world.look()  # from now on the hub takes reports

    await eventually(is_seen, "the service sees it")
    return Server(world, token)


async def test_warned_used_kept_and_stopped(embedded_cluster: ClusterUnderTest) -> None:
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with idle_hub(embedded_cluster) as world:
        ada = await started(world)
        plain = await started(world, "bob", "none")
        await plain.says()

        async def is_seen() -> bool:
            await ada.says()
            return {name: each.judgement.verdict for name, each in (await world.look()).items()} == {"ada": "idle"}

        await eventually(
            is_seen,
            "servers with devices are seen, and no others",
            shows=lambda: (world.idle.seen, world.idle.problems()),
        )
        await ada.pass_minutes(6)
        assert world.decided() == [WARN]

        async def is_warned() -> Any:
            return (await ada.says())["idle"]

        warning = await eventually(is_warned, "the hub shows the warning")
        assert warning["may_keep"]
        assert "so it is stopped in about" in warning["sentence"]

        # A kernel computes: whatever else is seen, nothing is stopped.
        await ada.pass_minutes(1, "busy")
        assert world.decided() == [WARN, WITHDRAW]
        await ada.pass_minutes(8, "busy")
        assert world.decided() == [WARN, WITHDRAW]

        # Idle again, and kept by the hub's page.
        await ada.pass_minutes(7)
        assert world.decided()[2:] == [WARN]
        await eventually(is_warned, "the hub shows the warning")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            await log_in(browser, world.hub.url, "ada")
            async with browser.get(f"{world.hub.url}/hub/home") as page:
                home = await page.text()
            assert "Your server is idle" in home
            form = dict(re.findall(r'name="(_xsrf|server)" value="([^"]*)"', home[home.index("keep-form") :]))
            address = f"{world.hub.url}/hub/dra-spawner/keep-form"
            async with browser.post(address, data={"server": ""}, allow_redirects=False) as answer:
                assert answer.status == 403, "without the token of the page"
            async with browser.post(address, data=form, allow_redirects=False) as answer:
                assert (answer.status, answer.headers.get("Location")) == (302, "/hub/home"), await answer.text()
        assert world.decided()[-1] == ("keep-idle-server", "done")
        kept = await world.notice("jupyter-ada")
        assert (kept.kept, kept.warned_at) == (1, None)
        await ada.pass_minutes(8)
        assert world.decided()[-1] == ("keep-idle-server", "done")

        # Its time is over; it may be kept once.
        await ada.pass_minutes(4)
        assert world.decided()[-1] == WARN

        async def cannot_be_kept() -> bool:
            return not (await is_warned() or {"may_keep": True})["may_keep"]

        await eventually(cannot_be_kept, "the button is gone")
        assert await world.asked("keep", ada.token, {}) == (
            409,
            {"status": 409, "message": "This server was kept once already. Use its device, or save your work."},
        )
        for _ in range(8):
            if world.decided()[-1] != STOP:
                await ada.pass_minutes(1)
        assert world.decided()[-1] == STOP
        assert world.tickets.kept == [("ada", "", ())], "the service of this test knows no choices"

        async def is_gone() -> bool:
            return not await world.runs("ada")

        await eventually(is_gone, "the hub has stopped it")
        status, page_text = await home_of(world, "ada")
        assert status == 200
        assert "Your server was ended" in page_text
        assert "so its devices are free for others now" in page_text
        assert await world.runs("bob")


async def home_of(world: IdleHub, user: str) -> tuple[int, str]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        await log_in(browser, world.hub.url, user)
        async with browser.get(f"{world.hub.url}/hub/home") as page:
            return page.status, await page.text()


async def test_what_prevents_a_stop(embedded_cluster: ClusterUnderTest) -> None:
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with idle_hub(embedded_cluster) as world:
        ada = await started(world)
        await until_warned(world, ada)
        # The hub is away: nothing is known, and nothing is done.
        hub, count = world.idle.hub, len(world.decided())
        world.idle.hub = HubReports(free_url(), TOKEN)
        await world.pass_minutes(8)
        assert len(world.decided()) == count
        assert "the hub cannot be reached" in str(world.idle.problems())
        world.idle.hub = hub
        await ada.pass_minutes(1)
        assert world.decided()[-1] == WITHDRAW, "the time begins anew"

        # A kernel begins to compute between the look and the stop.
        await until_warned(world, ada)
        require = world.idle.require_idle

        async def computes_now(*arguments: Any) -> None:
            await ada.says("busy")
            await require(*arguments)

        world.idle.require_idle = computes_now  # type: ignore[assignment,method-assign] # between two requests
        await ada.pass_minutes(6)
        world.idle.require_idle = require  # type: ignore[method-assign]
        assert world.decided()[-1] == (
            "stop-idle-server",
            "not done: it is used again, or that is not known: A kernel computes.",
        )

        # The hub refuses the stop, as without the scope: its user is still asked, and can keep it.
        await ada.pass_minutes(1, "busy")
        await until_warned(world, ada)

        async def refuses(user: str, server: str) -> None:
            raise NotStopped("the hub refuses it")

        world.idle.hub.stop = refuses  # type: ignore[method-assign,union-attr]
        await ada.pass_minutes(7)
        assert world.decided()[-1] == ("stop-idle-server", "not done: the hub refuses it")
        refused = await world.notice("jupyter-ada")
        assert (refused.warned_at is not None, refused.stopped_at) == (True, None)

        # A new leader finds the pod alone, and begins anew.
        settings = {"policies": {"*": POLICY}}
        await ada.pass_minutes(1, "busy")
        await until_warned(world, ada)
        world.new_leader(settings)
        await ada.pass_minutes(4)
        assert world.decided()[-1] == WITHDRAW
        # Nobody leads: nothing is done.
        await until_warned(world, ada)
        count = len(world.decided())

        def not_leading() -> None:
            raise NotLeading("another replica leads")

        world.idle.may_act = not_leading
        await ada.pass_minutes(7)
        assert len(world.decided()) == count
        assert STOP not in world.decided()

        # The server is started again, with the pod's name: it begins anew.
        world.new_leader(settings)
        await world.hub.stop_server("ada")
        ada = await started(world)
        await ada.pass_minutes(4)
        assert await world.notice("jupyter-ada") == Notice()
        assert STOP not in world.decided()


async def until_warned(world: IdleHub, ada: Server) -> None:
    """Let minutes pass until a warning is written, and the watch shows it."""
    count = world.decided().count(WARN)
    for _ in range(12):
        await ada.pass_minutes(1)
        if world.decided().count(WARN) > count:

            async def is_shown() -> bool:
                await ada.says()
                return (await world.look())["ada"].server.notice.warned_at is not None

            await eventually(is_shown, "the watch shows the warning")
            return
    raise AssertionError(world.decided())


async def test_who_may_report_read_and_keep(embedded_cluster: ClusterUnderTest) -> None:
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with idle_hub(embedded_cluster) as world:
        await world.hub.add_user("root")
        ada = await started(world)
        assert (await ada.says())["again_seconds"] == 30
        own, root = await new_token(world.hub, "ada"), await new_token(world.hub, "root")
        for path in ("activity", "keep"):
            for caller, token in {"nobody": "", "ada's own token": own, "root": root, "a service": TOKEN}.items():
                assert (await world.asked(path, token, report()))[0] == 403, (path, caller)
        for caller, token in {
            "nobody": "",
            "ada": own,
            "root": root,
            "a server": ada.token,
        }.items():
            assert (await world.asked("activity", token))[0] == 403, caller
        assert await world.asked("activity", world.hub.token) == (200, {"version": 1, "servers": []}), "another service"
        status, body = await world.asked("activity", TOKEN)
        assert status == 200
        (server,) = body["servers"]
        assert (server["user"], server["pod"], server["ready"]) == ("ada", "jupyter-ada", True)
        assert await world.asked("keep", ada.token, {}) == (
            409, {"status": 409, "message": "This server is not about to be stopped."},
        )  # fmt: skip
        for nonsense, status in {
            "{": 400,
            "[]": 400,
            '{"kernels": 1}': 400,
            "[" * 100_000: 400,
            " " * 200_000: 413,
        }.items():
            assert (await world.asked("activity", ada.token, nonsense))[0] == status
        status, body = await world.asked("activity", TOKEN)
        assert body["servers"][0]["activity"]["kernels"], "the last good report stays"

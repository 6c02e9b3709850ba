"""An idle server in real JupyterLab on a real hub: the warning, "I still need it", the hub's page, and the list."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from tests.browser.hub_browser import chromium, logged_in, picture
from tests.browser.jupyter_extension import jupyterlab
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.device_questions import new_token
from tests.integration.devices import classes, node_with, shareable
from tests.integration.idle_hub import POLICY, IdleHub, idle_hub
from tests.local_server import get
from tests.polling import eventually

playwright = pytest.importorskip("playwright.async_api")
pytest.importorskip("jupyterlab")
pytest.importorskip("ipykernel")


class Kernel:
    """A kernel of Ada's server, as a notebook has it."""

    def __init__(self, world: IdleHub, token: str) -> None:
        self.url = f"{world.hub.url}/user/ada/api/kernels"
        self.session = aiohttp.ClientSession(headers={"Authorization": f"token {token}"})
        self.id = ""

    async def begin(self) -> None:
        async with self.session.post(self.url, json={"name": "python3"}) as answer:
            assert answer.status == 201, await answer.text()
            self.id = (await answer.json())["id"]

    async def run(self, code: str) -> None:
        """Begin a cell."""
        async with self.session.ws_connect(f"{self.url}/{self.id}/channels") as channels:
            header = {"msg_id": "1", "msg_type": "execute_request", "session": "s", "username": "ada", "version": "5.3"}
            content = {
                "code": code,
                "silent": False,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
            }
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
            await channels.send_str(json.dumps({**message, "buffers": []}))
            async for each in channels:
                if "busy" in str(each.data):
                    return

    async def stop(self) -> None:
        async with self.session.post(f"{self.url}/{self.id}/interrupt"):
            pass


async def idle_look(world: IdleHub, minutes: int) -> None:
    """Let minutes pass, in which the server itself reports."""
    for _ in range(minutes):
        world.skipped += timedelta(minutes=1)
        await world.look()


async def test_a_real_jupyterlab_reports_and_warns(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    config = jupyterlab(cluster.directory / "jupyter")
    settings = {"policies": {"*": {**POLICY, "after_minutes": 5, "notice_minutes": 10}}}
    async with idle_hub(cluster, config, settings) as world, chromium() as browser:
        await world.look()
        await world.hub.spawn("ada", {"profile": "share"})
        await world.hub.until_ready("ada", within_seconds=240)

        async def verdict() -> str:
            found = await world.look()
            return found["ada"].judgement.verdict.value if "ada" in found else ""

        async def is_idle() -> bool:
            return await verdict() == "idle"

        async def is_busy() -> bool:
            return await verdict() == "busy"

        await eventually(is_idle, "the server reports that nothing computes")
        kernel = Kernel(world, await new_token(world.hub, "ada"))
        async with kernel.session:
            await kernel.begin()
            await kernel.run("import time; time.sleep(600)")
            await eventually(is_busy, "a cell is told")
            await kernel.stop()
            await eventually(is_idle, "and its end")

            page = await logged_in(browser, world.hub.url, "ada")
            await page.clock.install()
            await page.goto(f"{world.hub.url}/user/ada/lab")
            panel = page.get_by_role("region", name="My devices")
            await panel.get_by_text("15 GiB of 40 GiB memory").wait_for()

            async def is_warned() -> bool:
                await idle_look(world, 1)
                return (await world.notice("jupyter-ada")).warned_at is not None

            await eventually(is_warned, "the service warns")
            button = panel.get_by_role("button", name="I still need it")

            async def is_shown() -> bool:
                await page.clock.fast_forward(31_000)
                return await button.is_visible()

            await eventually(is_shown, "JupyterLab shows the warning")
            await picture(page, "idle-jupyterlab")
            home = await page.context.new_page()
            await home.goto(f"{world.hub.url}/hub/home")
            await home.get_by_role("button", name="I still need it").wait_for()
            await picture(home, "idle-hub-home")
            await home.set_viewport_size({"width": 390, "height": 800})
            await picture(home, "idle-hub-home-390")
            notified = page.get_by_text("This server is idle and will be stopped")
            await notified.wait_for()
            # On a phone the panel is out of sight: the notification has the button, too.
            # JupyterLab's own requests may be late by the clock that jumps: its dialog about that is in the way of a click.
            await page.locator(".jp-toast-button", has_text="I still need it").dispatch_event("click")

            async def is_kept() -> bool:
                return (await world.notice("jupyter-ada")).kept == 1

            await eventually(is_kept, "one click keeps it")
            await playwright.expect(button).not_to_be_visible()
            await playwright.expect(notified).not_to_be_visible()
            # Times are by the clock of the browser.
            kept = re.compile(
                r"It is kept for you until (\d{4}-\d\d-\d\d )?\d\d:\d\d, also if nothing computes on it\."
            )
            await panel.get_by_text(kept).wait_for()
            await home.reload()
            await home.get_by_text(kept).wait_for()
            await list_pictures(world, page)


async def list_pictures(world: IdleHub, page: Any) -> None:
    """The administrator's page, with and without names."""
    await world.look()
    status, text = await get(f"{world.service.url}/idle-open")
    assert status == 200
    assert '<td class="object">ada' in text
    status, text = await get(f"{world.service.url}/idle-read")
    assert (status, '<td class="object">ada' in text) == (200, False)
    shown = await page.context.new_page()
    await shown.goto(f"{world.service.url}/idle-open")
    await picture(shown, "idle-page")

"""The page of a start that waits: what else would start now, and a hub that is away meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from tests.browser.hub_browser import assert_easy_to_use, chromium, logged_in, picture, press_until
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess
from tests.spawner.service_stand_in import FREE, TOKEN, WAITS, ServiceStandIn, profile_items
from tests.spawner.sized_profiles import sized_share

playwright = pytest.importorskip("playwright.async_api")

#: As an administrator writes a name that looks like HTML.
HOSTILE = "No device &lt;img src=x class=hostile>"
CONFIG = """
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {url!r}, "api_token": {token!r}}})
# After a restart the hub waits this long for a running server. A server that starts gets more time.
c.DRASpawner.http_timeout = 5
c.DRASpawner.start_timeout = 3600
c.DRASpawner.pre_spawn_hook = lambda spawner: setattr(spawner, "http_timeout", 120)
c.DRASpawner.profile_list = {profiles!r}
"""
PROFILES = [
    {**sized_share("GPU slice", "slice", "40Gi", "15Gi", "5Gi"), "default": True},
    {"display_name": HOSTILE, "slug": "cpu"},
]


@dataclass
class Waiting:
    """A hub with one device of 40 GiB, of which a server has 15 GiB; the service's answers, and a browser."""

    hub: HubProcess
    browser: Any
    choices: dict[str, Any]

    async def waiting_page(self, user: str) -> Any:
        """The page of a start that waits for 40 GiB."""
        page = await logged_in(self.browser, self.hub.url, user)
        await page.goto(f"{self.hub.url}/hub/spawn")
        await page.select_option("#profile-option-slice--memory", "40Gi")
        await page.get_by_role("button", name="Start").click()
        await page.locator("#progress-message .dra-line").get_by_text("All devices are too full").wait_for()
        return page


@contextlib.asynccontextmanager
async def waiting_hub(cluster: ClusterUnderTest) -> AsyncIterator[Waiting]:
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with ServiceStandIn().listening() as service:
        choices = {"slice": WAITS, "slice/memory=15Gi": FREE, "slice/memory=5Gi": WAITS, "cpu": FREE}

        async def answer(query: dict[str, Any]) -> dict[str, Any]:
            return profile_items(**choices)

        service.profiles = answer
        # Nothing is prepared here, and the node says nothing about images.
        service.always(lambda: web.Response(status=503))
        config = CONFIG.format(url=service.url, token=TOKEN, profiles=PROFILES)
        hub = HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, config)
        async with hub, chromium() as browser:
            await hub.spawn("ada", {"profile": "slice", "memory": "15Gi"})
            await hub.until_ready("ada")
            yield Waiting(hub, browser, choices)


async def test_what_would_start_now_is_offered_and_starts_with_one_click(embedded_cluster: ClusterUnderTest):
    async with waiting_hub(embedded_cluster) as made:
        page = await made.waiting_page("eve")
        offers = page.get_by_role("region", name="While you wait")
        await offers.get_by_text("It usually takes 4 to 6 min from now.").wait_for()
        buttons = offers.get_by_role("button")
        other = "Start “No device <img src=x class=hostile>” instead"
        await playwright.expect(buttons).to_have_text(["Start “GPU slice, 15 GiB” instead", other])
        assert await page.locator(".hostile").count() == 0
        await assert_easy_to_use(page, "waiting-offers")
        # The focus stays where it is while the other offer is taken.
        await press_until(page, "Tab", ".dra-waiting button:last-child")
        made.choices["slice/memory=15Gi"] = WAITS
        await playwright.expect(buttons).to_have_text([other])
        assert await page.evaluate("document.activeElement.textContent") == other
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/user/eve/**")
        environment = await made.hub.server_environment("eve")
        assert not [name for name in environment if name.startswith("DRA_CLAIM_")]
        _, model = await made.hub.request("GET", "/users/eve")
        assert model["servers"][""]["user_options"] == {"profile": "cpu"}
        pods = (await embedded_cluster.admin.list(embedded_cluster.path("pods")))["items"]
        assert sorted(each["metadata"]["name"] for each in pods) == ["jupyter-ada", "jupyter-eve"]


async def test_offers_end_with_the_wait(embedded_cluster: ClusterUnderTest):
    await embedded_cluster.start_kubelet(
        start_seconds=lambda pod: 3600.0 if pod["metadata"]["name"] == "jupyter-eve" else 0.0
    )
    async with waiting_hub(embedded_cluster) as made:
        page = await made.waiting_page("eve")
        await page.clock.install()
        await page.reload()
        offers = page.get_by_role("region", name="While you wait")
        await offers.get_by_role("button").first.wait_for()
        # From now on the page asks when it is told something, and not every five seconds.
        await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 600"))
        await made.hub.stop_server("ada")
        await page.locator("#progress-message .dra-line").get_by_text("A machine was found.").wait_for()
        await playwright.expect(offers).not_to_be_visible()


async def test_a_lost_connection_is_said_and_found_again(embedded_cluster: ClusterUnderTest):
    async with waiting_hub(embedded_cluster) as made:
        page = await made.waiting_page("eve")
        other = await logged_in(made.browser, made.hub.url, "bob")
        await other.goto(f"{made.hub.url}/hub/spawn")
        await made.hub.lose()
        lost = page.get_by_text("The connection to the hub is lost.")
        await lost.wait_for()
        await other.get_by_text("The hub does not answer. This page asks again every few seconds.").wait_for()
        await assert_easy_to_use(page, "waiting-lost")
        await picture(other, "form-lost")
        await made.hub.come_back()
        # A hub that was restarted does not go on with a start; its page says so, and leads to the form.
        await playwright.expect(lost).not_to_be_visible()
        await playwright.expect(other.get_by_text("The hub does not answer.")).not_to_be_visible()
        await page.get_by_role("button", name="Launch Server").wait_for()
        await page.get_by_text("The hub was restarted while your server was starting.").wait_for()
        await assert_easy_to_use(page, "waiting-over")

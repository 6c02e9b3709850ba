"""The pages after the click: while a server is pending, after its start has failed, and the home page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import jupyterhub
import pytest

from tests.browser.hub_browser import assert_easy_to_use, chromium, logged_in, picture, press_until
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess
from tests.spawner.sized_profiles import sized_share

if TYPE_CHECKING:
    from playwright.async_api import Page

playwright = pytest.importorskip("playwright.async_api")

HOSTILE = "<i class=hostile>share</i>"
#: A file of the hub: without it, starts of 40 GiB give up.
PATIENT = "patient"
SHARE = sized_share(f"A {HOSTILE} &lt;img src=x class=hostile>", "share", "40Gi", "15Gi", "5Gi", default="15Gi")
PROFILES = f"""
c.DRASpawner.profile_list = {[{**SHARE, "default": True}]!r}
c.DRASpawner.start_timeout = 3600

# KubeSpawner's own wait for a pod ends at random from 0.9 to 1.1 of start_timeout: here as early as it can.
import types
import jupyterhub.utils
jupyterhub.utils.random = types.SimpleNamespace(uniform=lambda low, high: low or high / 2)
"""


IMPATIENT = f"""
import os.path


def limit(spawner):
    is_patient = spawner.user_options["memory"] != "40Gi" or os.path.exists({PATIENT!r})
    spawner.start_timeout = 3600 if is_patient else 60


c.DRASpawner.pre_spawn_hook = limit
"""


async def test_servers_that_stay_pending(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    directory = cluster.directory / "hub"
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, PROFILES) as hub, chromium() as browser:
        await hub.spawn("ada", {"profile": "share", "memory": "15Gi"})
        await hub.until_ready("ada")
        page = await logged_in(browser, hub.url, "ada")
        await page.goto(f"{hub.url}/hub/home")
        await page.get_by_text("Your server has 15 GiB of gpu-0 on node-a.").wait_for()
        await assert_easy_to_use(page, "home-running")

        # Two users ask for more than the free amount, one by the keyboard alone.
        page, other = await logged_in(browser, hub.url, "eve"), await logged_in(browser, hub.url, "bob")
        await page.goto(f"{hub.url}/hub/spawn")
        await press_until(page, "Tab", "#profile-option-share--memory")
        await page.keyboard.press("ArrowUp")
        await press_until(page, "Tab", "button[type=submit]")
        await page.keyboard.press("Enter")
        line = page.locator("#progress-message")
        await line.locator(".dra-line").get_by_text("All devices are too full").wait_for()
        await start_of_40_gib(other, hub)
        await press_until(page, "Tab", "#progress-details > summary")
        await page.keyboard.press("Enter")
        await page.locator("#progress-log").get_by_text("cannot allocate all claims").wait_for()
        assert "patient" not in await page.locator("body").inner_text()
        await assert_easy_to_use(page, "start-waits")
        await other.locator("#progress-message .dra-line").get_by_text("One other server has waited longer.").wait_for()
        await line.get_by_text(re.compile(r"\(([1-9]\d+ s|\d+ min) of at most 1 h\)")).wait_for()
        seen = await line.inner_text()
        assert "nodes are available" not in seen
        assert "ada" not in seen
        assert await page.locator("#dra-said").text_content() == re.sub(r" \(.*", "", seen)
        offers = page.get_by_role("region", name="While you wait")
        first = "Start “A share <img src=x class=hostile>, 15 GiB” instead"
        await offers.get_by_role("button", name=first).wait_for()
        await offers.get_by_role("button", name="5 GiB” instead", exact=False).last.wait_for()
        assert await page.locator(".hostile").count() == 0
        await assert_easy_to_use(page, "start-waits-with-offers")


async def start_of_40_gib(page: Page, hub: HubProcess) -> None:
    """Ask for the largest choice in the form."""
    await page.goto(f"{hub.url}/hub/spawn")
    await page.select_option("#profile-option-share--memory", "40Gi")
    await page.get_by_role("button", name="Start").click()


async def test_after_a_failed_start_something_smaller_or_another_try(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    directory = cluster.directory / "hub"
    config = PROFILES + IMPATIENT
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, config) as hub, chromium() as browser:
        await hub.spawn("ada", {"profile": "share", "memory": "15Gi"})
        await hub.until_ready("ada")
        page, other = await logged_in(browser, hub.url, "eve"), await logged_in(browser, hub.url, "bob")
        for each in (page, other):
            await start_of_40_gib(each, hub)
        line = page.locator("#progress-message")
        offers = page.get_by_role("region", name="While you wait")
        await line.get_by_text("The server does not wait any more.").wait_for()
        await page.get_by_role("heading", name="Your server did not start").wait_for()
        failed = await line.inner_text()
        assert failed.startswith("Gave up after 60 seconds. All devices are too full:")
        assert "as soon as" not in failed
        assert not await page.get_by_text("You will be redirected automatically").is_visible()
        for gone in (page.locator("#progress-bar"), offers, page.locator("a.dra-failed")):
            assert not await gone.is_visible()
        await assert_easy_to_use(page, "start-failed")
        smaller = line.get_by_role("button", name="15 GiB”: free now")
        # KubeSpawner's form takes names of choices for HTML; this page has their text.
        assert await smaller.inner_text() == "Start “A share <img src=x class=hostile>, 15 GiB”: free now"
        assert await page.locator(".hostile").count() == 0
        await press_until(page, "Tab", "#progress-message .btn-primary")
        assert await line.locator("a:focus").inner_text() == "Back to the choices"
        await press_until(page, "Tab", ".dra-offer")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/user/eve/**")
        assert (await hub.server_environment("eve"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"
        await page.goto(f"{hub.url}/hub/home")
        await page.get_by_text("Your server has 15 GiB of gpu-0 on node-a.").wait_for()
        assert await page.get_by_role("alert").count() == 0

        again = other.get_by_role("button", name="Back to the choices")
        await again.wait_for()
        address = await again.get_attribute("href")
        assert address == "/hub/spawn/bob"
        assert not await other.get_by_text("nodes are available").first.is_visible(), "the log stays folded"
        await other.reload()
        await other.get_by_role("button", name=re.compile("Relaunch")).wait_for()
        offered = other.get_by_text("free now").locator("visible=true")
        assert await offered.count() == 0, "that may not hold any more"
        await assert_easy_to_use(other, "start-failed-again")
        for step in ("by the same hub", "after a restart of the hub"):
            await other.goto(f"{hub.url}/hub/home")
            await other.get_by_text("Your server did not start").wait_for()
            assert "All devices are too full" in await other.get_by_role("alert").inner_text(), step
            await other.goto(f"{hub.url}{address}")
            assert await other.input_value("#profile-option-share--memory") == "40Gi", step
            if step == "by the same hub":
                await hub.stop()
                await hub.start()
        await other.goto(f"{hub.url}/hub/home")
        await assert_easy_to_use(other, "home-failed")

        # Another try waits, too, until the others stop.
        (directory / PATIENT).touch()
        await press_until(other, "Tab", "#start")
        await other.keyboard.press("Enter")
        await other.locator("#profile-option-share--memory").wait_for()
        await press_until(other, "Tab", "button[type=submit]")
        await other.keyboard.press("Enter")
        await other.locator("#progress-message .dra-line").get_by_text("All devices are too full").wait_for()
        await hub.stop_server("ada")
        await hub.stop_server("eve")
        await other.wait_for_url("**/user/bob/**")
        assert (await hub.server_environment("bob"))["DRA_CLAIM_GPU_MEMORY"] == "40Gi"


ADMIN = """
c.Authenticator.admin_users = {"admin"}
"""


async def test_the_admin_page_shows_choice_and_device(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    directory = cluster.directory / "hub"
    more = PROFILES + ADMIN
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, more) as hub, chromium() as browser:
        await hub.spawn("ada", {"profile": "share", "memory": "15Gi"})
        await hub.until_ready("ada")
        page = await logged_in(browser, hub.url, "admin")
        await page.goto(f"{hub.url}/hub/admin")
        await page.get_by_test_id("user-name-div-ada").wait_for()
        await picture(page, "admin")
        column = page.get_by_test_id("user-row-profile-used")
        if jupyterhub.version_info < (5, 3):
            assert await column.count() == 0
        else:
            await column.get_by_text("share, memory 15Gi: 15 GiB of gpu-0 on node-a").wait_for()

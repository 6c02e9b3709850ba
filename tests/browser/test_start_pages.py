"""What a user sees after the click: while a server waits, when it gives up, and on the home page."""

from __future__ import annotations

import re

import jupyterhub
import pytest

from tests.browser.hub_browser import chromium, logged_in, picture
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess

playwright = pytest.importorskip("playwright.async_api")

pytestmark = pytest.mark.timeout(300)

HOSTILE = "<i class=hostile>share</i>"
PROFILES = f"""
c.DRASpawner.profile_list = [
    {{
        "display_name": "A {HOSTILE} &lt;img src=x class=hostile>",
        "slug": "share",
        "default": True,
        "kubespawner_override": {{"device_claims": {{"gpu": {{"device_class": "gpu-share.example.com"}}}}}},
        "profile_options": {{
            "memory": {{
                "display_name": "Memory",
                "choices": {{
                    size: {{
                        "display_name": size.replace("Gi", " GiB"),
                        "kubespawner_override": {{"device_claims": {{"gpu": {{"capacity": {{"memory": size}}}}}}}},
                    }}
                    for size in ("40Gi", "15Gi", "5Gi")
                }},
            }}
        }},
    }},
]
c.DRASpawner.start_timeout = 24
"""


async def test_a_server_that_waits_in_vain_and_then_a_smaller_one(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    directory = cluster.directory / "hub"
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, PROFILES) as hub, chromium() as browser:
        await hub.spawn("ada", {"profile": "share", "memory": "15Gi"})
        await hub.until_ready("ada")
        page = await logged_in(browser, hub.url, "ada")
        await page.goto(f"{hub.url}/hub/home")
        await page.get_by_text("Your server has 15 GiB of gpu-0 on node-a.").wait_for()
        await picture(page, "home-running")

        page = await logged_in(browser, hub.url, "eve")
        await page.goto(f"{hub.url}/hub/spawn")
        await page.get_by_role("button", name="Start").click()
        line = page.locator("#progress-message")
        await line.locator(".dra-line").get_by_text("All devices are too full").wait_for()
        await line.get_by_text("(10 s of at most 24 s)").wait_for()
        seen = await line.inner_text()
        assert "nodes are available" not in seen
        assert "ada" not in seen
        await page.locator("summary").click()
        await page.locator("#progress-log").get_by_text("cannot allocate all claims").wait_for()
        assert "patient" not in await page.locator("body").inner_text()
        await picture(page, "start-waits")

        await line.get_by_text("The server does not wait any more.").wait_for()
        failed = await line.inner_text()
        assert failed.startswith("Gave up after 24 seconds. All devices are too full:")
        assert "as soon as" not in failed
        assert not await page.get_by_text("You will be redirected automatically").is_visible()
        await picture(page, "start-failed")
        assert await line.get_by_role("button", name="Try again").get_attribute("href") == "/hub/spawn/eve"

        await page.reload()
        await page.get_by_role("button", name=re.compile("Relaunch")).wait_for()
        assert not await page.get_by_text("free now").is_visible(), "that may not hold any more"
        await picture(page, "start-failed-again")
        for step in ("by the same hub", "after a restart of the hub"):
            await page.goto(f"{hub.url}/hub/home")
            await page.get_by_text("Your server did not start").wait_for()
            assert "All devices are too full" in await page.get_by_role("alert").inner_text(), step
            await picture(page, "home-failed")
            if step == "by the same hub":
                await hub.stop()
                await hub.start()

        # A second time, to start what is free then: 25 GiB are left.
        await page.goto(f"{hub.url}/hub/spawn")
        await page.get_by_role("button", name="Start").click()
        smaller = line.get_by_role("button", name="15 GiB”: free now")
        await smaller.wait_for()
        # KubeSpawner's form takes names of choices for HTML; this page has their text.
        assert await smaller.inner_text() == "Start “A share <img src=x class=hostile>, 15 GiB”: free now"
        assert await page.locator(".hostile").count() == 0
        await smaller.click()
        await page.wait_for_url("**/user/eve/**")
        assert (await hub.server_environment("eve"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"
        await page.goto(f"{hub.url}/hub/home")
        await page.get_by_text("Your server has 15 GiB of gpu-0 on node-a.").wait_for()
        assert await page.get_by_role("alert").count() == 0


ADMIN = """
c.Authenticator.admin_users = {"admin"}
"""


async def test_the_admin_page_tells_choice_and_device(embedded_cluster: ClusterUnderTest):
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

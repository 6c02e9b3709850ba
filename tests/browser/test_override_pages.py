"""The pages with overrides of placeholders, of a real service behind a real hub, for readers and operators."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from dra_spawner.kube.client.api import KubernetesError
from tests.browser.hub_browser import (
    assert_easy_to_use,
    barriers,
    chromium,
    picture,
    press_until,
    said,
    watched,
)
from tests.browser.override_hub import HOSTILE, override_hub
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import PROFILE, Hub
from tests.polling import eventually

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

playwright = pytest.importorskip("playwright.async_api")
PAGES = ("", "nodes", "placeholders", "timeline", "calendar", "decisions", "audit")
#: A refusal of the API, which the browser also logs.
REFUSED = "the server responded with a status of 400"


async def opened(page: Page, hub: Hub, name: str) -> None:
    """Open one of the pages, and wait until it follows the service."""
    await page.goto(f"{hub.url}/services/dra-spawner/{name}")
    await page.locator("#freshness[data-state=live]").wait_for()


async def followed(page: Page, link: str) -> None:
    """Click a link of the frame, and wait for the other page with its scripts: its buttons do nothing before."""
    await page.get_by_role("link", name=link).click()
    await page.wait_for_url(f"**/{link.lower()}")


def row_of(page: Page, choice: str) -> Locator:
    return page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=choice))


async def test_numbers_of_placeholders(embedded_cluster: ClusterUnderTest) -> None:
    async with override_hub(embedded_cluster) as hub, chromium() as browser:
        await override_by_keyboard(hub, browser)
        await release(hub, browser)
        await try_again(hub, browser)


async def test_entries_nodes_and_reports(embedded_cluster: ClusterUnderTest) -> None:
    async with override_hub(embedded_cluster) as hub, chromium() as browser:
        await only_read(hub, browser)
        await announce_users(hub, browser)
        await observe(hub, browser)
        await drain_and_stop(hub, browser)
        await read_reports(hub, browser)


async def only_read(hub: Hub, browser: Browser) -> None:
    """A reader sees all pages, and may change nothing."""
    page, errors = await watched(browser, hub, "watcher")
    await opened(page, hub, "placeholders")
    await row_of(page, "gpu-slice").get_by_text("target 2, running 2").wait_for()
    for name in PAGES:
        await opened(page, hub, name)
        assert await page.locator("[data-action-kind], dialog").count() == 0, "a reader has no actions"
        assert await page.locator("img[src=x]").count() == 0
    assert errors == []


async def override_by_keyboard(hub: Hub, browser: Browser) -> None:
    """An operator sets numbers with the keyboard alone, and the row and the focus follow."""
    page, errors = await watched(browser, hub, "operator")
    await opened(page, hub, "placeholders")
    row, dialog = row_of(page, "gpu-slice"), page.get_by_role("dialog")
    assert await page.get_by_role("button", name="Only observe").count() == 0, "that is for administrators"
    await row.get_by_text("placeholders of gpu-slice").click()
    await press_until(page, "Tab", "[data-action-kind=evict]")
    await press_until(page, "Shift+Tab", "[data-action-path='api/settings/placeholders/gpu-slice']")
    await page.keyboard.press("Enter")
    await dialog.get_by_role("heading", name="Set placeholders of gpu-slice").wait_for()
    assert await page.evaluate("document.activeElement.name") == "min"
    await page.keyboard.type("9")
    await press_until(page, "Tab", "[name=max]")
    await page.keyboard.type("4")
    await page.keyboard.press("Enter")
    await dialog.get_by_role("alert").get_by_text("min: found 9; allowed: at most max, which is 4.").wait_for()
    await picture(page, "overrides-dialog-problem")
    await dialog.get_by_label("Fewest").fill("3")
    await dialog.get_by_label("For how long").select_option("date")
    await dialog.get_by_role("textbox", name="Until").fill("2000-01-01T10:00")
    await dialog.get_by_label("For how long").select_option("tonight")
    await dialog.get_by_text("23:59").last.wait_for()
    await dialog.get_by_label("Reason").fill(HOSTILE)
    assert await barriers(page) == []
    await page.keyboard.press("Enter")
    await said(page, "The placeholders of gpu-slice are set.")
    await row.get_by_text("target 3, running 3").wait_for()
    await row.get_by_text("Numbers 3 to 4, by user operator until").get_by_text(HOSTILE).wait_for()
    focused = "[data-action-kind=set-placeholders][data-action-path$=gpu-slice]"
    assert await page.evaluate("element => document.activeElement.matches(element)", focused)
    assert await row.locator("details.list").get_attribute("open") is not None, "an open row stays open"
    await page.keyboard.press("Enter")
    await dialog.wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    assert await page.evaluate("element => document.activeElement.matches(element)", focused)

    await row.get_by_text("Keep it").click()
    await row.get_by_text('"gpu-slice": {min: 3, max: 4}').wait_for()
    await row.get_by_role("button", name="Pause").click()
    await dialog.get_by_role("button", name="Pause").click()
    await row.get_by_role("button", name="Resume").wait_for()
    await row.get_by_role("button", name="Evict").first.click()
    await dialog.get_by_role("button", name="Evict").click()
    await row.get_by_text("target 3, running 2").wait_for()
    await assert_easy_to_use(page, "overrides-placeholders")
    await row.get_by_role("button", name="End setting").click()
    await dialog.get_by_role("button", name="Return").click()
    await dialog.wait_for(state="hidden")
    await row.get_by_text("target 2, running").wait_for()
    await opened(page, hub, "decisions")
    await page.get_by_label("Search").fill("user operator")
    await page.get_by_role("button", name="Show").click()
    await page.get_by_role("cell", name="user operator evicted it").first.wait_for()
    await assert_easy_to_use(page, "overrides-decisions")
    assert [each for each in errors if REFUSED not in each] == []


async def release(hub: Hub, browser: Browser) -> None:
    """An operator releases the reservation of a server that does not come, after a dialog."""
    page, errors = await watched(browser, hub, "operator")
    await opened(page, hub, "placeholders")
    dialog, row = page.get_by_role("dialog"), row_of(page, "gpu-slice")
    await row.get_by_role("button", name="Resume").hover()
    # The button gets its click although the page changes. A page that has just been answered does not ask again
    # until the mouse is released.
    with contextlib.suppress(playwright.TimeoutError):
        async with page.expect_response(lambda each: "live=1" in each.url and each.status == 200, timeout=5000):
            await page.mouse.down()
            await hub.reserve("operator", "jupyter-late")
    await page.mouse.up()
    await dialog.get_by_role("button", name="Cancel").click()
    await row.get_by_text("placeholders of gpu-slice").click()
    button = row.get_by_role("button", name="Release the reservation of")
    await button.click()
    await dialog.get_by_text("The server still starts, if it comes").wait_for()
    await dialog.get_by_role("button", name="Cancel").click()
    assert await button.count() == 1
    await button.click()
    await dialog.get_by_role("button", name="Release").click()
    await button.wait_for(state="detached")
    assert errors == []


async def try_again(hub: Hub, browser: Browser) -> None:
    """An operator ends the pause. Placeholders fail on their nodes until the service creates no more; an operator has them created again."""
    page, errors = await watched(browser, hub, "operator")
    await opened(page, hub, "placeholders")
    dialog, row = page.get_by_role("dialog"), row_of(page, "gpu-slice")
    await row.get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await row.get_by_text("target 2, running 2").wait_for()
    button = row.get_by_role("button", name="Try again to create placeholders of gpu-slice")

    async def has_given_up() -> bool:
        for each in await hub.placeholders():
            if each["spec"].get("nodeName") and each["status"]["phase"] != "Failed":
                path = hub.cluster.path("pods", each["metadata"]["name"], "status")
                with contextlib.suppress(KubernetesError):  # deleted meanwhile
                    await hub.cluster.admin.patch(path, {"status": {"phase": "Failed"}})
        return await button.is_visible()

    await eventually(has_given_up, "no more placeholders are created", pause_seconds=0.2)
    await row.get_by_text("limited").wait_for()
    await row.get_by_text("no more are created until an operator says: try again").wait_for()
    await assert_easy_to_use(page, "overrides-limited")
    await button.click()
    await dialog.get_by_text("Mend the cause first.").wait_for()
    await dialog.get_by_role("button", name="Try again").click()
    await said(page, "Placeholders of gpu-slice are tried again.")
    await row.get_by_text("target 2, running 2").wait_for()
    assert await button.count() == 0
    await opened(page, hub, "audit")
    await page.get_by_role("cell", name="try again").wait_for()
    assert errors == []


async def announce_users(hub: Hub, browser: Browser) -> None:
    """An operator adds a calendar entry, after its rehearsal; timeline and audit trail show it all."""
    page, errors = await watched(browser, hub, "operator")
    await opened(page, hub, "calendar")
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Add an entry").click()
    await dialog.get_by_label("Title").fill("Physics lab")
    await dialog.get_by_label("Users").fill("500")
    await dialog.get_by_role("button", name="Can they start?").click()
    await dialog.get_by_text("No: 480 of 500 users cannot start").wait_for()
    await picture(page, "overrides-dialog-entry")
    await dialog.get_by_label("Users").fill("5")
    await dialog.get_by_role("button", name="Can they start?").click()
    await dialog.get_by_text("Yes: 5 users can start").wait_for()
    await dialog.get_by_role("button", name="Add the entry").click()
    await page.get_by_role("button", name="Delete Physics lab").wait_for()
    await assert_easy_to_use(page, "overrides-calendar")
    await opened(page, hub, "timeline")
    await page.get_by_text("Figures as a table").click()
    table = page.get_by_role("region", name="Figures of the timeline")
    forecast = await table.locator("td[data-label=forecast]").last.inner_text()
    assert forecast.isdigit(), "later placeholders are forecast"
    assert await page.locator(".for-wide rect.wanted").count() > 10
    assert await page.locator(".for-wide .launches").count() > 5
    assert await page.locator(".for-wide .entry title").all_text_contents() != []
    await page.get_by_text("Figures as a table").click()
    await assert_easy_to_use(page, "overrides-timeline")
    await opened(page, hub, "what-if")
    await page.get_by_label("More users").fill("40")
    await page.get_by_label("Node lost").select_option("node-a")
    await page.get_by_role("button", name="Ask").click()
    answer = page.get_by_role("status").get_by_text(
        re.compile(r"of 40 more users of gpu-slice can start; \d+ cannot: ")
    )
    await answer.wait_for()
    assert "users=40" in page.url
    await page.reload()
    await answer.wait_for()
    assert await page.get_by_label("Node lost").input_value() == "node-a"
    await assert_easy_to_use(page, "overrides-what-if")
    await opened(page, hub, "calendar")
    await page.get_by_role("button", name="Delete Physics lab").click()
    await dialog.get_by_text("No placeholders are prepared for its users any more").wait_for()
    await dialog.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete Physics lab").wait_for(state="detached")
    assert errors == []


async def observe(hub: Hub, browser: Browser) -> None:
    """An administrator puts all decisions on hold for a time, and ends the hold in the list of settings."""
    page, errors = await watched(browser, hub, "manager")
    await opened(page, hub, "placeholders")
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Only observe").click()
    await dialog.get_by_label("Reason").fill("repairs")
    await dialog.get_by_role("button", name="Only observe").click()
    await page.get_by_text("The service only observes:").wait_for()
    await opened(page, hub, "audit")
    await assert_easy_to_use(page, "overrides-audit")
    await page.get_by_role("button", name="End observing of service").click()
    await dialog.get_by_role("button", name="Decide again").click()
    await page.get_by_role("cell", name="observing", exact=True).wait_for(state="detached")
    await page.get_by_role("cell", name="deleted").first.wait_for()
    assert errors == []


async def drain_and_stop(hub: Hub, browser: Browser) -> None:
    """An administrator drains a node, ends that, and stops a user's server by the keyboard."""
    status, body = await hub.request("POST", "/users/watcher/server", PROFILE)
    assert status in (201, 202), body
    page, errors = await watched(browser, hub, "manager")
    await opened(page, hub, "nodes")
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Drain: node-b").click()
    await dialog.get_by_text("No user loses a server.").wait_for()
    await dialog.get_by_role("button", name="Drain").click()
    await page.get_by_role("button", name="End draining: node-b").click()
    await dialog.get_by_role("button", name="End draining").click()
    await page.get_by_role("button", name="Drain: node-b").wait_for()

    device = page.locator(".device[data-servers]")
    await device.wait_for()
    await device.focus()
    await page.keyboard.press("Enter")
    await dialog.get_by_role("heading", name="Servers with gpu-").wait_for()
    assert await page.locator("#device-tip").is_hidden()
    await assert_easy_to_use(page, "overrides-servers")
    await drain_device(page, dialog)
    await device.focus()
    await page.keyboard.press("Enter")
    await dialog.get_by_role("button", name="Stop the server of watcher").click()
    await dialog.get_by_role("heading", name="Stop the server of watcher?").wait_for()
    await dialog.get_by_role("button", name="Stop the server").click()
    await said(page, "The server of watcher is being stopped.")
    await device.wait_for(state="detached")
    assert [each for each in errors if REFUSED not in each] == []


async def drain_device(page: Page, dialog: Locator) -> None:
    """Drain the device of the open dialog, with a deadline for its servers, and end that."""
    await dialog.get_by_role("button", name="Drain this device").click()
    await dialog.get_by_role("heading", name="Drain device gpu-").wait_for()
    await dialog.get_by_text("No server ends.").wait_for()
    await dialog.get_by_label("Servers that have it").select_option("date")
    await dialog.get_by_role("textbox", name="End at").fill("2000-01-01T10:00")
    await dialog.get_by_label("Servers that have it").select_option("24")
    await dialog.get_by_text("Servers that still have it end:").wait_for()
    await dialog.get_by_label("Reason").fill("the fan is loud")
    await dialog.get_by_role("button", name="Drain").click()
    await dialog.get_by_role("alert").get_by_text("evict_at: allowed: before until").wait_for()
    await dialog.get_by_label("For how long").select_option("")
    await assert_easy_to_use(page, "overrides-drain-device")
    await dialog.get_by_role("button", name="Drain").click()
    await said(page, "is drained.")
    # The page says it, and its dialog ends it.
    await page.locator(".device", has_text="drained").click()
    await dialog.get_by_role("button", name="End draining this device").wait_for()
    await page.keyboard.press("Escape")
    await followed(page, "Audit")
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name="End device drained of"))
    await row.get_by_text("the fan is loud").wait_for()
    at, end = [await row.locator(f"[data-label={name}] time").get_attribute("datetime") for name in ("by", "until")]
    assert round((datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(at))).total_seconds() / 3600) == 24
    await page.get_by_role("button", name="End device drained of").click()
    await dialog.get_by_text("New servers and placeholders may get the device again").wait_for()
    await dialog.get_by_role("button", name="End draining").click()
    await page.get_by_role("button", name="End device drained of").wait_for(state="detached")
    await followed(page, "Nodes")


async def read_reports(hub: Hub, browser: Browser) -> None:
    """Reports of the last week, and of problems of the cluster; a link of the frame leads to each."""
    page, errors = await watched(browser, hub, "watcher")
    await opened(page, hub, "nodes")
    for link, picture_name in (
        ("Today", "overrides-today"),
        ("Largest misses", "overrides-misses"),
        ("What to fix", "overrides-doctor"),
    ):
        await page.get_by_role("link", name=link).click()
        await page.get_by_role("heading", level=1).filter(has_text=link).wait_for()
        assert await page.get_by_role("link", name=link).get_attribute("aria-current") == "page"
        await assert_easy_to_use(page, picture_name)
    assert errors == []

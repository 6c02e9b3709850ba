"""The queue for devices on the pages of a hub: the way into it, a place, a device that is held, and what comes after."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dra_spawner.placeholders.lifecycle import TicketEvent
from tests.browser.hub_browser import assert_easy_to_use, chromium, late_answers, logged_in, press_until
from tests.browser.ticket_hub import TicketHub, ticket_hub
from tests.cluster.under_test import ClusterUnderTest

playwright = pytest.importorskip("playwright.async_api")

#: What a browser shows that notifies without asking.
NOTIFIED = """
window.notified = [];
window.Notification = class {
  static permission = "granted";
  constructor(title, options) { window.notified.push([title, options.tag]); }
};
"""
TICKETS = "**/dra-spawner/tickets*"
#: Counts how often the page shows a place in the queue.
SEES_PLACES = """
new MutationObserver(([each]) => { window.places += !each.target.hidden; }).observe(
  document.getElementById("dra-tickets"), { attributeFilter: ["hidden"] }
);
"""
TELL = "Tell me when it is free"
REFUSED = f"One person waits for such a device already. Press “{TELL}” to get one in your turn."


def region(page: Any) -> Any:
    return page.get_by_role("region", name="Your place in the queue")


async def open_form(made: TicketHub, page: Any) -> None:
    await page.goto(f"{made.hub.url}/hub/spawn")
    await page.select_option("#profile-option-slice--memory", "15Gi")


async def test_a_place_from_the_form_a_device_that_is_held_and_one_click(embedded_cluster: ClusterUnderTest):
    expect = playwright.expect
    async with ticket_hub(embedded_cluster) as made, chromium() as browser:
        await made.store.join("bob", "slice/memory=15Gi")
        page = await logged_in(browser, made.hub.url, "eve")
        await page.add_init_script(NOTIFIED)
        await open_form(made, page)
        tell = page.get_by_role("button", name=TELL)
        await tell.wait_for()
        await assert_easy_to_use(page, "tickets-form")
        # What is free needs no queue.
        await page.get_by_role("radio", name=re.compile("No .* device")).check()
        await expect(tell).not_to_be_visible()
        await page.get_by_role("radio", name="GPU slice").check()
        # Others are first: the form says what to press, until it is done.
        made.refuse_starts(REFUSED)
        await page.get_by_role("button", name="Start").click()
        refused = page.get_by_text(REFUSED)
        await refused.wait_for()
        await tell.wait_for()
        made.prepare_nothing()
        await press_until(page, "Tab", ".dra-tell button", most=60)
        await page.keyboard.press("Enter")
        await region(page).get_by_text("You are 2nd of 2 in the queue. One person is before you.").wait_for()
        await expect(tell).not_to_be_visible()
        await expect(refused).not_to_be_visible()
        assert await page.evaluate("document.activeElement.textContent") == "Leave the queue", "the focus stays"
        assert "bob" not in await page.content()
        await assert_easy_to_use(page, "tickets-form-place")

        # Another tab, a reload and a restart of the hub: the same place.
        other = await page.context.new_page()
        await open_form(made, other)
        await region(other).get_by_text("You are 2nd of 2").wait_for()
        await expect(other.get_by_role("button", name=TELL)).not_to_be_visible()
        await other.goto(f"{made.hub.url}/hub/home")
        await region(other).get_by_text("You are 2nd of 2").wait_for()
        await assert_easy_to_use(other, "tickets-home")
        await made.hub.lose()
        await other.get_by_text("Your place in the queue is not known now: the hub does not answer.").wait_for()
        await assert_easy_to_use(other, "tickets-lost")
        await made.hub.come_back()
        await region(other).get_by_text("You are 2nd of 2").wait_for()
        await expect(other.get_by_text("not known now")).not_to_be_visible()
        assert await made.order("slice/memory=15Gi") == ["bob", "eve"]

        # A queue that cannot be read.
        before = await made.garble()
        await region(other).get_by_text("Your place is kept; it cannot be shown now.").wait_for()
        await made.set_data(before)

        await made.change("eve", "slice/memory=15Gi", TicketEvent.HOLD, 600)
        ready = region(other).get_by_role(
            "heading", name=re.compile(r"^“GPU slice, 15 GiB” is ready for you until \d\d:\d\d$")
        )
        await ready.wait_for()
        await expect(other).to_have_title("Ready: GPU slice, 15 GiB")
        until = await ready.text_content()
        await expect(other.locator("#dra-tickets-said")).to_have_text(f"{until}.")
        await assert_easy_to_use(other, "tickets-ready")
        await page.wait_for_function("window.notified.length > 0")
        assert [each[0] for each in await page.evaluate("window.notified")] == [until]
        await press_until(other, "Tab", "#dra-tickets .btn-primary")
        await other.keyboard.press("Enter")
        await other.wait_for_url("**/user/eve/**")
        assert (await made.hub.server_environment("eve"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"
        _, model = await made.hub.request("GET", "/users/eve")
        assert model["servers"][""]["user_options"] == {"profile": "slice", "memory": "15Gi"}

        # The next device, while that server runs.
        await made.change("eve", "slice/memory=15Gi", TicketEvent.TAKE)
        await made.store.join("eve", "slice/memory=15Gi")
        await made.change("eve", "slice/memory=15Gi", TicketEvent.HOLD, 1200)
        await other.goto(f"{made.hub.url}/hub/home")
        await expect(ready).not_to_have_text(until)
        await region(other).get_by_role("button", name="Start it").click()
        await other.get_by_text("Your server runs already. Stop it first, then start this choice.").wait_for()

        # Not taken: the ticket ends, and another one is at the end.
        await made.change("eve", "slice/memory=15Gi", TicketEvent.TIME_OVER)
        await region(other).get_by_role("heading", name=re.compile("was ready for you until")).wait_for()
        await assert_easy_to_use(other, "tickets-missed")
        await made.store.join("cyd", "slice/memory=15Gi")
        await region(other).get_by_role("button", name="Join the queue again, at its end").click()
        await region(other).get_by_text("You are 3rd of 3").wait_for()
        # What was asked before a change is answered after it.
        await other.evaluate(SEES_PLACES)
        async with late_answers(other, TICKETS, "GET") as is_there:
            await is_there.wait()
            await region(other).get_by_role("button", name="Leave the queue").click()
            await expect(region(other)).not_to_be_visible()
            await other.evaluate("window.places = 0")
        async with other.expect_response(TICKETS):
            pass
        assert await other.evaluate("window.places") == 0
        assert await made.order("slice/memory=15Gi") == ["bob", "cyd"]


async def test_a_start_that_waits_and_gives_up_keeps_a_place(embedded_cluster: ClusterUnderTest):
    expect = playwright.expect
    async with ticket_hub(embedded_cluster) as made, chromium() as browser:
        await made.hub.spawn("ada", {"profile": "slice", "memory": "15Gi"})
        await made.hub.until_ready("ada")
        page = await logged_in(browser, made.hub.url, "eve")
        await page.goto(f"{made.hub.url}/hub/spawn")
        await page.get_by_role("button", name="Start").click()
        await page.locator("#progress-message .dra-line").get_by_text("All devices are too full").wait_for()
        tell = region(page).get_by_role("button", name=TELL)
        await tell.click()
        await region(page).get_by_text("You are the only one in the queue.").wait_for()
        await assert_easy_to_use(page, "tickets-waiting")
        # The start gives up, and the place stays.
        await page.get_by_role("heading", name="Your server did not start").wait_for()
        await region(page).get_by_text("You are the only one in the queue.").wait_for()
        await assert_easy_to_use(page, "tickets-gave-up")
        await page.reload()
        await page.get_by_role("button", name=re.compile("Relaunch")).wait_for()
        await region(page).get_by_text("You are the only one in the queue.").wait_for()
        await region(page).get_by_role("button", name="Leave the queue").click()
        await expect(region(page).get_by_role("button", name=TELL)).to_be_visible()
        await assert_easy_to_use(page, "tickets-failed")
        await region(page).get_by_role("button", name=TELL).click()
        # The place moves what is below it: a click at this moment would miss.
        await region(page).get_by_text("You are the only one in the queue.").wait_for()

        # A device is held while another start waits: one click ends that one.
        made.be_patient()
        await page.get_by_role("button", name=re.compile("Relaunch")).click()
        await page.get_by_role("button", name="Start", exact=True).click()
        await page.locator("#progress-message .dra-line").get_by_text("All devices are too full").wait_for()
        await made.hub.stop_server("ada")
        await page.wait_for_url("**/user/eve/**")

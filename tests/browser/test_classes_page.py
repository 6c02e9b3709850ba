"""The page Classes of a real service behind a real hub, for a teacher, a student and an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.hub_browser import assert_easy_to_use, chromium, late_answers, said, watched
from tests.browser.override_hub import HOSTILE, override_hub
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import Hub

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

playwright = pytest.importorskip("playwright.async_api")
#: More people than the limit: the browser logs the answer, too.
REFUSED = "the server responded with a status of 409"


async def opened(page: Page, hub: Hub) -> None:
    """Open the page, and wait until its form is filled."""
    await page.goto(f"{hub.url}/services/dra-spawner/classes")
    await page.wait_for_function("() => document.forms['class-form'].elements.begins.value")


def row_of(page: Page, name: str) -> Locator:
    return page.locator("#classes").get_by_role("listitem").filter(has=page.get_by_role("heading", name=name))


async def fill(page: Page, name: str, people: int, choice: str) -> None:
    await page.get_by_label("Title").fill(name)
    await page.get_by_label("Choice").select_option(choice)
    await page.get_by_label("People").fill(str(people))


async def title_of(page: Page, choice: str) -> str:
    """What the page calls a choice, as the spawn form does."""
    title = await page.locator(f"#class-form option[value={choice}]").inner_text()
    assert title != choice
    return title


async def test_classes_of_three_people(embedded_cluster: ClusterUnderTest) -> None:
    async with override_hub(embedded_cluster) as hub, chromium() as browser:
        await ask(hub, browser)
        await announce(hub, browser)
        await answer(hub, browser)
        await read_the_answers(hub, browser)


async def ask(hub: Hub, browser: Browser) -> None:
    """A student is led to the one page that students may open, and asks for two classes."""
    page, errors = await watched(browser, hub, "student")
    await page.goto(f"{hub.url}/services/dra-spawner/")
    await page.get_by_role("heading", name="Ask for a class").wait_for()
    links = page.get_by_role("navigation", name="Pages about devices").get_by_role("link")
    assert await links.all_inner_texts() == ["Classes"]
    await opened(page, hub)
    asks = page.get_by_role("button", name="Ask", exact=True)
    await fill(page, f"Reading {HOSTILE}", 5, "gpu-whole")
    async with late_answers(page, "**/api/class-requests*", "POST") as is_there:
        await asks.click()
        await is_there.wait()
        await fill(page, "Party", 90, "gpu-whole")
    await said(page, "The request is sent.")
    await asks.click()
    for name in ("Reading", "Party"):
        await row_of(page, name).get_by_text("An administrator has not answered yet.").wait_for()
    await assert_easy_to_use(page, "classes-student")
    assert await page.locator("img[src=x]").count() == 0
    assert errors == []


async def announce(hub: Hub, browser: Browser) -> None:
    """A teacher announces a class after its rehearsal, changes it, copies it, and cancels the copy."""
    page, errors = await watched(browser, hub, "teacher")
    await opened(page, hub)
    assert await page.get_by_text("Reading").count() == 0, "others' requests are not shown"
    await page.get_by_text("Your limits: 77 people at the same time").wait_for()
    await fill(page, "Physics lab", 78, "gpu-slice")
    await page.get_by_role("button", name="Can they start?").click()
    await page.locator("#class-answer").get_by_text("your limit is 77. You can ask an administrator.").wait_for()
    assert await page.get_by_role("button", name="Ask an administrator").is_visible()
    assert not await page.get_by_role("button", name="Announce the class").is_visible(), "it would be refused"
    await fill(page, "Physics lab", 5, "gpu-slice")
    await page.get_by_label("Every week until").fill("2027-02-09")
    await page.get_by_label("Breaks").fill("2026-12-24, 2026-12-31")
    await page.get_by_role("button", name="Can they start?").click()
    await page.locator("#class-answer").get_by_text("Yes: 5 users can start").wait_for()
    await assert_easy_to_use(page, "classes-rehearsed")
    await page.get_by_role("button", name="Announce the class").click()
    row = row_of(page, "Physics lab")
    await row.get_by_text(f"5 of {await title_of(page, 'gpu-slice')}").wait_for()
    await playwright.expect(page.get_by_label("Title")).to_have_value("")
    await row.get_by_text("weekly until 2027-02-09, 2 breaks").wait_for()
    await page.get_by_role("button", name="Change Physics lab").click()
    await page.get_by_role("heading", name="Change Physics lab").wait_for()
    assert await page.get_by_label("Breaks").input_value() == "2026-12-24, 2026-12-31"
    await page.get_by_label("People").fill("8")
    await page.get_by_role("button", name="Can they start?").click()
    await page.get_by_role("button", name="Save the change").click()
    await row.get_by_text(f"8 of {await title_of(page, 'gpu-slice')}").wait_for()
    await playwright.expect(page.get_by_label("Title")).to_have_value("")
    await page.get_by_role("button", name="Copy Physics lab").click()
    await fill(page, "Large lab", 60, "gpu-whole")
    await page.get_by_role("button", name="Can they start?").click()
    await page.locator("#class-answer").get_by_text("Fewer servers than announced can be prepared").wait_for()
    await page.get_by_role("button", name="Announce the class").click()
    await page.get_by_role("button", name="Cancel Large lab").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("heading", name="Cancel the class Large lab?").wait_for()
    await dialog.get_by_role("button", name="Cancel", exact=True).click()
    await row_of(page, "Large lab").get_by_text("No: ").wait_for()
    await assert_easy_to_use(page, "classes-teacher")
    await page.get_by_role("button", name="Cancel Large lab").click()
    await dialog.get_by_role("button", name="Cancel the class").click()
    await row_of(page, "Large lab").wait_for(state="detached")
    await page.get_by_text("My classes in a calendar program").click()
    address = await page.locator("#feed-address").inner_text()
    feed = await page.request.get(address)
    assert (feed.status, "SUMMARY:Physics lab" in await feed.text()) == (200, True)
    assert [each for each in errors if REFUSED not in each] == []


async def answer(hub: Hub, browser: Browser) -> None:
    """An operator approves one request with one click, and declines the other one with a sentence."""
    page, errors = await watched(browser, hub, "operator")
    await opened(page, hub)
    reading, party = row_of(page, "Reading"), row_of(page, "Party")
    await reading.get_by_text("It needs 5 placeholders, more than max of the choice.").wait_for()
    await reading.get_by_text("rehearsed ").wait_for()
    await row_of(page, "Physics lab").get_by_text("added by teacher").wait_for()
    await assert_easy_to_use(page, "classes-operator")
    await reading.get_by_role("button", name="Approve and raise max to 5").click()
    await said(page, "The class is announced, and max is raised until it is over.")
    await reading.get_by_text("Up to 5 placeholders until").wait_for()
    await party.get_by_role("button", name="Decline").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Sentence").fill("An exam needs the devices.")
    await dialog.get_by_role("button", name="Decline").click()
    await party.wait_for(state="detached")
    assert errors == []


async def read_the_answers(hub: Hub, browser: Browser) -> None:
    """The student has a class now, and reads why the other one is declined."""
    page, errors = await watched(browser, hub, "student")
    await opened(page, hub)
    await row_of(page, "Party").get_by_text("Declined: An exam needs the devices.").wait_for()
    await row_of(page, "Reading").get_by_text(f"5 of {await title_of(page, 'gpu-whole')}").wait_for()
    assert await page.get_by_text("Physics lab").count() == 0
    assert await page.get_by_role("button", name="Change Reading").count() == 0, "students do not change classes"
    await assert_easy_to_use(page, "classes-answers")
    assert errors == []

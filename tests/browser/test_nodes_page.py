"""The page with nodes and devices: bars, tips, keys, search, groups, live changes, themes, and hostile names."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

import pytest

from dra_spawner.devcluster.demo.example_nodes import PARTITIONED_NODE
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.web_settings import WebSettings
from tests.browser.hub_browser import assert_easy_to_use, chromium, logged_in, new_window, picture, press_until
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_with_service import hub_with_service
from tests.polling import eventually
from tests.service.device_board import allocate, some_of_all
from tests.service.open_service import whole_service

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

playwright = pytest.importorskip("playwright.async_api")

HOSTILE = "<img src=x onerror=document.title='hacked'>"
GPU = '[data-key="shared-1/gpu.example.com/gpu-0"]'


@pytest.fixture
async def context() -> ServiceContext:
    found = ServiceContext(
        WebSettings("/services/dra-spawner/"), DecisionLog(), max_staleness_seconds=60, node_pool_labels=("pool",)
    )
    found.follow(some_of_all(HOSTILE, HOSTILE))
    return found


@pytest.fixture
async def page(context: ServiceContext) -> AsyncIterator[Page]:
    async with whole_service(context) as url, chromium() as browser:
        opened = await (await new_window(browser)).new_page()
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        await opened.goto(f"{url}nodes")
        await opened.locator(".device").first.wait_for()
        yield opened
        assert errors == []
        assert "hacked" not in await opened.title()
        assert await opened.locator("main img").count() == 0


async def test_bars_tips_keys_and_search(page: Page, context: ServiceContext) -> None:
    shared = page.locator(GPU)
    label = await shared.get_attribute("aria-label")
    assert label == (
        f"gpu-0, Example 40: {HOSTILE} 25 % (memory 10Gi · gpu-slice); eve 13 % (memory 5Gi · gpu-slice); "
        "placeholder 25 % (memory 10Gi); free 37 %"
    )
    kinds = [await each.get_attribute("class") for each in await shared.locator(".bar i").all()]
    assert kinds == ["user", "user", "placeholder", "free"]
    assert (await page.locator(f'[data-key="{PARTITIONED_NODE}/gpu.dra.example.com/gpu-1"] .bar i').count()) in (0, 7)
    row = await page.locator(".node", has_text="shared-1").bounding_box()
    assert row is not None
    assert row["height"] <= 44

    tip = page.locator("#device-tip")
    await shared.hover()
    await tip.get_by_text("reserved for jupyter-grace").wait_for(state="detached")
    assert HOSTILE in await tip.inner_text()
    await picture(page, "nodes-tip")
    await page.keyboard.press("Escape")
    await tip.wait_for(state="hidden")

    # One stop of the Tab key; arrows go from device to device.
    await page.mouse.move(0, 0)
    await page.focus("#node-sort")
    await page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight"):
        await page.keyboard.press(key)
    assert await shared.evaluate("element => element === document.activeElement")
    await tip.get_by_text("eve").wait_for()
    await page.keyboard.press("ArrowDown")
    await tip.get_by_text("placeholder").wait_for()

    # Changes are shown meanwhile, and the focus stays.
    assert context.watch is not None
    allocate(context.watch, "zoe", "shared-2", "gpu-0", "20Gi")
    await tip.get_by_text("zoe").wait_for()
    focused = "document.activeElement.dataset.key"
    assert await page.evaluate(focused) == "shared-2/gpu.example.com/gpu-0"

    await page.fill("#node-search", "eve")
    await page.locator("#node-count", has_text="1 of 7 nodes").wait_for()
    assert await page.locator(".node:visible .faint").count() == 3
    await page.fill("#node-search", "cordoned")
    await page.locator(".node-name", has_text="whole-2").wait_for()

    async def is_alone() -> bool:
        return await page.locator(".node-name").all_inner_texts() == ["whole-2"]

    await eventually(is_alone, "only the node that is cordoned is shown")
    await page.fill("#node-search", "")
    await page.select_option("#node-group", "pool")
    group = page.get_by_role("button", name=re.compile("^shared"))
    assert await group.get_attribute("aria-expanded") == "true"
    await group.click()
    assert await page.locator(".node-name", has_text="shared-1").count() == 0
    allocate(context.watch, "yan", "whole-2", "gpu-0")
    await page.locator('.device[aria-label*="yan"]').wait_for()
    assert await group.get_attribute("aria-expanded") == "false", "a closed group stays closed"
    await picture(page, "nodes-groups")


async def test_the_page_is_easy_to_use_in_all_themes(page: Page) -> None:
    await assert_easy_to_use(page, "nodes")
    await page.emulate_media(forced_colors="active")
    await picture(page, "nodes-forced-colours")
    await page.emulate_media(forced_colors="none")
    await page.click("#dark-theme-toggle")
    assert await page.evaluate("document.documentElement.dataset.bsTheme") == "dark"
    assert await page.evaluate("localStorage.getItem('jupyterhub-bs-theme')") == "dark", (
        "as JupyterHub's pages store it"
    )


async def test_without_the_stream_the_page_asks_every_30_s(context: ServiceContext) -> None:
    async with whole_service(context) as url, chromium() as browser:
        page = await (await new_window(browser)).new_page()
        await page.route("**/api/events*", lambda route: route.fulfill(status=503, body="{}"))
        await page.clock.install()
        await page.goto(f"{url}nodes")
        await page.locator("#freshness", has_text="Not live: asks every 30 s").wait_for()
        await page.locator(".device").first.wait_for()
        assert context.watch is not None
        allocate(context.watch, "zoe", "shared-2", "gpu-3", "20Gi")
        await page.clock.run_for(31_000)
        await page.locator('.device[aria-label*="zoe"]').wait_for()


async def test_a_service_that_is_away_is_said_and_found_again(embedded_cluster: ClusterUnderTest) -> None:
    """The stream breaks with the service, and a proxy's 503 ends it for good."""
    async with hub_with_service(embedded_cluster) as service, chromium() as browser:
        await service.ready()
        page = await logged_in(browser, service.hub.url, "watcher")
        await page.goto(f"{service.url}nodes")
        freshness = page.locator("#freshness")
        await freshness.get_by_text("Live", exact=True).wait_for()
        await page.route("**/services/dra-spawner/**", lambda route: route.fulfill(status=503, body="<p>No route</p>"))
        service.kill()
        away = freshness.get_by_text("The service does not answer. This page tries again.")
        await away.wait_for()
        await page.unroute_all(behavior="wait")
        await service.ready()
        await freshness.get_by_text("Live", exact=True).wait_for()
        assert await page.locator(".node-name", has_text="n1").is_visible()


#: A stream that says how old the data are, and then says nothing any more, without an error.
DEAD_STREAM = """
let streams = 0;
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    this.readyState = 1;
    const isDead = streams++ === 0;
    const say = (type) => this.dispatchEvent(new MessageEvent(type, { data: '{"seconds": 0}' }));
    setTimeout(() => { say("open"); say("age"); }, 100);
    if (!isDead) setInterval(() => say("age"), 5000);
  }
  close() {}
};
"""


async def test_a_stream_that_is_dead_is_noticed(context: ServiceContext) -> None:
    async with whole_service(context) as url, chromium() as browser:
        page = await (await new_window(browser)).new_page()
        await page.add_init_script(DEAD_STREAM)
        # The page's time stands still otherwise: the stream would be noticed before its service is away.
        await page.clock.install(time=datetime(2026, 1, 1, tzinfo=UTC))
        await page.clock.pause_at(datetime(2026, 1, 1, 1, tzinfo=UTC))
        await page.goto(f"{url}nodes")
        await page.clock.run_for(1_000)
        freshness = page.locator("#freshness")
        await freshness.get_by_text("Live", exact=True).wait_for()
        await page.route("**/api/**", lambda route: route.abort())
        # An answer that was on its way comes later than the page's time says.
        away = freshness.get_by_text("The service does not answer. This page tries again.")
        await _shown_within(page, away, 15)
        await page.unroute_all(behavior="wait")
        await _shown_within(page, freshness.get_by_text("Live", exact=True), 30)


async def _shown_within(page: Page, shown: Locator, seconds: int) -> None:
    """Let the page's time go on, second by second, until something is shown."""
    for _ in range(seconds):
        await page.clock.run_for(1_000)
        if await shown.is_visible():
            return
    await shown.wait_for()


async def test_the_hubs_header_and_rights(embedded_cluster: ClusterUnderTest) -> None:
    """A real hub: its logo and links; only operators see the actions."""
    async with hub_with_service(embedded_cluster) as service, chromium() as browser:
        await service.ready()
        page = await logged_in(browser, service.hub.url, "watcher")
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
        await page.goto(f"{service.url}nodes")
        await page.locator(".node-name", has_text="n1").wait_for()
        await page.locator("#freshness", has_text="Live").wait_for()
        logo = page.get_by_role("img", name="JupyterHub")
        assert await logo.evaluate("element => element.naturalWidth") > 0
        assert await page.locator("[data-action-kind]").count() == 0
        assert await page.get_by_role("link", name="Admin").count() == 0
        assert refused == [], "the policy lets all of the page's own parts in"
        await page.get_by_role("link", name="Home").click()
        await page.wait_for_url("**/hub/home")
        admin = await logged_in(browser, service.hub.url, "admin")
        await admin.goto(f"{service.url}nodes")
        assert await admin.get_by_role("link", name="Admin").count() == 1
        await press_until(admin, "Tab", "#logout")
        await picture(admin, "nodes-of-a-hub")
        await admin.keyboard.press("Enter")
        await admin.wait_for_url("**/hub/log*")


SHARES = {
    "thirds": ([1 / 3, 1 / 3, 1 / 3], ["33 %", "33 %", "33 %"]),
    "two halves of one": ([0.375, 0.125, 0.5], ["38 %", "12 %", "50 %"]),
    "equal ones stay equal": ([0.125] * 5 + [0.375], ["12 %"] * 5 + ["38 %"]),
    "nearly nothing": ([0.006, 0.994], ["under 1 %", "99 %"]),
    "one and nothing": ([0, 1], ["0 %", "100 %"]),
    "more than one device": ([0.7, 0.7], ["70 %", "70 %"]),
}


async def test_percentages_of_one_bar_never_add_up_to_more_than_it(page: Page) -> None:
    bars = f"{page.url.removesuffix('nodes')}static/js/bars.js"
    shown = "([url, all]) => import(url).then((bars) => all.map(bars.percents))"
    cases, texts = [each for each, _ in SHARES.values()], [each for _, each in SHARES.values()]
    assert await page.evaluate(shown, [bars, cases]) == texts
    rng = Random(1)
    drawn = [[rng.random() ** 3 for _ in range(rng.randint(1, 6))] for _ in range(500)]
    wholes = [[each / sum(shares) for each in shares] for shares in drawn]
    for shares, found in zip(wholes, await page.evaluate(shown, [bars, wholes]), strict=True):
        numbers = [int(each.removesuffix(" %")) for each in found if not each.startswith("under")]
        assert sum(numbers) <= 100, (shares, found)
        assert all(
            abs(share * 100 - int(each.removesuffix(" %"))) < 1
            for share, each in zip(shares, found, strict=True)
            if not each.startswith("under")
        )


async def test_figures_get_old_although_the_stream_goes_on(context: ServiceContext) -> None:
    """The service answers, and the cluster does not: the page says how old its figures are, and ages go on."""
    context.feed.data_age = lambda: 0.0
    async with whole_service(context) as url, chromium() as browser:
        page = await (await new_window(browser)).new_page()
        await page.goto(f"{url}nodes")
        await page.locator("#freshness[data-state=live]").wait_for()
        row = "<tr><td><span id=wait data-seconds=51>51 s</span></td></tr>"
        await page.evaluate(f"document.querySelector('#notes').innerHTML = '<table>{row}</table>'")
        await page.locator("#wait", has_text=re.compile(r"^(5[3-9] s|\d+ min)")).wait_for()
        heard_at = time.monotonic() - 20
        context.feed.data_age = lambda: time.monotonic() - heard_at
        old = page.locator(
            "#freshness[data-state=failed]",
            has_text=re.compile(r"Not up to date\s+· figures are ([2-9]\d s|\d+ min) old"),
        )
        await old.wait_for()
        await picture(page, "figures-are-old")
        # A page that comes now says it itself, for readers without scripts.
        context.feed.data_age = lambda: 185.0
        async with await new_window(browser, java_script_enabled=False) as plain:
            opened = await plain.new_page()
            await opened.goto(f"{url}nodes")
            assert "Figures are 3 min old" in await opened.inner_text("#freshness")
        context.feed.data_age = lambda: 0.0
        await page.locator("#freshness[data-state=live]").wait_for()

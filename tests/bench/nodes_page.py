"""Costs of the page of nodes in a browser: until it can be used, and for each change, search and grouping.

Run ``python -m tests.bench.nodes_page``. The service's web application answers over loopback, without a hub, from a generated
cluster. Chromium opens the page several times. A render is measured in the page, from the answer until the document is changed
(`performance.now`), and with the layout and the paint of the next frame.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.web_settings import WebSettings
from tests.bench.figures import options_parser, times
from tests.browser.hub_browser import chromium
from tests.service.device_board import allocate, many_nodes
from tests.service.open_service import whole_service

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

_RENDER_MS = "Number(document.getElementById('node-board').dataset.renderMs)"
_WITH_FRAME = """async (act) => {
    const began = performance.now();
    act === "group" ? (document.getElementById("node-group").value = "pool") : (document.getElementById("node-sort").value = act);
    document.getElementById(act === "group" ? "node-group" : "node-sort").dispatchEvent(new Event("change"));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
}"""
_SEARCH = """async (text) => {
    const input = document.getElementById("node-search"), count = document.getElementById("node-count");
    const before = count.textContent;
    input.value = text;
    const began = performance.now();
    input.dispatchEvent(new Event("input"));
    while (count.textContent === before) await new Promise((done) => setTimeout(done, 1));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
}"""


def report(name: str, milliseconds: Sequence[float]) -> None:
    print(f"{name}: {times([each / 1000 for each in milliseconds])}")


async def open_page(browser: Browser, url: str) -> tuple[Page, float]:
    """The page, and the ms until devices can be seen."""
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    began = time.perf_counter()
    await page.goto(f"{url}nodes", wait_until="commit")
    await page.locator(".device").first.wait_for()
    return page, 1000 * (time.perf_counter() - began)


async def run(nodes: int, devices: int, turns: int) -> None:
    context = ServiceContext(
        WebSettings("/services/dra-spawner/"), DecisionLog(), max_staleness_seconds=60, node_pool_labels=("pool",)
    )
    watch = many_nodes(nodes, devices)
    context.follow(watch)
    assert context.summaries is not None
    began = time.perf_counter()
    items, _ = await context.summaries.nodes(limit=nodes)
    print(f"{nodes} nodes with {devices} devices, {sum(len(each.text) for each in items) / 1e6:.2f} MB of JSON")
    print(f"first computation in the service: {time.perf_counter() - began:.2f} s")
    found: dict[str, list[float]] = defaultdict(list)
    async with whole_service(context) as url, chromium() as browser:
        for number in range(turns):
            page, took = await open_page(browser, url)
            found["from the click until devices are seen"].append(took)
            found["first render"].append(await page.evaluate(_RENDER_MS))
            before = await page.evaluate(_RENDER_MS)
            await page.locator("#freshness[data-state=live]").wait_for()
            allocate(watch, f"new-{number}", "node-0001", "gpu-0", "5Gi")
            await page.locator(f'.device[aria-label*="new-{number} "]').wait_for()
            after = await page.evaluate(_RENDER_MS)
            assert after != before
            found["render after a change"].append(after)
            for text in ("user-17-", ""):
                searched = found["search, with 80 ms until typing is over, and the frame"]
                searched.append(await page.evaluate(_SEARCH, text))
            found["sort, with the frame"].append(await page.evaluate(_WITH_FRAME, "emptiest"))
            found["group, with the frame"].append(await page.evaluate(_WITH_FRAME, "group"))
            await page.close()
    for name, milliseconds in found.items():
        report(name, milliseconds)


if __name__ == "__main__":
    given = options_parser(__doc__, nodes=500, devices=8, times=5).parse_args()
    asyncio.run(run(given.nodes, given.devices, given.times))

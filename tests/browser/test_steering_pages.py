"""The pages from which placeholders are steered, of a real service behind a real hub: what readers see, what operators do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.hub_browser import assert_easy_to_use, chromium, logged_in, picture
from tests.browser.steering_hub import steering_hub
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import Hub

if TYPE_CHECKING:
    from playwright.async_api import Page

pytest.importorskip("playwright.async_api")
pytestmark = pytest.mark.timeout(180)


def service(hub: Hub, page: str = "") -> str:
    return f"{hub.url}/services/dra-spawner/{page}"


async def opened(page: Page, hub: Hub, name: str) -> None:
    """Open one of the pages, and wait until it follows the service."""
    await page.goto(service(hub, name))
    await page.locator("#freshness[data-state=live]").wait_for()


def watched(page: Page) -> list[str]:
    """Errors of scripts, and what the content security policy refuses; filled while the page is used."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: found.append(dialog.message))
    return found


async def test_pages(embedded_cluster: ClusterUnderTest) -> None:
    async with steering_hub(embedded_cluster) as hub, chromium() as browser:
        page = await logged_in(browser, hub.url, "watcher")
        errors = watched(page)
        await opened(page, hub, "placeholders")
        slices = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="gpu-slice"))
        await slices.get_by_text("ready").wait_for()
        for name in ("placeholders", "timeline", "calendar", "decisions", "audit"):
            await opened(page, hub, name)
            await picture(page, f"steering-reader-{name}")
        page = await logged_in(browser, hub.url, "manager")
        for name in ("placeholders", "timeline", "calendar", "decisions", "audit"):
            await opened(page, hub, name)
            await assert_easy_to_use(page, f"steering-{name}")
        assert errors == []

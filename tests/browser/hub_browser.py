"""A browser for pages of a hub, without the network services of its maker."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

#: Where to put pictures of the pages, if anywhere.
PICTURES = os.environ.get("DRA_SPAWNER_PICTURES")
_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """This machine's Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.async_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=flags)
        yield browser
        await browser.close()


async def logged_in(browser: Browser, url: str, user: str) -> Page:
    """A page of a user's own, at a hub whose users need no password."""
    context = await browser.new_context(viewport={"width": 1100, "height": 760})
    page = await context.new_page()
    page.set_default_timeout(60_000)
    await page.goto(f"{url}/hub/login")
    await page.fill("input[name=username]", user)
    await page.fill("input[name=password]", "any")
    await page.click("input[type=submit]")
    await page.wait_for_url(lambda url: "/login" not in url)
    return page


async def picture(page: Page, name: str) -> None:
    """Take a picture of a page, where somebody wants to look at it."""
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png")

"""A browser for pages of a hub, without the network services of its maker, and checks for all pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from tests.browser import chromium as installed
from tests.integration.hub_process import HubProcess
from tests.polling import PATIENCE_SECONDS

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Route, ViewportSize

_WIDE: Final[ViewportSize] = {"width": 1100, "height": 760}
_PHONE: Final[ViewportSize] = {"width": 360, "height": 740}
_VIEWS: Final[tuple[tuple[Literal["light", "dark"], ViewportSize], ...]] = (("light", _WIDE), ("dark", _PHONE))
_PATIENCE_MILLISECONDS: Final = PATIENCE_SECONDS * 1000
#: JupyterHub's pages have no element `main`; pages of an administrator may have one.
_OF_JUPYTERHUB: Final = "landmark-one-main"
_COLOURS_HAVE_CHANGED: Final = """() => Promise.allSettled(
    document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)
)"""

#: Keeps sentences about successes, which go away after ten seconds: a busy machine may look later.
_KEEP_SAID = """
window.said = [];
new MutationObserver(() => {
  for (const each of document.querySelectorAll("[role=status]")) window.said.push(each.textContent);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """This machine's Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.async_api")
    # Its own limit is five seconds.
    playwright.expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    path, flags = installed.chromium()
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=flags)
        yield browser
        await browser.close()


async def new_window(browser: Browser, **options: Any) -> BrowserContext:
    """A window of a user's own, whose pages have the tests' one limit of time.

    Parameters
    ----------
    options
        Of ``browser.new_context``.
    """
    context = await browser.new_context(**{"viewport": _WIDE, "color_scheme": "light", **options})
    context.set_default_timeout(_PATIENCE_MILLISECONDS)
    return context


async def logged_in(browser: Browser, url: str, user: str) -> Page:
    """A page of a user's own, at a hub whose users need no password."""
    page = await (await new_window(browser)).new_page()
    await page.goto(f"{url}/hub/login")
    await page.fill("input[name=username]", user)
    await page.fill("input[name=password]", "any")
    await page.click("input[type=submit]")
    await page.wait_for_url(lambda url: "/login" not in url)
    return page


async def in_zone(page: Page, name: str) -> None:
    """Let a page be that of a user in a time zone, such as ``Asia/Kolkata``."""
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setTimezoneOverride", {"timezoneId": name})


async def watched(browser: Browser, hub: HubProcess, user: str) -> tuple[Page, list[str]]:
    """A page, and a list that gets errors of its scripts and violations of the content security policy."""
    page, found = await logged_in(browser, hub.url, user), list[str]()
    await page.add_init_script(_KEEP_SAID)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    return page, found


async def said(page: Page, sentence: str) -> None:
    """Wait until a sentence has been said since the page was opened."""
    await page.wait_for_function("sentence => window.said.some((each) => each.includes(sentence))", arg=sentence)


@contextlib.asynccontextmanager
async def late_answers(page: Page, address: str, method: str) -> AsyncIterator[asyncio.Event]:
    """Keep answers from a page until the block ends; the event says that one is there.

    Parameters
    ----------
    address
        A pattern, as of ``page.route``.
    """
    is_there, end = asyncio.Event(), asyncio.Event()

    async def keep(route: Route) -> None:
        if route.request.method != method:
            await route.fallback()
            return
        answer = await route.fetch()
        is_there.set()
        await end.wait()
        await route.fulfill(response=answer)

    await page.route(address, keep)
    yield is_there
    end.set()
    await page.unroute_all(behavior="wait")


async def picture(page: Page, name: str) -> None:
    """Take a picture of a page, where somebody wants to look at it."""
    if path := installed.picture_path(name):
        await page.screenshot(path=path, full_page=True)


async def barriers(page: Page) -> list[tuple[str, str, list[str]]]:
    """Rule, impact and elements of axe's findings of any impact: barriers for people with impairments."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright")
    results = await axe.Axe().run(page)
    return [
        (each["id"], each["impact"], [node["html"] for node in each["nodes"]])
        for each in results.response["violations"]
        if each["id"] != _OF_JUPYTERHUB or "/hub/" not in page.url
    ]


async def assert_easy_to_use(page: Page, name: str) -> None:
    """Check a page with a mouse in the light, and on a phone in the dark: axe finds nothing, and no line is too long.

    Parameters
    ----------
    name
        Of the two pictures.
    """
    for scheme, size in _VIEWS:
        await page.set_viewport_size(size)
        await page.emulate_media(color_scheme=scheme)
        await page.wait_for_function("scheme => document.documentElement.dataset.bsTheme === scheme", arg=scheme)
        # Bootstrap's buttons change their colours slowly.
        await page.evaluate(_COLOURS_HAVE_CHANGED)
        await picture(page, f"{name}-{scheme}")
        found = await barriers(page)
        assert not found, (name, scheme, found)
        assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"], (name, scheme)
    await page.set_viewport_size(_WIDE)
    await page.emulate_media(color_scheme="light")


async def press_until(page: Page, key: str, element: str, most: int = 30) -> None:
    """Press a key until an element has the focus."""
    for _ in range(most):
        await page.keyboard.press(key)
        if await page.evaluate("element => document.activeElement.matches(element)", element):
            return
    raise AssertionError(f"{key} does not reach {element}")

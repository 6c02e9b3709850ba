"""The spawn form as users meet it: mouse, keyboard, phone, dark pages, screen readers, and another form."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.browser.form_hub import form_hub
from tests.browser.hub_browser import barriers, chromium, in_zone, new_window, picture
from tests.polling import PATIENCE_SECONDS

playwright = pytest.importorskip("playwright.async_api")

FREE = {"state": "free", "sentence": "A share is free.", "wait": None}
NEVER = {"state": "never", "sentence": "No machine has so much.", "wait": None}


@pytest.fixture
async def browser():
    async with chromium() as browser:
        yield browser


@contextlib.asynccontextmanager
async def opened(browser, hub, **options):
    """The spawn form of a user, in a new window."""
    context = await new_window(browser, **{"viewport": {"width": 1100, "height": 900}, **options})
    page = await context.new_page()
    await page.goto(f"{hub.url}/hub/login?next=/hub/spawn")
    await page.fill("input[name=username]", "ada")
    await page.fill("input[name=password]", "any")
    await page.click("input[type=submit]")
    await page.wait_for_url("**/hub/spawn")
    try:
        yield page
    finally:
        await context.close()


def badge(page, profile):
    return page.locator(f".js-profile[data-profile={profile}] .js-availability")


def options_of(page, profile, option):
    return page.locator(f"select[id=profile-option-{profile}--{option}] option")


async def chosen(page):
    return await page.locator("input[name=profile]:checked").get_attribute("value")


async def sent_by(page, action):
    """Fields of the form that an action sends."""
    fields: asyncio.Future = asyncio.get_running_loop().create_future()

    async def handle(route):
        if route.request.method == "POST":
            fields.set_result(route.request.post_data)
            await route.fulfill(status=204)  # the page stays
        else:
            await route.continue_()

    await page.route("**/hub/spawn**", handle)
    await action()
    text = await asyncio.wait_for(fields, PATIENCE_SECONDS)
    await page.unroute("**/hub/spawn**", handle)
    parts = text.split(text.split("\r\n", 1)[0])
    return {
        part.split('name="')[1].split('"')[0]: part.split("\r\n\r\n")[1].strip() for part in parts if 'name="' in part
    }


async def test_labels_follow_the_cluster_and_the_choice(browser, embedded_cluster, tmp_path):
    async with form_hub(embedded_cluster, tmp_path / "hub") as made, opened(browser, made.hub) as page:
        expect = playwright.expect
        await expect(badge(page, "gpu-slice")).to_have_text("ready")
        await picture(page, "form-light")
        assert await options_of(page, "gpu-slice", "memory").all_inner_texts() == [
            "10 GiB · ready",
            "20 GiB · free now",
            "40 GiB · all in use: 10 to 40 min",
        ]
        assert await options_of(page, "gpu-whole", "count").all_inner_texts() == [
            "1 · new machine: 4 to 6 min",
            "2 · free in a moment",
            "4 · out of use",
            "8 · never: no machine has 8 GPUs",
        ]
        assert await barriers(page) == []

        # Choosing an option by the mouse selects its profile, and the label is that of the choice.
        await page.select_option("#profile-option-gpu-whole--count", "8")
        assert await chosen(page) == "gpu-whole"
        await expect(badge(page, "gpu-whole")).to_have_text("never: no machine has 8 GPUs")
        await expect(badge(page, "gpu-whole")).to_have_attribute("aria-live", "polite")
        assert await page.locator("[aria-live=polite].js-availability").count() == 1

        # A combination is asked for.
        made.combinations["gpu-slice/memory=20,image=pytorch"] = NEVER
        await page.select_option("#profile-option-gpu-slice--memory", "20")
        await page.select_option("#profile-option-gpu-slice--image", "pytorch")
        await expect(badge(page, "gpu-slice")).to_have_text("never: no machine has so much")
        assert await options_of(page, "gpu-slice", "image").all_inner_texts() == [
            "Scipy · free now",
            "Pytorch · never: no machine has so much",
            "Other...",
        ], "for the memory that is chosen"
        await picture(page, "form-combination")

        # A change of the cluster is seen without a reload; choice and focus stay.
        await page.focus("#profile-option-gpu-slice--memory")
        made.availability["gpu-whole/count=8"] = FREE
        await expect(options_of(page, "gpu-whole", "count").nth(3)).to_have_text("8 · free now")
        await expect(badge(page, "gpu-whole")).to_have_text("free now")
        assert await page.evaluate("document.activeElement.id") == "profile-option-gpu-slice--memory"
        assert await page.input_value("#profile-option-gpu-slice--memory") == "20"
        assert await chosen(page) == "gpu-slice"

        # Free text of a user is not asked for.
        await page.select_option("#profile-option-gpu-slice--image", "unlisted-choice")
        await page.fill("#profile-option-gpu-slice--image--unlisted-choice", "own")
        await expect(badge(page, "gpu-slice")).to_have_text("not known")
        sent = await sent_by(page, lambda: page.click("button[type=submit]"))
        assert sent == {
            "profile": "gpu-slice",
            "profile-option-gpu-slice--memory": "20",
            "profile-option-gpu-slice--image--unlisted-choice": "own",
            "profile-option-gpu-whole--count": "8",
            "profile-option-hostile--size": "s",
        }
        assert await page.evaluate("window.hostile") is None


async def test_the_form_by_keyboard_and_the_choice_after_a_failed_start(browser, embedded_cluster, tmp_path):
    async with form_hub(embedded_cluster, tmp_path / "hub") as made, opened(browser, made.hub) as page:
        await page.focus("input[name=profile]:checked")
        for _ in range(3):  # memory and image of the first profile, the count of the second
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.id") == "profile-option-gpu-whole--count"
        assert await chosen(page) == "gpu-slice", "Tab chooses nothing"
        await page.keyboard.press("ArrowDown")
        assert await chosen(page) == "gpu-whole"
        await picture(page, "form-keyboard")
        # The start is refused, as there is no such device class; the form comes back with the choice.
        await press_start(page)
        assert await chosen(page) == "gpu-whole"
        assert await page.input_value("#profile-option-gpu-whole--count") == "2"
        await picture(page, "form-after-failure")
        await page.goto(f"{made.hub.url}/hub/spawn")
        assert await chosen(page) == "gpu-whole"
        assert await page.input_value("#profile-option-gpu-whole--count") == "2"


async def press_start(page):
    """Start by the keyboard; the form says why the start has failed."""
    await page.focus("button[type=submit]")
    await page.keyboard.press("Enter")
    await page.locator(".spawn-error-msg").wait_for()
    await page.wait_for_load_state()


async def test_a_phone_and_a_dark_page(browser, embedded_cluster, tmp_path):
    async with form_hub(embedded_cluster, tmp_path / "hub") as made:
        for scheme in ("light", "dark"):
            phone = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme, "has_touch": True}
            async with opened(browser, made.hub, **phone) as page:
                await page.select_option("#profile-option-gpu-slice--memory", "40")
                heights = await page.locator(".js-availability").evaluate_all(
                    "all => all.map((each) => each.offsetHeight)"
                )
                assert max(heights) < 32, "each label fits one line"
                # What is out of use says until when, in the zone of the browser.
                await in_zone(page, "Asia/Kolkata")
                await page.select_option("#profile-option-gpu-whole--count", "4")
                await playwright.expect(badge(page, "gpu-whole")).to_have_text("out of use")
                await page.get_by_text("taken out of use by an administrator until 2036-11-30 01:30.").wait_for()
                await page.get_by_text("What the labels mean").click()
                colours = await page.locator(".dra-meaning").evaluate_all(
                    "all => all.map((each) => [each.textContent, getComputedStyle(each).backgroundColor])"
                )
                assert dict(colours)["ready"] != dict(colours)["free now"]
                await picture(page, f"form-phone-{scheme}")
                assert await page.evaluate("document.documentElement.scrollWidth") <= 360
                assert await page.evaluate("document.documentElement.dataset.bsTheme") == scheme
                assert await barriers(page) == []
        async with opened(browser, made.hub, color_scheme="dark") as page:
            await picture(page, "form-dark")
            assert await barriers(page) == []


async def test_the_form_shows_that_the_service_has_ended(browser, embedded_cluster, tmp_path):
    async with form_hub(embedded_cluster, tmp_path / "hub") as made, opened(browser, made.hub) as page:
        # From now on, the form of this hub has an answer of the service from its first moment on.
        await playwright.expect(badge(page, "gpu-slice")).to_have_text("ready")
        await page.clock.install()

        async def fail(route):
            await route.abort()

        await page.route("**/dra-spawner/availability**", fail)
        await page.goto(f"{made.hub.url}/hub/spawn")
        await playwright.expect(badge(page, "gpu-slice")).to_have_text("ready")
        await page.clock.run_for(20_000)
        await playwright.expect(page.locator(".js-availability-age")).to_contain_text("Availability as of ")
        await picture(page, "form-old")
        await page.clock.run_for(60_000)
        await playwright.expect(badge(page, "gpu-slice")).to_have_text("not known")
        assert await options_of(page, "gpu-slice", "memory").first.inner_text() == "10 GiB · not known"
        await page.unroute("**/dra-spawner/availability**", fail)
        await page.clock.run_for(20_000)
        await playwright.expect(badge(page, "gpu-slice")).to_have_text("ready")

        # The hub answers, and knows nothing: the service, or the cluster, has not answered for half a minute.
        async def know_nothing(route):
            await route.fulfill(json={"age_seconds": None, "choices": {}})

        unknown = page.get_by_text("What is free is not known at the moment.")
        await playwright.expect(unknown).not_to_be_visible()
        await page.route("**/dra-spawner/availability**", know_nothing)
        await page.clock.run_for(20_000)
        await playwright.expect(unknown).to_be_visible()
        await playwright.expect(badge(page, "gpu-slice")).to_have_text("not known")
        await page.unroute("**/dra-spawner/availability**", know_nothing)
        await page.clock.run_for(20_000)
        await playwright.expect(unknown).not_to_be_visible()


async def test_fancy_profiles_show_the_labels(browser, embedded_cluster, tmp_path):
    pytest.importorskip("jupyterhub_fancy_profiles")
    config = "from jupyterhub_fancy_profiles import setup_ui\nsetup_ui(c)\n"
    async with form_hub(embedded_cluster, tmp_path / "hub", config) as made, opened(browser, made.hub) as page:
        label = page.locator("#profile-option-gpu-slice-label .dra-availability")
        await playwright.expect(label).to_have_text("ready")
        await page.get_by_text("10 GiB · ready").first.wait_for()
        await picture(page, "form-fancy")
        made.availability["gpu-slice"] = FREE
        await playwright.expect(label).to_have_text("free now")
        memory = page.locator("#profile-gpu-slice .profile-option-control-container").first
        await memory.get_by_text("10 GiB · free now", exact=True).wait_for()

        # An open drop-down and a combination show fresh texts, too, and the choice is sent.
        await memory.get_by_role("combobox").click()
        titles = memory.locator(".select__menu .react-select-item-title")
        late = "40 GiB · all in use: 10 to 40 min"
        await playwright.expect(titles).to_have_text(["10 GiB · free now", "20 GiB · free now", late])
        made.availability["gpu-slice/memory=20"] = NEVER
        await playwright.expect(titles.nth(1)).to_have_text("20 GiB · never: no machine has so much")
        await titles.nth(2).click()
        await memory.get_by_text(late, exact=True).wait_for()
        made.combinations["gpu-slice/memory=40,image=pytorch"] = FREE
        image = page.locator("#profile-gpu-slice .profile-option-control-container").nth(1)
        await image.get_by_role("combobox").click()
        await image.get_by_text("Pytorch · free now", exact=True).click()
        await playwright.expect(label).to_have_text("free now")
        await memory.get_by_text("40 GiB · free now", exact=True).wait_for()
        await page.locator("#profile-option-gpu-whole").check()
        await picture(page, "form-fancy-other")
        assert await page.evaluate("window.hostile") is None
        sent = await sent_by(page, lambda: page.get_by_role("button", name="Start").click())
        assert sent["profile-option-gpu-slice--memory"] == "40"
        assert sent["profile-option-gpu-slice--image"] == "pytorch"

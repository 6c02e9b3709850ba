"""The own device-hours on home page and form of a real hub, and of nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNameMode
from tests.browser.hub_browser import chromium, logged_in, picture
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_with_service import hub_with_service
from tests.polling import eventually

playwright = pytest.importorskip("playwright.async_api")

SETTINGS = """
c.DRASpawnerService.history = {{"url": {url!r}, "user_names": "hashed"}}
c.DRASpawnerService.enforce_budgets = True
c.DRASpawnerService.budgets = {{"policy": [
    {{"limit": 10, "window": 7}},
    {{"limit": 15, "window": 7, "scope": {{"group": ["<b>maths</b>"]}}, "per": "group"}},
]}}
c.DRASpawnerService.request_rate = 1000
"""
HUB = """
c.DRASpawner.profile_list = [{"display_name": "share", "slug": "share", "kubespawner_override": {
    "devices_lifetime": 7200,
    "device_claims": {"gpu": {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}}}}]
c.JupyterHub.load_groups = {**c.JupyterHub.load_groups, "<b>maths</b>": {"users": ["user", "other"]}}
c.JupyterHub.load_roles.append({"name": "budgets", "services": ["dra-spawner"], "scopes": ["list:groups", "read:groups"]})
"""
OWN = "You have used 4 of your 10 device-hours in the last 7 days."
OVER = "You have used 12 of your 10 device-hours in the last 7 days."
GROUP = "Your group <b>maths</b> has used up its device-hours of the last 7 days."
BORROWS = "While no device is free, users within their budget come first. You can start as long as any is free."


async def test_each_user_reads_the_own_use(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    url = f"sqlite:///{cluster.directory / 'history.sqlite'}"
    database = HistoryDatabase.open(url, UserNameMode.HASHED)
    asked = datetime.now(UTC) - timedelta(hours=20)
    database.add(
        Launch(
            user, asked, "share", "share", user, bound=asked, ended=asked + timedelta(hours=hours), devices={"g": 1.0}
        )
        for user, hours in (("user", 4), ("other", 12))
    )
    database.close()
    async with hub_with_service(cluster, SETTINGS.format(url=url), HUB) as service, chromium() as browser:
        await service.ready()
        hub = service.hub

        async def is_known() -> bool:
            answer = await service.get(
                "api/standing", "0" * 32 + "service", "POST", '{"user": "user"}', **{"Content-Type": "application/json"}
            )
            return answer[0] == 200 and answer[2]["sentences"] == [OWN]

        await eventually(is_known, "the service knows the use")
        for user, sentences in (("user", [OWN, GROUP, BORROWS]), ("other", [OVER, GROUP, BORROWS])):
            page = await logged_in(browser, hub.url, user)
            for address in ("home", f"spawn/{user}", "home?user=admin&server="):
                await page.goto(f"{hub.url}/hub/{address}")
                use = page.locator("#dra-use")
                await use.get_by_text(sentences[0]).wait_for()
                assert await use.locator("p").all_inner_texts() == sentences, address
                assert await use.locator("b").count() == 0
                if not address.startswith("home?"):
                    await picture(page, f"own-use-{address.partition('/')[0]}-{user}")
            answer = await page.request.get(f"{hub.url}/hub/dra-spawner/use?user=other&name=other")
            assert (await answer.json())["sentences"][0] == sentences[0], "a name in the question changes nothing"
        async with hub.session.get(f"{hub.url}/hub/dra-spawner/use") as refused:
            assert refused.status == 403

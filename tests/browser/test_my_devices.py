"""The panel "My devices" in a real JupyterLab of a real hub: its contents, and a warning without a reload."""

from __future__ import annotations

import re
import signal

import aiohttp
import pytest

from dra_spawner.kube.client.api import resource_path
from tests.browser.hub_browser import chromium, in_zone, logged_in, picture
from tests.browser.jupyter_extension import jupyterlab
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

playwright = pytest.importorskip("playwright.async_api")
axe = pytest.importorskip("axe_playwright_python.async_playwright")
pytest.importorskip("jupyterlab")

CONFIG = """
c.DRASpawner.devices_lifetime = 7200
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
c.DRASpawner.profile_list = [{"display_name": "share", "slug": "share", "kubespawner_override": {"device_claims": {
    "gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "15Gi"}}}}}]
"""
HOSTILE = "<b class=hostile>40</b>"
ENDS_SOON = re.compile(r"^Your server ends at .*, in 9 min\. Save your work\.$")
MARK = [{"key": "example.com/xid", "value": "48", "effect": "NoSchedule"}]


async def token_of(hub: HubProcess, user: str) -> str:
    await hub.add_user(user)
    status, body = await hub.request("POST", f"/users/{user}/tokens", {})
    assert status == 201, body
    return str(body["token"])


async def status_for(hub: HubProcess, token: str) -> int:
    """Status of a request to the server's own address."""
    headers = {"Authorization": f"token {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        address = f"{hub.url}/user/ada/dra-spawner/devices"
        async with session.get(address, allow_redirects=False) as answer:
            return answer.status


async def serious_findings(page) -> list[tuple[str, list[str]]]:
    """Problems of accessibility in the panel; the rest of the page is JupyterLab's."""
    results = await axe.Axe().run(page, context=".dra-devices")
    assert results.response["passes"], "the panel is looked at"
    return [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in results.response["violations"]
        if each["impact"] in ("critical", "serious")
    ]


async def ends_soon(route) -> None:
    """The server's answer ten minutes before the end of its time."""
    answer = await route.fetch()
    await route.fulfill(response=answer, json={**await answer.json(), "ends_in_seconds": 599, "ends_soon": True})


async def drained(route) -> None:
    """The server's answer while its device is drained, with a time as the hub writes it."""
    answer = await route.fetch()
    found = await answer.json()
    found["devices"][0] |= {"faulty": True, "health_sentence": "This server is ended at 2036-11-29 20:00 UTC."}
    await route.fulfill(response=answer, json=found)


async def refreshed_until(page, text) -> None:
    """Let time pass for the panel, until it shows a text."""

    async def is_said() -> bool:
        await page.clock.fast_forward(31_000)
        return await text.is_visible()

    await eventually(is_said, "the panel says it")


async def test_devices_and_a_warning(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    config = jupyterlab(cluster.directory / "jupyter") + CONFIG
    directory = cluster.directory / "hub"
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, config) as hub, chromium() as browser:
        await hub.spawn("ada", {"profile": "share"})
        await hub.until_ready("ada", within_seconds=240)
        for token in ("", await token_of(hub, "bob")):
            assert await status_for(hub, token) == 403, "no other user gets an answer"
        page = await logged_in(browser, hub.url, "ada")
        await page.clock.install()
        await in_zone(page, "Asia/Kolkata")
        await page.goto(f"{hub.url}/user/ada/lab")
        tab = page.get_by_role("tab", name="My devices")
        panel = page.get_by_role("region", name="My devices")
        # It opens by itself, once; the device comes first, and no class of devices is named.
        await panel.get_by_text("15 GiB of 40 GiB memory").wait_for()
        shown = await panel.inner_text()
        assert shown.index("gpu-0 (Example 40)") < shown.index("15 GiB") < shown.index("On node-a.")
        assert "gpu-share.example.com" not in shown
        await page.get_by_role("button", name="No", exact=True).click()  # news of Jupyter
        await panel.get_by_text(re.compile(r"^Your server ends at .*, in 1 h 5\d min\.$")).wait_for()
        await picture(page, "my-devices")
        await page.route("**/dra-spawner/devices*", ends_soon)
        await refreshed_until(page, panel.get_by_text(ENDS_SOON))
        await page.get_by_role("alert").get_by_text("Save your work.").hover()
        await picture(page, "my-devices-end")
        await page.unroute_all(behavior="wait")
        await page.route("**/dra-spawner/devices*", drained)
        ended = "This server is ended at 2036-11-30 01:30."
        await refreshed_until(page, panel.get_by_text(ended))
        await page.get_by_role("alert").get_by_text(f"gpu-0: {ended}").wait_for()
        await page.unroute_all(behavior="wait")

        slices = resource_path("resource.k8s.io/v1", "resourceslices")
        (found,) = (await cluster.admin.list(slices))["items"]
        attributes = {"model": {"string": HOSTILE}}
        devices = [{**found["spec"]["devices"][0], "attributes": attributes, "taints": MARK}]
        await cluster.admin.patch(f"{slices}/{found['metadata']['name']}", {"spec": {"devices": devices}})
        sentence = "This device is marked “example.com/xid: 48”: no new server gets it."
        await refreshed_until(page, panel.get_by_text(sentence))
        await panel.get_by_text(f"gpu-0 ({HOSTILE})").wait_for()
        assert await page.locator(".hostile").count() == 0
        warning = page.get_by_role("alert").get_by_text(f"gpu-0: {sentence}")
        await warning.hover()
        await picture(page, "my-devices-warning")
        assert await serious_findings(page) == []

        theme = f"{hub.url}/user/ada/lab/api/settings/@jupyterlab/apputils-extension:themes"
        async with hub.session.put(theme, json={"raw": '{"theme": "JupyterLab Dark"}'}) as answer:
            assert answer.status == 204
        await tab.click()
        await playwright.expect(panel).not_to_be_visible()
        await page.reload()
        await page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
        await warning.hover()
        assert not await panel.is_visible(), "it opens by itself once"
        await tab.click()
        await panel.get_by_text(sentence).wait_for()
        await picture(page, "my-devices-dark")
        assert await serious_findings(page) == []

        hub.process.send_signal(signal.SIGKILL)  # its proxy stays
        await refreshed_until(page, panel.get_by_text("The hub cannot be asked: "))
        await panel.get_by_text("15 GiB of 40 GiB memory").wait_for()
        await picture(page, "my-devices-not-known")

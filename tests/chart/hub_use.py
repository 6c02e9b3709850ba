"""Actions of users and administrators on an installed hub."""

from __future__ import annotations

import json

from tests.chart.hub_release import HubRelease
from tests.polling import eventually


async def use(hub: HubRelease, user: str = "ada", *, node: str = "node-a") -> dict[str, str]:
    """Login, form, warm start, page with a node, stop; the environment of the user's server."""
    await eventually(hub.answers, "the hub can ask the service", shows=hub.cluster.logs)
    await eventually(hub.lets_log_in, "the hub answers", shows=hub.cluster.logs)
    async with await hub.browser("admin") as admin:

        async def is_warm() -> bool:
            status, text = await admin.ask(f"/services/{hub.service_name}/placeholders")
            assert status in (200, 404, 502, 503), text
            return status == 200 and 'class="state-warm"' in text and bool(await hub.placeholders())

        await eventually(is_warm, "a placeholder is warm for the service", shows=hub.cluster.logs)
    placeholders = [pod["spec"] for pod in await hub.placeholders()]
    warm_claims = {entry["resourceClaimName"] for spec in placeholders for entry in spec.get("resourceClaims", ())}
    async with await hub.browser(user) as browser:
        assert "GPU slice, 10 GiB" in await browser.get("/hub/spawn")
        events = await browser.start(profile="gpu-slice")
        assert events[-1].get("ready"), f"{events}\n{hub.cluster.logs()}"
        environment: dict[str, str] = json.loads(await browser.get(f"/user/{user}/environment"))
        assert environment["JUPYTERHUB_BASE_URL"] == hub.base_url
        pod = await hub.server_of(user)
        assert pod is not None
        if pod["metadata"]["namespace"] == hub.namespace:
            assert {each.get("resourceClaimName") for each in pod["spec"]["resourceClaims"]} <= warm_claims
        await look(hub, node)
        await browser.stop()

        async def is_gone() -> bool:
            return await hub.server_of(user) is None

        await eventually(is_gone, "the server is gone", shows=hub.cluster.logs)
    return environment


async def look(hub: HubRelease, node: str = "node-a") -> None:
    """An administrator opens the pages, which are in the hub's menu and show a node."""
    await eventually(hub.lets_log_in, "the hub answers", shows=hub.cluster.logs)
    async with await hub.browser("admin") as admin:
        path = f"/services/{hub.service_name}/"
        assert path in await admin.get("/hub/home")

        async def is_shown() -> bool:
            # 404 until the hub has seen that the service answers, 503 while another replica becomes the leader.
            status, text = await admin.ask(f"{path}nodes")
            assert status in (200, 404, 502, 503), text
            return status == 200 and node in text

        await eventually(is_shown, "the page is there", shows=hub.cluster.logs)


def assert_nothing_was_refused(hub: HubRelease) -> None:
    """The charts grant all rights that their programs use."""
    ours = set(hub.accounts())
    refused = {str(each) for each in hub.cluster.accesses() if each.account in ours and each.status in (401, 403)}
    assert not refused, sorted(refused)

"""The queue for devices as users have it: a real hub, and the real service as its child."""

from __future__ import annotations

from typing import Any

from tests.chart.browser_session import BrowserSession
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, image_list, node_with, priority_class, whole
from tests.integration.handover_hub import IMAGE, Hub
from tests.integration.ticket_questions import asked
from tests.polling import eventually

WHOLE = {"profile": "gpu-whole"}
SETTINGS = "c.DRASpawnerService.placeholders = {}\nc.DRASpawnerService.tickets = True\n"


async def state_of(session: BrowserSession) -> str:
    """State of a user's only ticket, as the page shows it; empty without one."""
    status, answer = await asked(session, "GET", {})
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["tickets"]
    return found[0]["state"] if found else ""


async def test_a_ticket_becomes_a_server_with_the_device_that_is_held(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    objects = node_with("node-a", whole("gpu-0"))
    for each in objects:
        if each["kind"] == "Node":
            each["status"]["images"] = image_list([IMAGE])
    await cluster.publish(*classes(), priority_class(), *objects)
    kubeconfig = cluster.hub_kubeconfig
    async with Hub(cluster, kubeconfig, "c.DRASpawner.tickets = True\n", settings=SETTINGS) as hub:
        await hub.until_service_ready()
        await hub.spawn("ada", WHOLE)
        await hub.until_ready("ada")
        async with BrowserSession(hub.url, "bob") as bob, BrowserSession(hub.url, "cyd") as cyd:
            status, answer = await asked(bob, "PUT", {"choice": "gpu-whole"})
            assert (status, [each["text"] for each in answer["tickets"]]) == (200, ["Whole GPU"])

            # Another start goes behind; its page offers a place.
            await cyd.get("/hub/spawn")
            status, body = await hub.refusal("cyd", WHOLE)
            assert (status, body["message"]) == (
                503,
                "One person waits for such a device already. Press “Tell me when it is free” to get one in your turn.",
            )
            _, answer = await asked(cyd, "GET", {})
            assert answer["own"] == {"choice": "gpu-whole", "text": "Whole GPU", "is_waiting": False}

            await hub.stop_server("ada")

            async def is_held() -> bool:
                return await state_of(bob) == "ready"

            await eventually(is_held, "a device is held for bob")
            (placeholder,) = await hub.placeholders()
            status, answer = await asked(bob, "POST", {"choice": "gpu-whole"})
            assert (status, answer) == (200, {"address": "/hub/spawn-pending/bob"})
            await hub.until_ready("bob")
            (entry,) = placeholder["spec"]["resourceClaims"]
            claim = await hub.claim_of("bob")
            assert claim["metadata"]["name"] == entry["resourceClaimName"]

            async def is_over() -> bool:
                return not await state_of(bob)

            await eventually(is_over, "bob's ticket is taken")

            # An administrator gives users other names: a place stays its person's, and whoever has the old name gets none.
            async with BrowserSession(hub.url, "eve") as eve:
                assert (await asked(eve, "PUT", {"choice": "gpu-whole"}))[0] == 200
                assert (await hub.request("PATCH", "/users/eve", {"name": "eva"}))[0] == 200
            async with BrowserSession(hub.url, "eva") as eva, BrowserSession(hub.url, "eve") as another:

                async def follows() -> bool:
                    return (await state_of(eva), await state_of(another)) == ("waits", "")

                await eventually(follows, "the ticket has the new name")

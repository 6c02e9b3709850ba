"""The queue for devices at a hub: floods, hostile choices, tickets of others, other sites, and clicks in several tabs."""

from __future__ import annotations

import asyncio

import aiohttp

from dra_spawner.placeholders.lifecycle import TicketEvent
from tests.browser.ticket_hub import TicketHub, ticket_hub
from tests.chart.browser_session import BrowserSession
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.ticket_questions import ADDRESS, asked
from tests.polling import eventually

CHOICE = "slice/memory=15Gi"
HOSTILE = (
    "",
    "gone",
    "slice/memory=99Gi",
    "slice/memory=",
    "slice/memory=15Gi,memory=40Gi,x=y",
    "slice/memory--unlisted-choice=1Gi",
    "../slice",
    "<script>alert(1)</script>",
    "{username}",
    "%s%d",
    "s" * 30_000,
)


async def test_the_queue_of_a_hub(embedded_cluster: ClusterUnderTest) -> None:
    async with ticket_hub(embedded_cluster) as made:
        url = made.hub.url
        async with (
            BrowserSession(url, "eve") as eve,
            BrowserSession(url, "bob") as bob,
            BrowserSession(url, "root") as root,
        ):
            for session in (eve, bob, root):
                await session.get("/hub/spawn")
            status, answer = await asked(bob, "PUT", {"choice": CHOICE})
            assert (status, [each["state"] for each in answer["tickets"]]) == (200, ["waits"])
            await tickets_of_others(made, eve, root)
            await hostile_choices(made, eve)
            await one_ticket_by_any_way(made, eve)
            await flood(made, eve, bob)
            await several_tabs(made, bob)
            status, _ = await made.hub.request("DELETE", "/users/eve")
            assert status == 204
            assert await made.order("slice") == [], "a user who is deleted"


async def tickets_of_others(made: TicketHub, eve: BrowserSession, root: BrowserSession) -> None:
    for session in (eve, root):
        for method in ("GET", "PUT", "DELETE", "POST"):
            status, _ = await asked(session, method, {"choice": CHOICE, "user": "bob"})
            assert status == 403, (session.user, method)
    # Without the token of the page, as another site would ask.
    for method in ("PUT", "DELETE", "POST"):
        status, _ = await asked(eve, method, {"choice": CHOICE}, headers={"Accept": "application/json"})
        assert status == 403, method
    # Without a login; a token is none.
    async with aiohttp.ClientSession(headers={"Authorization": f"token {made.hub.token}"}) as stranger:
        for method in ("GET", "PUT", "DELETE", "POST"):
            async with stranger.request(
                method, f"{made.hub.url}{ADDRESS}?choice={CHOICE}", allow_redirects=False
            ) as got:
                assert got.status in (302, 403), method
    status, answer = await asked(eve, "GET", {})
    assert (status, answer["tickets"], "bob" in str(answer)) == (200, [], False)
    assert (await asked(eve, "DELETE", {"choice": CHOICE}))[0] == 200
    assert await made.order(CHOICE) == ["bob"]


async def hostile_choices(made: TicketHub, eve: BrowserSession) -> None:
    for choice in HOSTILE:
        for method in ("PUT", "POST"):
            assert (await asked(eve, method, {"choice": choice}))[0] == 400, (method, choice[:50])
        assert (await asked(eve, "DELETE", {"choice": choice}))[0] == 200, choice[:50]
    status, answer = await asked(eve, "POST", {"choice": CHOICE})
    assert (status, answer) == (409, {"problem": "No device is held for you any more."})
    assert len((await made.store.book()).tickets) == 1


async def one_ticket_by_any_way(made: TicketHub, eve: BrowserSession) -> None:
    """Reloads, several tabs, named servers, and other spellings of the choice."""
    queries = [{"choice": CHOICE}, {"choice": CHOICE, "server": "second"}, {"choice": CHOICE, "server": "../x"}]
    answers = await asyncio.gather(*(asked(eve, "PUT", each) for each in queries * 3))
    assert {status for status, _ in answers} == {200}
    assert await made.order(CHOICE) == ["bob", "eve"]
    spelled = ("slice", "slice\x00", "slice/memory=40Gi", "slice/")
    assert [(await asked(eve, "PUT", {"choice": each}))[0] for each in spelled] == [200] * 4
    assert await made.order("slice") == ["eve"]
    status, answer = await asked(eve, "PUT", {"choice": "cpu"})
    assert (status, answer) == (409, {"problem": "This choice has no device that could be held for you."})
    found = {each.choice for each in (await made.store.book()).of_user("eve")}
    assert found == {CHOICE, "slice"}


async def flood(made: TicketHub, eve: BrowserSession, bob: BrowserSession) -> None:
    statuses = [
        (await asked(eve, method, {"choice": choice}))[0]
        for _ in range(30)
        for method, choice in (("DELETE", CHOICE), ("PUT", CHOICE))
    ]
    assert statuses[0] == 200
    assert 429 in statuses[-2:], "what would change nothing is still answered"
    assert statuses.count(200) <= 20 + 30, "leaving without a ticket, or joining with one, changes nothing"
    before = (await made.store.book()).next_number
    await asked(eve, "PUT", {"choice": CHOICE})
    assert (await made.store.book()).next_number == before
    assert (await asked(bob, "PUT", {"choice": CHOICE}))[0] == 200
    assert (await made.order(CHOICE))[0] == "bob"


async def several_tabs(made: TicketHub, bob: BrowserSession) -> None:
    """Clicks on "Start it" in two tabs make one start, which goes on."""
    await made.change("bob", CHOICE, TicketEvent.HOLD, 600)

    async def started() -> bool:
        answers = await asyncio.gather(*(asked(bob, "POST", {"choice": CHOICE}) for _ in range(2)))
        if 409 in {status for status, _ in answers}:
            return False  # the hub's own reading is up to two seconds old
        assert {status for status, _ in answers} == {200}, answers
        assert {answer["address"] for _, answer in answers} == {"/hub/spawn-pending/bob"}
        return True

    await eventually(started, "the hub knows what is held")
    await made.hub.until_ready("bob")
    assert (await made.hub.server_environment("bob"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"
    assert "A start is given up" not in made.hub.log.read_text()

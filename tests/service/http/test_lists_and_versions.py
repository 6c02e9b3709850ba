"""Pages of each list, and `If-Match` of each change, with a cluster."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import aiohttp

from dra_spawner.service.http.requests.endpoints import endpoints_of
from dra_spawner.service.http.requests.paging import write_token
from dra_spawner.service.http.web_application import ADDRESSES
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import DRIVER, whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.open_service import open_to_all
from tests.service.replica import publish_settings, replica, set_up

GPU = shape(WHOLE)
OPEN = [(f"open/{address}", open_to_all(handler)) for address, handler in ADDRESSES if address.startswith("api/")]
LISTS = [
    address
    for address, handler in ADDRESSES
    if (get := endpoints_of(handler).get("GET")) is not None and "continue" in {each.name for each in get.query}
]
ENTRY = {"users": "9 of gpu-slice", "begins": "2030-03-02 10:00"}
CHANGES: dict[str, tuple[str, Any, Any]] = {
    "api/settings/placeholders/{choice}": ("api/settings/placeholders/gpu-slice", {"min": 3, "max": 3}, {"min": 3, "max": 4}),
    "api/settings/paused/{choice}": ("api/settings/paused/gpu-slice", {}, {}),
    "api/settings/draining/{node}": ("api/settings/draining/n2", {}, {"reason": "repair"}),
    "api/devices/{device}/drain": (f"api/devices/{DRIVER}%2Fn2%2Fgpu-0/drain", {}, {"reason": "fan"}),
    "api/settings/acting": ("api/settings/acting", {}, {}),
    "api/settings/observing": ("api/settings/observing", {}, {}),
    "api/calendar-entries/{id}": ("", ENTRY, {**ENTRY, "minutes": 30}),
}  # fmt: skip
"""By declared address: the address of one object, and two versions."""
NO_TOKENS = ("é", "*", "a", "_w", "=", " ", "%00")
STRANGE_KEYS = ("\0", "zzzz" * 500, "' OR 1=1 --", "\N{SNOWMAN}", "-1", "9" * 30, "../..")


class Asker:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session
        self.tag = ""
        self.location = ""
        """Both of the last answer."""

    async def ask(self, method: str, path: str, body: Any = None, match: str = "") -> tuple[int, Any]:
        headers = {"If-Match": match} if match else {}
        async with self._session.request(method, f"{self._url}/open/{path}", json=body, headers=headers) as answer:
            self.tag, self.location = (answer.headers.get(name, "") for name in ("ETag", "Location"))
            return answer.status, json.loads(await answer.text() or "null")

    async def get(self, path: str, **query: str) -> Any:
        text = "&".join(f"{name}={quote(each)}" for name, each in query.items())
        return (await self.ask("GET", f"{path}?{text}"))[1]


async def test_lists_and_versions(embedded_cluster: ClusterUnderTest) -> None:
    """One service for all checks: its start takes longer than the checks."""
    nodes = [node(name, whole("gpu-0"), whole("gpu-1")) for name in ("n1", "n2")]
    await set_up(embedded_cluster, {"gpu-slice": GPU}, *nodes[0], *nodes[1])
    await publish_settings(embedded_cluster)
    async with (
        replica(embedded_cluster, placeholders={"gpu-slice": {"min": 3}}, more=OPEN) as service,
        aiohttp.ClientSession() as session,
    ):
        await service.until_warm(GPU, 3)
        asker = Asker(service.url, session)
        await check_versions(asker)
        await service.until(
            lambda: (
                len(service.placeholders()) == len(service.controller.view().warm(GPU.id)) == 3
                and not service.controller.view().terminating
            ),
            "all is as before",
        )
        for begins in ("2030-03-02 10:00", "2030-03-03 10:00", "2030-03-01 10:00"):
            status, made = await asker.ask("POST", "api/calendar-entries", {**ENTRY, "begins": begins})
            assert (status, asker.location) == (201, f"/api/calendar-entries/{made['id']}")
        # Nothing changes any more.
        for path, body in (
            ("observing", {}),
            ("paused/gpu-slice", {}),
            ("placeholders/gpu-slice", {"min": 0, "max": 9}),
        ):
            assert (await asker.ask("PUT", f"api/settings/{path}", body))[0] == 200
        for address in LISTS:
            await check_pages(asker, address)
        await check_a_token_whose_item_is_gone(asker)


async def check_versions(asker: Asker) -> None:
    """A change with another version than the present one is refused, and changes nothing."""
    declared = {
        (address, method)
        for address, handler in ADDRESSES
        for method, each in endpoints_of(handler).items()
        if each.precondition
    }
    assert declared == {(address, method) for address in CHANGES for method in ("PUT", "DELETE")}
    for path, first, second in CHANGES.values():
        if not path:
            _, made = await asker.ask("POST", "api/calendar-entries", first)
            path = f"api/calendar-entries/{made['id']}"
        else:
            assert (await asker.ask("PUT", path, first, match="*"))[0] == 412, "there is none yet"
            assert (await asker.ask("PUT", path, first))[0] == 200
        answered = asker.tag
        _, found = await asker.ask("GET", path)
        tag = asker.tag
        assert answered == tag, "the answer to a change has the tag for the next one"
        for wrong in ('"other"', "other", '""', tag.strip('"'), f"{tag[:-2]}x{tag[-1]}"):
            assert (await asker.ask("PUT", path, second, match=wrong))[0] == 412, (path, wrong)
            assert (await asker.ask("DELETE", path, match=wrong))[0] == 412, (path, wrong)
        assert await asker.ask("GET", path) == (200, found)
        assert (await asker.ask("PUT", path, second, match=f'"other", {tag}'))[0] == 200
        assert (await asker.ask("DELETE", path, match=tag))[0] == 412, "somebody has changed it"
        await asker.ask("GET", path)
        assert (await asker.ask("DELETE", path, match=asker.tag))[0] == 204
        assert (await asker.ask("DELETE", path, match="*"))[0] == 404


async def check_pages(asker: Asker, address: str) -> None:
    """Pages of one item have each item once, in order; wrong parameters are refused."""
    status, whole_list = await asker.ask("GET", address)
    if status == 503:
        assert address == "api/misses", "there is no history"
        return
    items, token, seen = whole_list["items"], "", list[Any]()
    for _ in range(len(items) + 5):
        page = await asker.get(address, limit="1", **{"continue": token})
        assert len(page["items"]) <= 1
        seen += page["items"]
        token = page["continue"]
        if not token:
            break
    # Newer decisions would come first.
    assert [identity(each) for each in seen][-len(items) :] == [identity(each) for each in items], address
    assert (await asker.get(address, limit="0"))["items"] == []
    for limit in ("-1", "1001", "1.5", "x", "1e3", "\N{FULLWIDTH DIGIT ONE}", "9" * 30):
        status, problem = await asker.ask("GET", f"{address}?limit={quote(limit)}")
        assert (status, problem["title"]) == (400, "Bad Request"), (address, limit)
    for token in NO_TOKENS:
        status, _ = await asker.ask("GET", f"{address}?continue={token if token == '%00' else quote(token)}")
        assert status == 400 or (token == " " and status == 200), (address, token)
    for key in STRANGE_KEYS:
        status, found = await asker.ask("GET", f"{address}?limit=1&continue={write_token(key)}")
        assert status in (200, 400), (address, key)
        assert status == 400 or len(found["items"]) <= 1


async def check_a_token_whose_item_is_gone(asker: Asker) -> None:
    """The next page begins after its position."""
    page = await asker.get("api/settings", limit="2")
    rest = (await asker.get("api/settings"))["items"][2:]
    gone = page["items"][1]
    assert (await asker.ask("DELETE", f"api/settings/{gone['kind']}/{gone['name']}"))[0] == 204
    following = await asker.get("api/settings", limit="9", **{"continue": page["continue"]})
    assert (following["items"], following["continue"]) == (rest, "")


def identity(item: Any) -> Any:
    # The time of a forecast is that of its last computation.
    moment = () if "name" in item else ("at",)
    return [item[key] for key in ("number", "id", "subject", "kind", "name", *moment) if key in item]

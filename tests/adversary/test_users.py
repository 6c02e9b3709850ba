"""Options of servers that a hostile user sends to a hub, by every existing way."""

from __future__ import annotations

import urllib.parse

import aiohttp
import jupyterhub
import pytest

from tests.adversary.hostile_requests import FIELD, SENT
from tests.chart.browser_session import BrowserSession, error_in
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess
from tests.spawner.sized_profiles import sized_share

SIZED = sized_share("Sized", "sized", "5Gi", "10Gi")
SIZED["profile_options"]["memory"]["unlisted_choice"] = {
    "enabled": True,
    "validation_regex": r"^\d+Gi$",
    "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "{value}"}}}},
}
PROFILES = f"""
c.DRASpawner.profile_list = [
    {SIZED!r},
    {{
        "display_name": "Other", "slug": "other",
        "profile_options": {{"cores": {{"display_name": "Cores", "choices": {{"1": {{"display_name": "1"}}}}}}}},
    }},
]
c.DummyAuthenticator.password = "password"
"""
#: Status of a page with an error; early versions of JupyterHub 5 leave it as it is.
REFUSED = (400,) if jupyterhub.version_info >= (6,) else (200, 400)


@pytest.fixture
async def hub(embedded_cluster):
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    directory = embedded_cluster.directory / "hub"
    async with HubProcess(directory, embedded_cluster.hub_kubeconfig, embedded_cluster.namespace, PROFILES) as hub:
        hub.let_forms_wait()
        yield hub


async def nothing_was_made(cluster):
    for plural in ("pods", "resourceclaims", "resourceclaimtemplates", "persistentvolumeclaims"):
        assert (await cluster.admin.list(cluster.path(plural)))["items"] == []


def browser(hub: HubProcess) -> BrowserSession:
    """Of a user."""
    return BrowserSession(hub.url, "eve", "password")


async def test_options_by_rest_by_form_and_by_query(embedded_cluster, hub):
    """Each is refused before any object is created, and valid options still work afterwards."""
    await hub.add_user("eve")
    for server in ("", "named"):
        for options, sentence in SENT[:4] if server else SENT:
            status, body = await hub.refusal("eve", options, server)
            assert (status, sentence in body["message"]) == (400, True), (str(options)[:200], body)
            assert len(body["message"]) < 500
    if jupyterhub.version_info >= (6,):
        status, body = await hub.refusal("eve", {"user_options": {"memroy": "5Gi"}})
        assert status == 400, body
    for body in ("[[]]", '["sized"]', '"sized"', "7", "true", "{", '{"profile": "sized"', "[" * 100_000):
        async with hub.session.post(f"{hub.url}/hub/api/users/eve/server", data=body) as answer:
            assert answer.status == 400, (body[:50], await answer.text())

    async with browser(hub) as session:
        await by_form(session)
        await by_query(session)
    await nothing_was_made(embedded_cluster)
    lines = hub.log.read_text().splitlines()
    assert max(map(len, lines)) < 10_000
    assert not [line for line in lines if line.startswith("[I JupyterHub] eve")]

    status, body = await hub.spawn("eve", {"profile": "sized", "memory": "10Gi"})
    assert status in (201, 202), body
    await hub.until_ready("eve")
    assert (await hub.server_environment("eve"))["DRA_CLAIM_GPU_MEMORY"] == "10Gi"
    await hub.stop_server("eve")
    await hostile_names(hub)
    await stored_options_of_another_list(embedded_cluster, hub)


async def by_form(session: BrowserSession) -> None:
    sized = ("profile", "sized")
    others = [("profile-option-other--cores", "1"), ("select-profile", "sized")]
    for fields, sentence in (
        ([sized, (f"{FIELD}memroy", "5Gi")], "did you mean memory?"),
        ([sized, ("memroy", "5Gi")], "did you mean profile-option-sized--memory?"),
        ([("memroy", "5Gi")], "did you mean profile-option-sized--memory?"),
        ([("profile", "")], "the profile is empty"),
        ([sized, ("profile", "other")], "several profiles are picked"),
        ([sized, (f"{FIELD}memory", "")], "no choice"),
        ([sized, (f"{FIELD}memory", "<script>alert(1)</script>")], "no choice"),
        ([sized, (f"{FIELD}memory--unlisted-choice", "")], "type a value"),
        (
            [sized, (f"{FIELD}memory", "5Gi"), (f"{FIELD}memory--unlisted-choice", "10Gi")],
            "both a choice and free text",
        ),
        ([sized, *others, ("<script>alert(1)</script>", "x")], "there is no field"),
        ([sized, (f"{FIELD}{{username}}", "x")], "has no option"),
        ([(f"{FIELD}memory", "5Gi")], "needs a profile beside it"),
        ([sized, ("profile-option-gone--memory", "5Gi")], "is no field of any profile"),
    ):
        status, page = await session.refusal(data=aiohttp.FormData(fields, default_to_multipart=True))
        assert (status in REFUSED, sentence in error_in(page)) == (True, True), (fields, status, error_in(page))
        assert "<script>alert(1)" not in page


async def by_query(session: BrowserSession) -> None:
    prefixes = ("", "opt-") if jupyterhub.version_info >= (6,) else ("",)
    for prefix in prefixes:
        for query, sentence in (
            ({"profile": "sized", "memroy": "5Gi"}, "did you mean profile-option-sized--memory?"),
            ({"profile": "sized", f"{FIELD}memroy": "5Gi"}, "did you mean memory?"),
            ({"profile": "root"}, "there is no profile"),
            ({"profile": "<script>alert(1)</script>"}, "there is no profile"),
            ({"profile": ""}, "the profile is empty"),
        ):
            params = {f"{prefix}{name}": value for name, value in query.items()}
            status, page = await session.refusal("GET", params=params)
            assert (status in REFUSED, sentence in error_in(page)) == (True, True), (params, error_in(page))
            assert "<script>alert(1)" not in page
    # A parameter of JupyterHub, with a link of nbgitpuller.
    after = "/hub/user-redirect/git-pull?repo=https%3A%2F%2Fexample.org%2Fcourse&urlpath=lab"
    status, page = await session.ask(f"/hub/spawn/eve?next={urllib.parse.quote(after, safe='')}")
    assert (status, error_in(page)) == (200, "")


async def hostile_names(hub: HubProcess) -> None:
    """They start servers like everybody, and stay text; JupyterHub refuses some of them itself."""
    for name in ('"><img src=x onerror=alert(1)>', "{username}$(JUPYTERHUB_API_TOKEN)", "\u202eäda\u0308"):
        quoted = urllib.parse.quote(name, safe="")
        status, body = await hub.spawn(quoted, {"profile": "other"})
        assert status in (201, 202), body
        events = await hub.until_ready(quoted)
        assert not [event for event in events if "<img" in event.get("html_message", "").replace("&lt;", "")]
        assert (await hub.server_environment(quoted))["JUPYTERHUB_USER"].startswith(name[:5])
        await hub.stop_server(quoted)


async def stored_options_of_another_list(cluster, hub: HubProcess) -> None:
    """A choice from before the administrator changed the profiles gives a sentence, and the form works as before."""
    await hub.stop()
    changed = PROFILES.replace("'memory': {'display_name'", "'storage': {'display_name'")
    assert changed != PROFILES
    async with HubProcess(hub.directory, hub.kubeconfig, cluster.namespace, changed) as again:
        status, body = await again.refusal("eve")
        assert status == 400, body
        assert body["message"].endswith("has no option 'memory'; there are: storage. Please choose again.")
        async with browser(again) as session:
            assert f"{FIELD}storage" in await session.get("/hub/spawn/eve")
        status, body = await again.request("POST", "/users/eve/server", {"profile": "other"})
        assert status in (201, 202), body
        await again.until_ready("eve")
        await again.stop_server("eve")

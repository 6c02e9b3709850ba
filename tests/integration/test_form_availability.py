"""Availability for the spawn form of a real hub: which user gets an answer, and about which choices."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.integration.hub_process import HubProcess
from tests.polling import eventually
from tests.spawner.service_stand_in import TOKEN, ServiceStandIn, profile_items

CONFIG = """
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {url!r}, "api_token": {token!r}}})
c.Authenticator.admin_users = {{"root"}}

def profiles(spawner):
    sizes = {{size: {{"display_name": size}} for size in ("s", "l")}}
    images = {{image: {{"display_name": image}} for image in ("new", "old")}}
    options = {{"size": {{"display_name": "Size", "choices": sizes}}, "image": {{"display_name": "Image", "choices": images}}}}
    own = {{"display_name": "GPU", "slug": "gpu", "profile_options": options}}
    return [{{"display_name": "CPU", "slug": "cpu"}}, *([own] if spawner.user.name == "ada" else [])]

c.DRASpawner.profile_list = profiles
"""


@contextlib.asynccontextmanager
async def logged_in(hub: HubProcess, user: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await session.get(f"{hub.url}/hub/login")
        xsrf = next(cookie.value for cookie in session.cookie_jar if cookie.key == "_xsrf")
        data = {"username": user, "password": "any", "_xsrf": xsrf}
        async with session.post(f"{hub.url}/hub/login", data=data, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
        yield session


async def start_another(hub: HubProcess, session: aiohttp.ClientSession, name: str, query: str = "", **headers: str):
    """Status of the question for a start of another choice than the one that waits."""
    async with session.post(
        f"{hub.url}/hub/dra-spawner/start{query}", data={"name": name}, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status


async def start_of(hub: HubProcess, session: aiohttp.ClientSession, query: str = ""):
    async with session.get(f"{hub.url}/hub/dra-spawner/start{query}", allow_redirects=False) as answer:
        return answer.status, await answer.json() if answer.status == 200 else None


async def asked(hub, session, query="", **headers):
    async with session.get(
        f"{hub.url}/hub/dra-spawner/availability{query}", headers=headers, allow_redirects=False
    ) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if answer.status == 200 else None


@pytest.mark.promise("The form shows availability of a user's own choices, and of no others.")
async def test_users_learn_of_their_own_choices_only(embedded_cluster, tmp_path):
    async def answer(query):
        if query:
            return profile_items(
                **{query["name"]: {"state": "never", "sentence": "<script>alert(1)</script>.", "wait": None}}
            )
        return profile_items(cpu="free", gpu="ready", secret="free", **{"gpu/size=l": "when-stopped"})

    cluster = embedded_cluster
    async with ServiceStandIn().listening() as service:
        service.profiles = answer
        config = CONFIG.format(url=service.url, token=TOKEN)
        async with HubProcess(tmp_path / "hub", cluster.hub_kubeconfig, cluster.namespace, config) as hub:
            async with logged_in(hub, "ada") as ada:

                async def known(session, choice, query=""):
                    """The hub's answer when it has the service's, for which it waits a second at most."""
                    status, body = await asked(hub, session, query)
                    return body if status == 200 and body["choices"][choice]["state"] != "unknown" else None

                # Before any user has opened a form, as after a restart of the hub.
                answered = await eventually(lambda: known(ada, "cpu"), "the hub serves availability")
                states = {name: each["state"] for name, each in answered["choices"].items()}
                assert states == {
                    "cpu": "free",
                    "gpu": "ready",
                    "gpu/size=l": "when-stopped",
                    "gpu/image=old": "unknown",
                }
                assert answered["age_seconds"] < 10
                assert answered["choices"]["gpu"] == {"state": "ready", "label": "ready", "sentence": ""}

                query = "?name=gpu/size=l,image=old&name=gpu/size=s&name=secret"
                answered = await eventually(
                    lambda: known(ada, "gpu/size=l,image=old", query), "the combination is known"
                )
                assert answered["choices"]["gpu/size=l,image=old"]["state"] == "never"
                assert answered["choices"]["gpu/size=s"]["state"] == "ready"
                assert answered["choices"]["secret"]["state"] == "unknown"
                assert {"name": "secret"} not in service.questions

                async def form_with_states():
                    async with ada.get(f"{hub.url}/hub/spawn") as page:
                        form = await page.text()
                    return form if 'data-state="free"' in form else None

                form = await eventually(form_with_states, "the form has the service's answer")
                assert "/hub/dra-spawner/availability?user=ada" in form

                assert (await asked(hub, ada, "?user=root"))[0] == 403
                assert (await asked(hub, ada, "?user=nobody"))[0] == 403
                assert (await asked(hub, ada, "?server=none"))[0] == 200
                _, model = await hub.request("GET", "/users/ada?include_stopped_servers=1")
                assert "none" not in model["servers"], "asking creates no server"

                # The page of a start: of the user's own server, with the token of the page, and choices of the form alone.
                for query in ("?user=root", "?user=nobody"):
                    assert (await start_of(hub, ada, query))[0] == 403
                status, start = await start_of(hub, ada, "?server=none")
                assert (status, start["state"], start["offers"], start["usual"]) == (200, "over", [], "")
                xsrf = next(each.value for each in ada.cookie_jar if each.key == "_xsrf" and each["path"] == "/hub/")
                token = {"X-XSRFToken": xsrf}
                assert await start_another(hub, ada, "cpu") == 403
                assert await start_another(hub, ada, "cpu", "?user=root", **token) == 403
                for name in ("secret", "gpu/size=xl", "gpu/other=1", "", "cpu" * 10_000):
                    assert await start_another(hub, ada, name, **token) == 400, name[:20]
                assert await start_another(hub, ada, "gpu/size=l", **token) == 200
                _, model = await hub.request("GET", "/users/ada?include_stopped_servers=1")
                assert not any(each["pending"] or each["ready"] for each in model["servers"].values()), "nothing waited"

            async with logged_in(hub, "bob") as bob:
                answered = await eventually(lambda: known(bob, "cpu", "?name=gpu/size=l,image=old"), "bob's answer")
                assert {name: each["state"] for name, each in answered["choices"].items()} == {
                    "cpu": "free",
                    "gpu/size=l,image=old": "unknown",
                }
            async with logged_in(hub, "root") as root:
                _, answered = await asked(hub, root, "?user=ada")
                assert "gpu" in answered["choices"]
            async with aiohttp.ClientSession() as nobody:
                assert (await asked(hub, nobody))[0] == 403
                assert (await start_of(hub, nobody))[0] == 403
                assert (await asked(hub, nobody, Authorization=f"token {hub.token}"))[0] == 403

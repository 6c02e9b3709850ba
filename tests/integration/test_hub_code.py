"""A real hub with code of its own around the spawner: its class, its form for each user, its refusals, its options."""

from __future__ import annotations

import jupyterhub
import pytest

from dra_spawner.spawner import DRASpawner
from tests.chart.browser_session import BrowserSession, error_in
from tests.integration.devices import node_with
from tests.integration.hub_process import HubProcess

CODE = """
from tornado import web
from dra_spawner.spawner import DRASpawner

c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 1}
PROFILES = [{"display_name": "CPU", "slug": "cpu"}, {"display_name": "GPU", "slug": "gpu"}]


def profiles(spawner):
    if spawner.user.name == "guest":
        raise web.HTTPError(403, "Ask your teacher to add you to the course.")
    return PROFILES


async def form(spawner):
    spawner.profile_list = [each for each in profiles(spawner) if each["slug"] == "cpu" or spawner.user.name == "ada"]
    return spawner._options_form_default()


class OwnSpawner(DRASpawner):
    def options_from_form(self, fields):
        return {**self._options_from_form(fields), "course": fields["course"][0]}

    def start(self):
        self.environment = {"COURSE": self.user_options.get("course", "none")}
        return super().start()


async def hook(spawner, pod):
    if spawner.user.name == "busy":
        raise web.HTTPError(409, "The course room is full.")
    if spawner.user.name == "unlucky":
        raise RuntimeError("no connection with password=hunter2")
    return pod


c.JupyterHub.spawner_class = OwnSpawner
c.DRASpawner.modify_pod_hook = hook
c.DRASpawner.profile_list = profiles
c.DRASpawner.options_form = form
"""


@pytest.fixture
async def hub(embedded_cluster):
    await embedded_cluster.publish(*node_with("node-a"))
    directory = embedded_cluster.directory / "hub"
    async with HubProcess(directory, embedded_cluster.hub_kubeconfig, embedded_cluster.namespace, CODE) as hub:
        yield hub


async def numbers(hub, user):
    """The numbers of the progress, as a client of JupyterHub's API reads them."""
    events = await hub.until_ready(user)
    return [event["progress"] for event in events]


async def refused(hub, user):
    """Status and message of a start that the REST API refuses."""
    status, body = await hub.refusal(user, {"profile": "gpu"})
    return status, body["message"]


async def test_code_of_the_hub_works_as_with_kubespawner(hub):
    async with BrowserSession(hub.url, "ada") as ada, BrowserSession(hub.url, "bob") as bob:
        forms = [await session.get("/hub/spawn") for session in (ada, bob)]
        assert [form.count('type="radio"') for form in forms] == [2, 1]
        assert not [form for form in forms if "bound method" in form]
        events = await ada.start(profile="gpu", course="DRA-101")
        shown = [event["progress"] for event in events]
        assert events[-1].get("ready"), events
        assert shown == sorted(shown)
    assert (await hub.server_environment("ada"))["COURSE"] == "DRA-101"
    await hub.stop_server("ada")

    # A hub without the form's list, which is in the spawner alone, starts with stored options and with others.
    for options, course in ((None, "DRA-101"), ({"profile": "cpu", "course": "by REST", "more": [1]}, "by REST")):
        status, body = await hub.spawn("ada", options)
        assert status in (201, 202), body
        shown = await numbers(hub, "ada")
        assert shown == sorted(shown)
        assert (await hub.server_environment("ada"))["COURSE"] == course
        await hub.stop_server("ada")

    assert await refused(hub, "guest") == (403, "Ask your teacher to add you to the course.")
    assert await refused(hub, "busy") == (409, "The course room is full.")
    status, message = await refused(hub, "unlucky")
    assert (status, "hunter2" in message) == (500, False), message
    assert "hunter2" in hub.log.read_text()
    async with BrowserSession(hub.url, "guest") as guest:
        status, page = await guest.ask("/hub/spawn")
        assert status == 403
        assert "Ask your teacher to add you to the course." in page


async def test_a_user_that_tests_make_up_gets_a_server_and_numbers(embedded_faulty):
    """KubeSpawner's own user for tests has a name, a number and an address."""
    config = embedded_faulty.side.config
    config.DRASpawner.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}}
    spawner = DRASpawner(config=config, api_token="secret", oauth_client_id="unused", _mock=True)
    assert isinstance(await spawner.poll(), int)
    start = spawner.start()
    items = [item async for item in spawner.progress()]
    assert (await start).startswith("http://")
    assert {type(item["progress"]) for item in items} == {int}
    shown = [item["progress"] for item in items]
    assert shown == sorted(shown)
    assert shown[-1] > 0
    assert await spawner.poll() is None
    await spawner.stop()
    assert isinstance(await spawner.poll(), int)


async def test_profiles_that_have_changed_let_the_user_choose_again(embedded_cluster):
    """Also where there are none any more, and so no form in which to choose."""
    before = 'c.DRASpawner.profile_list = [{"display_name": "GPU", "slug": "gpu"}]'
    renamed = 'c.DRASpawner.profile_list = [{"display_name": "Slice", "slug": "slice"}]'
    await embedded_cluster.publish(*node_with("node-a"))
    directory = embedded_cluster.directory / "hub"
    for config in (before, renamed, "c.DRASpawner.profile_list = []"):
        hub = HubProcess(directory, embedded_cluster.hub_kubeconfig, embedded_cluster.namespace, config)
        hub.let_forms_wait()
        async with hub, BrowserSession(hub.url, "ada") as ada:
            if config == before:
                status, body = await hub.spawn("ada", {"profile": "gpu"})
                assert status in (201, 202), body
            elif config == renamed:
                status, body = await hub.refusal("ada")
                assert (status, body["message"].endswith("there are: slice. Please choose again.")) == (400, True), body
                status, page = await ada.refusal(data={"profile": "gpu"})
                assert status == 400 or jupyterhub.version_info < (6,)
                assert error_in(page).endswith("there are: slice. Please choose again.")
                assert 'value="slice"' in page
                # The default profile.
                status, body = await hub.spawn("ada", {"user_options": {}} if jupyterhub.version_info >= (6,) else {})
                assert status in (201, 202), body
            else:
                status, body = await hub.spawn("ada", {"profile": "gpu"})
                assert status in (201, 202), body
            await hub.until_ready("ada")
            await hub.stop_server("ada")

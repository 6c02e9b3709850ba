"""A hub's own class, based on KubeSpawner or on DRASpawner."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Collection
from typing import Any

import pytest
from jupyterhub.user import User
from kubespawner import KubeSpawner

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.published_shapes import read_config_map
from dra_spawner.spawner import DRASpawner
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable, whole
from tests.integration.faulty_hub import Faulty
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

#: A start ends at this limit; JupyterHub's own wait.
_LIMIT_SECONDS = 4
#: JupyterHub stops a server a second after it has cancelled its start; on a slow machine a start may take longer to end.
_INTERRUPTED_SECONDS = 30.0


def own_class(base: Any, calls: list[str]) -> type:
    """A class as hubs have them: it notes the order of its calls, and uses names that parts of DRASpawner have, too."""

    class HubSpawner(base):
        availability = kubernetes = home = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.record = self.messages = self.attempt = self.steps = "of the hub"
            super().__init__(*args, **kwargs)
            self.devices = self.configured = self.trouble = self.record

        async def start(self) -> Any:
            calls.append("start")
            return await super().start()

        async def stop(self, now: bool = False) -> None:
            try:
                await super().stop(now)
            finally:
                calls.append(f"stop now={now}")

    return HubSpawner


def failing_hook(spawner: Any, pod: Any) -> None:
    raise RuntimeError("by a test")


async def interrupt(faulty: Faulty, user: User, created: Collection[str]) -> None:
    """Stop a pending start as JupyterHub's API does; with the answer about its pod KubeSpawner would lose that."""
    starting = asyncio.create_task(user.spawn())
    await faulty.cluster.wait_event(f"jupyter-{user.name}", "FailedScheduling")
    await eventually(lambda: user.name in created, "the hub has its answer")
    starting.cancel()
    done, _ = await asyncio.wait({starting}, timeout=_INTERRUPTED_SECONDS)
    assert done, "a cancelled start ends"
    await user.stop()


async def fail(user: User) -> None:
    with contextlib.suppress(Exception):
        await user.spawn()


async def calls_of(faulty: Faulty, base: Any) -> dict[str, list[str]]:
    """Calls of a class and its hook, by the way in which a start ends."""
    calls: list[str] = []
    created: list[str] = []
    faulty.side.spawner_class = own_class(base, calls)
    section = faulty.side.config[base.__name__]
    section.update(faulty.side.config.DRASpawner)
    section.update(
        extra_resource_limits={"x.example.com/gpu": "1"},
        post_stop_hook=lambda spawner: calls.append("hook"),
        modify_pod_hook=None,
        after_pod_created_hook=lambda spawner, pod: created.append(spawner.user.name),
    )
    found = {}

    async def note(way: str, work: Any) -> None:
        calls.clear()
        await work
        found[way] = list(calls)
        await faulty.nothing_is_left()

    def user(name: str) -> User:
        return faulty.side.user(f"{name}-{base.__name__.lower()}")

    for number in range(2):
        await note(f"stopped while pending, {number}", interrupt(faulty, user(f"ada{number}"), created))
    section.after_pod_created_hook = None
    # Only here: elsewhere the end of a start would come before what the test waits for.
    section.start_timeout = _LIMIT_SECONDS
    await note("time limit", fail(user("bob")))
    section.start_timeout = faulty.side.config.DRASpawner.start_timeout
    section.after_pod_created_hook = failing_hook
    await note("hook after the pod", fail(user("eve")))
    section.after_pod_created_hook, section.modify_pod_hook = None, failing_hook
    await note("hook before the pod", fail(user("dan")))
    return found


@pytest.mark.promise("A hub's own class is asked to stop what it has started, as with KubeSpawner.")
async def test_stop_of_a_hubs_class_is_called_as_with_kubespawner(embedded_faulty: Faulty) -> None:
    with_devices = await calls_of(embedded_faulty, DRASpawner)
    assert with_devices["stopped while pending, 0"] == ["start", "stop now=False", "hook"]
    assert with_devices == await calls_of(embedded_faulty, KubeSpawner)


async def test_a_start_that_is_cancelled_with_the_answer_to_a_request_ends(
    embedded_faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = embedded_faulty.user()
    user.spawner.node_selector = {"kubernetes.io/hostname": "nowhere"}
    api = user.spawner.api
    create = api.create_namespaced_pod

    async def answered(*arguments: Any, **options: Any) -> Any:
        found = await create(*arguments, **options)
        starting.cancel()
        return found

    monkeypatch.setattr(api, "create_namespaced_pod", answered)
    starting = asyncio.create_task(user.spawn())
    await asyncio.wait({starting}, timeout=_INTERRUPTED_SECONDS)
    assert starting.cancelled()
    await user.stop()
    await embedded_faulty.nothing_is_left()


class NoManifest(DRASpawner):
    async def get_pod_manifest(self) -> Any:
        return await KubeSpawner.get_pod_manifest(self)


class NoOptions(DRASpawner):
    async def load_user_options(self) -> None:
        await KubeSpawner.load_user_options(self)


async def test_a_class_whose_pods_would_lack_their_devices_is_refused(
    embedded_faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    section = embedded_faulty.side.spawner_config
    section.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
    methods = ((NoManifest, "get_pod_manifest"), (NoOptions, "load_user_options"))
    for user, (spawner_class, method) in zip(("ada", "eve"), methods, strict=True):
        embedded_faulty.side.spawner_class = spawner_class
        spawner = embedded_faulty.user(user).spawner
        spawner.log.addHandler(caplog.handler)
        error = await embedded_faulty.spawn(user)
        spawner.log.removeHandler(caplog.handler)
        assert str(error) == "This server would start without its devices. Please tell your administrator."
        assert f"{spawner_class.__name__}.{method} must call super().{method}()" in caplog.text
        await embedded_faulty.nothing_is_left()


#: As pieces of `hub.extraConfig`, in the order of their keys. The class looks at all that it gets.
PIECES = """
from kubespawner import KubeSpawner


class HubSpawner(KubeSpawner):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        assert self.user.authenticator is self.authenticator is not None
        assert self.orm_spawner.user is self.user.orm_user
        self.environment = {**self.environment, "FROM_OWN_CLASS": self.db.query(type(self.user.orm_user)).count() and "yes"}

    async def start(self):
        self.log.info("own start of %s", self.user.name)
        return await super().start()

    async def stop(self, now=False):
        await super().stop(now)
        self.log.info("own stop of %s", self.user.name)


c.JupyterHub.spawner_class = HubSpawner

from dra_spawner.hub import setup
setup(c)

c.HubSpawner.post_stop_hook = lambda spawner: spawner.log.info("own hook of %s", spawner.user.name)
c.JupyterHub.services.append({"name": "dra-spawner", "api_token": "x" * 32})
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}
"""


async def test_a_class_that_is_set_before_setup_gets_devices(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")), *node_with("node-b", whole("gpu-b")))
    await cluster.admin.patch("/api/v1/nodes/node-b", {"spec": {"unschedulable": True}})
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, PIECES) as hub:
        await hub.spawn("ada", {"profile": "gpu-slice"})
        await hub.until_ready("ada")
        environment = await hub.server_environment("ada")
        assert (environment["FROM_OWN_CLASS"], environment["DRA_CLAIM_GPU_MEMORY"]) == ("yes", "10Gi")
        await hub.stop_server("ada")
        # The only whole GPU is on a node that is closed.
        await hub.spawn("eve", {"profile": "gpu-whole"})
        await cluster.wait_event("jupyter-eve", "FailedScheduling")
        await hub.stop_server("eve")
        await cluster.wait_gone(cluster.path("resourceclaimtemplates"))
        written = await cluster.wait_for(cluster.path("configmaps", names.SHAPES_CONFIG_MAP), lambda found: True)
        assert list(read_config_map(written).shapes) == ["gpu-slice", "gpu-whole"]
        log = hub.log.read_text()
        assert re.findall(r"own (\w+) of (\w+)", log) == [
            (call, user) for user in ("ada", "eve") for call in ("start", "stop", "hook")
        ]
        assert "HubSpawner is based on KubeSpawner, and has devices" in log
        assert "Traceback" not in log
        # `setup` was called by two pieces.
        assert log.count("Checked device profiles: choices=") == log.count("Published the shapes of profiles") == 1

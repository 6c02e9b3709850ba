"""A real hub with a class of its own, on KubeSpawner or on DRASpawner, and every way in which its starts can end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.kube.client.api import KubernetesError, resource_path
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

__all__ = ["DIFFERENCES", "ENDINGS", "ENDINGS_OF_THE_HUB", "BasedHub", "node_for", "outcomes"]

#: Kinds of objects that a start can leave.
KINDS: Final = (
    "pods",
    "secrets",
    "services",
    "persistentvolumeclaims",
    "configmaps",
    "resourceclaims",
    "resourceclaimtemplates",
)

_CONFIG: Final = '''
import json
from kubernetes_asyncio.client.exceptions import ApiException
from tornado import web
from {module} import {name} as Base

del c.DRASpawner


def note(spawner, what):
    with open("hooks.log", "a") as stream:
        stream.write(json.dumps([spawner.user.name, what]) + "\\n")


class HubSpawner(Base):
    """Makes a secret for each start, and removes it with the server."""

    @property
    def ticket(self):
        return "ticket-" + self.pod_name

    async def start(self):
        note(self, "start")
        if self.user.name == "start-fails":
            raise KeyError("course")
        body = {{"metadata": {{"name": self.ticket}}, "stringData": {{"ticket": self.user.name}}}}
        try:
            await self.api.create_namespaced_secret(self.namespace, body)
        except ApiException as error:
            if error.status != 409:
                raise
        return await super().start()

    async def stop(self, now=False):
        try:
            await super().stop(now)
        finally:
            note(self, "stop")
            try:
                await self.api.delete_namespaced_secret(self.ticket, self.namespace)
            except ApiException as error:
                if error.status != 404:
                    raise


def prepare(spawner):
    name = spawner.user.name
    note(spawner, "pre_spawn_hook")
    if name == "hook-refuses":
        raise web.HTTPError(403, "Your course has ended.")
    if name == "hook-fails":
        raise KeyError("course")
    if name in ("late", "stopped-while-pending", "hub-killed-while-pending"):
        spawner.node_selector = {{"for": "nobody"}}
    if name == "late":
        spawner.start_timeout = 8
    spawner.http_timeout = 120
    if name == "node-lost":
        spawner.node_selector = {{"for": name}}
    if name == "refused":
        spawner.extra_labels = {{"no label": "x"}}


def modify(spawner, pod):
    note(spawner, "modify_pod_hook")
    if spawner.user.name == "manifest-fails":
        raise KeyError("course")
    return pod


async def created(spawner, pod):
    note(spawner, "after_pod_created_hook")
    if spawner.user.name == "accounting-fails":
        raise RuntimeError("no answer")


c.JupyterHub.spawner_class = HubSpawner
# The hub's answer says how a start has ended; tests do not wait for it while a start is pending.
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 600}}
c.KubeSpawner.update({traits})
c.KubeSpawner.pre_spawn_hook = prepare
c.KubeSpawner.modify_pod_hook = modify
c.KubeSpawner.after_pod_created_hook = created
c.KubeSpawner.post_stop_hook = lambda spawner: note(spawner, "post_stop_hook")
c.KubeSpawner.poll_interval = 1
c.KubeSpawner.node_selector = {{"for": "everybody"}}
# After a restart the hub waits this long for a server, also for one that was pending.
c.KubeSpawner.http_timeout = 20
c.KubeSpawner.delete_grace_period = 0
c.KubeSpawner.storage_pvc_ensure = True
c.KubeSpawner.storage_capacity = "1Gi"
'''


class BasedHub(HubProcess):
    """A hub whose class is based on KubeSpawner or on DRASpawner, with the same configuration.

    Parameters
    ----------
    base
        The class.
    """

    def __init__(self, cluster: ClusterUnderTest, base: type) -> None:
        self._base = base
        super().__init__(cluster.directory / base.__name__, cluster.hub_kubeconfig, cluster.namespace)

    def _config_text(self, namespace: str) -> str:
        # Without the file that this project ships: it chooses the class.
        text = "\n".join(line for line in super()._config_text(namespace).splitlines() if "load_subconfig" not in line)
        traits = "dict(c.DRASpawner)"
        config = _CONFIG.format(module=self._base.__module__, name=self._base.__name__, traits="_traits")
        return f"{text}\n_traits = {traits}\n{config}"

    def hooks(self, user: str) -> list[str]:
        """Hooks and methods of the hub's class that were called for a user, in order."""
        log = self.directory / "hooks.log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [what for name, what in lines if name == user]


class Ending:
    """One user's start on a hub, and what is seen of it."""

    def __init__(self, cluster: ClusterUnderTest, hub: BasedHub, user: str, server: str = "") -> None:
        self.cluster = cluster
        self.hub = hub
        self.user = user
        self.server = server
        self.seen: dict[str, Any] = {}
        self._asks: asyncio.Task[None] | None = None

    @property
    def pod_name(self) -> str:
        return f"jupyter-{self.user}" + (f"--{self.server}" if self.server else "")

    @property
    def pod_path(self) -> str:
        return self.cluster.path("pods", self.pod_name)

    async def start(self) -> None:
        status, body = await self.hub.spawn(self.user, {}, self.server)
        self.seen["start"] = [status if status >= 400 else "begins", (body or {}).get("message", "")]

    async def runs(self) -> None:
        """Start a server that runs; the events of its progress page, each of which has a number, and the pod."""
        await self.start()
        events = await self.hub.until_ready(self.user, self.server)
        self.seen["numbers"] = sum("progress" not in each for each in events)
        self.seen["last event"] = {key: events[-1].get(key) for key in ("ready", "url", "progress")}
        try:
            pod = await self.cluster.admin.get(self.pod_path)
        except KubernetesError as error:
            raise AssertionError(f"{error}, right after {events}: {self.hub.log.read_text()[-9000:]}") from None
        self.seen["pod"] = await self._masked(pod)

    async def pending(self) -> None:
        """Begin a start that waits for a node, and do not wait for the hub's answer, which comes much later."""
        created = self._created
        self._asks = asyncio.create_task(self.start())
        await eventually(lambda: self._created > created, f"the hub has made the pod of {self.user}")
        await self.cluster.wait_event(self.pod_name, "FailedScheduling")

    @property
    def _created(self) -> int:
        return self.hub.hooks(self.user).count("after_pod_created_hook")

    async def answered(self) -> None:
        """Wait for the hub's answer to a start that was pending; a hub that was killed gives none."""
        if self._asks is not None:
            with contextlib.suppress(aiohttp.ClientError):
                await self._asks
            self._asks = None

    async def model(self) -> dict[str, Any] | None:
        _, model = await self.hub.request("GET", f"/users/{self.user}?include_stopped_servers")
        found: dict[str, Any] | None = (model or {}).get("servers", {}).get(self.server)
        return found

    async def ended(self) -> None:
        """Wait until the hub knows that the server has ended."""

        async def has_ended() -> bool:
            model = await self.model()
            return model is None or (model["stopped"] and not model["pending"])

        await eventually(has_ended, f"the server of {self.user} has ended")

    async def stop(self) -> None:
        path = f"/users/{self.user}/servers/{self.server}" if self.server else f"/users/{self.user}/server"
        status, body = await self.hub.request("DELETE", path)
        self.seen["stop"] = [204 if status == 202 else status, (body or {}).get("message", "")]
        await self.ended()
        await self.answered()

    async def look(self) -> None:
        """Note what is there when all is over: hooks, options and state of the server, and the user's objects."""
        model = await self.model() or {}
        self.seen["model"] = {name: model.get(name) for name in ("pending", "ready", "stopped", "user_options")}
        self.seen["state"] = sorted(name for name in model.get("state") or {} if name != "dra_spawner")
        before: list[Any] = []

        async def is_quiet() -> bool:
            now = [self.hub.hooks(self.user), await self.left()]
            same, before[:] = now == before, now
            return same

        await eventually(is_quiet, "nothing changes any more", pause_seconds=1)
        self.seen["hooks"], self.seen["left"] = before

    async def left(self) -> list[str]:
        """Objects of the user; without those of a pod, whose collection takes some time."""
        found = []
        for kind in KINDS:
            for each in (await self.cluster.admin.list(self.cluster.path(kind)))["items"]:
                name, metadata = each["metadata"]["name"], each["metadata"]
                if self.user in name and not metadata.get("deletionTimestamp") and not metadata.get("ownerReferences"):
                    found.append(f"{kind} {name}")
        return sorted(found)

    async def _masked(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {key: pod["metadata"].get(key) for key in ("name", "labels", "annotations", "ownerReferences")}
        text = json.dumps({"metadata": metadata, "spec": pod["spec"]}, sort_keys=True)
        for address, name in ((self.hub.url, "HUB"), (self.hub.api_url, "API")):
            text = text.replace(address, name)
        found: dict[str, Any] = json.loads(text)
        del found["spec"]["nodeName"]
        for container in found["spec"]["containers"]:
            for each in container.get("env") or ():
                if "TOKEN" in each["name"]:
                    each["value"] = "masked"
        return found


async def _runs(ending: Ending) -> None:
    await ending.runs()
    await ending.stop()


async def _named(ending: Ending) -> None:
    ending.server = "lab"
    await ending.runs()
    await ending.stop()


async def _fails(ending: Ending) -> None:
    await ending.start()
    await ending.ended()


async def _late(ending: Ending) -> None:
    """The sentence has tests of its own: on a busy machine the hub's limit may end the start before it is said."""
    await _fails(ending)
    ending.seen["start"] = "fails"


async def _stopped_while_pending(ending: Ending) -> None:
    for _ in range(2):
        await ending.pending()
        await ending.stop()


async def _pod_is_there(ending: Ending) -> None:
    spec = {"containers": [{"name": "notebook", "image": "example/notebook:1", "command": ["sleep"]}]}
    pod = {"metadata": {"name": ending.pod_name, "labels": {"component": "singleuser-server"}}, "spec": spec}
    await ending.cluster.admin.create(ending.cluster.path("pods"), {"apiVersion": "v1", "kind": "Pod", **pod})
    await ending.runs()
    await ending.stop()


async def _second_start(ending: Ending) -> None:
    await ending.runs()
    await ending.start()
    await ending.stop()


async def _pod_deleted(ending: Ending) -> None:
    await ending.runs()
    await ending.cluster.admin.delete(ending.pod_path, grace_period_seconds=0)
    await ending.ended()


async def _evicted(ending: Ending) -> None:
    await ending.runs()
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on memory.",
        "containerStatuses": None,
    }
    await ending.cluster.admin.patch(f"{ending.pod_path}/status", {"status": status})
    await ending.ended()


def node_for(name: str, user: str) -> dict[str, Any]:
    """A node for the servers of one user, or of everybody."""
    node = node_manifest(name)
    node["metadata"].setdefault("labels", {})["for"] = user
    return node


async def _node_lost(ending: Ending) -> None:
    await ending.cluster.publish(node_for("node-b", ending.user))
    await ending.runs()
    await ending.cluster.remove_node("node-b")
    await ending.cluster.admin.delete(resource_path("v1", "nodes", name="node-b"), missing_ok=True)
    # As the controllers of Kubernetes do with pods of a node that is gone.
    await ending.cluster.admin.delete(ending.pod_path, grace_period_seconds=0, missing_ok=True)
    await ending.ended()


async def _user_deleted(ending: Ending) -> None:
    await ending.runs()
    status, _ = await ending.hub.request("DELETE", f"/users/{ending.user}")
    ending.seen["deleted"] = status


#: Each way in which a start can end, by the name of a user whose spaces are dashes.
ENDINGS: Final[dict[str, Callable[[Ending], Awaitable[None]]]] = {
    "runs": _runs,
    "named server": _named,
    "refused": _fails,
    "late": _late,
    "hook refuses": _fails,
    "hook fails": _fails,
    "start fails": _fails,
    "manifest fails": _fails,
    "accounting fails": _fails,
    "stopped while pending": _stopped_while_pending,
    "a pod of that name is there": _pod_is_there,
    "second start": _second_start,
    "pod deleted": _pod_deleted,
    "evicted": _evicted,
    "node lost": _node_lost,
    "user deleted": _user_deleted,
}


async def _hub_restarted(ending: Ending) -> None:
    await ending.runs()
    await ending.hub.stop()
    await ending.hub.start()
    model = await ending.model() or {}
    ending.seen["after the restart"] = [model.get("ready"), sorted(model.get("state") or {})]
    await ending.stop()


async def _hub_killed_while_pending(ending: Ending) -> None:
    await ending.pending()
    await ending.hub.kill()
    await ending.answered()
    await ending.hub.start()
    await ending.ended()
    ending.seen["left by the hub"] = await ending.left()
    await ending.pending()
    await ending.stop()


#: The hub itself ends, so these come after the others.
ENDINGS_OF_THE_HUB: Final = {"hub restarted": _hub_restarted, "hub killed while pending": _hub_killed_while_pending}

DIFFERENCES: Final[dict[str, Mapping[str, str]]] = {
    "refused": {"start": "a sentence, and no failure of the hub"},
}
"""What differs by design, and why: by ending and part of the outcome."""


async def outcomes(cluster: ClusterUnderTest, base: type) -> dict[str, dict[str, Any]]:
    """What is seen of each ending on a hub whose class has a base."""
    found: dict[str, dict[str, Any]] = {}
    async with BasedHub(cluster, base) as hub:

        async def run(name: str, work: Callable[[Ending], Awaitable[None]]) -> None:
            ending = Ending(cluster, hub, name.replace(" ", "-"))
            try:
                await work(ending)
                await ending.look()
            except AssertionError as error:
                ending.seen["not seen"] = str(error)[:2000]
            found[name] = ending.seen

        await asyncio.gather(*(run(name, work) for name, work in ENDINGS.items()))
        for name, work in ENDINGS_OF_THE_HUB.items():
            await run(name, work)
    await cluster.admin.delete(cluster.path("pods"), grace_period_seconds=0)
    for kind in KINDS:
        await cluster.admin.delete(cluster.path(kind))
    await cluster.wait_gone(cluster.path("pods"))
    return found

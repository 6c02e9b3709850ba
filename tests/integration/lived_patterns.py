"""The life of a server with a configuration in the pattern of public hubs, on a cluster, as JupyterHub lets it live."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jupyterhub.utils import maybe_future

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError, resource_path
from tests.cluster.under_test import ClusterUnderTest
from tests.local_server import serving
from tests.polling import eventually
from tests.spawner.hub_patterns import Pattern
from tests.spawner.hub_side import HubSide
from tests.spawner.side_by_side import error_text, spawner_of

__all__ = ["KINDS", "life", "serving_all"]

#: Kinds of objects that a start can leave.
KINDS: Final = (
    ("v1", "pods"),
    ("v1", "secrets"),
    ("v1", "services"),
    ("v1", "persistentvolumeclaims"),
    ("v1", "configmaps"),
    ("resource.k8s.io/v1", "resourceclaims"),
    ("resource.k8s.io/v1", "resourceclaimtemplates"),
)
#: What DRASpawner tells on the home page, beside KubeSpawner's state.
_RECORD: Final = "dra_spawner"
#: Moments, numbers and the state; and the mark of a pod that asks for an extended resource, which may be a device.
_MASKED: Final = (
    *("uid", "resourceVersion", "creationTimestamp", "managedFields", "clusterIP", "clusterIPs", "nodeName", "status"),
    names.START,
)


@contextlib.asynccontextmanager
async def serving_all() -> AsyncIterator[int]:
    """The port where one process answers for all servers."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"X-JupyterHub-Version": "5"})

    async with serving(answer) as url:
        yield int(url.rpartition(":")[2])


async def life(
    cluster: ClusterUnderTest, side: HubSide, pattern: Pattern, base: type, directory: Path, port: int
) -> dict[str, Any]:
    """Start a server, look at it, stop it, and delete it for ever; what was seen.

    Parameters
    ----------
    port
        Where all servers answer.
    """
    calls: list[str] = []
    more = {"namespace": cluster.namespace, "port": port, "start_timeout": 600, "k8s_api_request_timeout": 20}
    spawner = spawner_of(side, pattern, base, directory, calls, {**more, "http_timeout": 600, "delete_grace_period": 0})
    user = spawner.user
    options = pattern.options or {}
    if pattern.form is not None:
        try:
            options = await maybe_future(spawner.run_options_from_form(dict(pattern.form)))
        except Exception as error:
            return {"options": error_text(error)}
    starting = asyncio.ensure_future(user.spawn(pattern.server, options=options))
    found: dict[str, Any] = {"calls": calls}

    async def objects(group: str, plural: str) -> list[dict[str, Any]]:
        listed = await cluster.admin.list(resource_path(group, plural, user.spawners[pattern.server].namespace))
        return [
            each for each in listed["items"] if spawner.pod_name in json.dumps(each) or user.name in json.dumps(each)
        ]

    async def events() -> list[dict[str, Any]]:
        """Of the pod that is there, not of an earlier one of its name."""
        pods = [each["metadata"]["uid"] for each in await objects("v1", "pods")]
        return [each for each in await objects("v1", "events") if each["involvedObject"].get("uid") in pods]

    async def are_told() -> bool:
        """Whether there is an event for each container that was started; they are written in the background."""
        told = {_container(each["involvedObject"]) for each in await events() if each["reason"] == "Started"}
        return all(begun in told for each in await objects("v1", "pods") for begun in _begun(each))

    async def left() -> list[str]:
        return [
            f"{plural} {each['metadata']['name']}" for kind, plural in KINDS for each in await objects(kind, plural)
        ]

    async def is_decided() -> bool:
        """Whether it runs, has failed, or can do neither."""
        start = user.spawners[pattern.server]._start_future
        if starting.done() or (start is not None and start.done()):
            return True
        return any(map(_waits, await objects("v1", "pods"))) or any(
            each["type"] == "Warning" for each in await events()
        )

    await eventually(is_decided, f"the start of {user.name} is decided", pause_seconds=0.1)
    spawner = user.spawners[pattern.server]
    start = spawner._start_future
    if start is None or (start.done() and (start.cancelled() or start.exception())):
        await asyncio.wait({starting})
    found["start"] = "waits"
    if start is not None and start.done() and not start.cancelled():
        found["start"] = error_text(start.exception()) if start.exception() else "runs"
    elif starting.done() and starting.exception():
        found["start"] = error_text(starting.exception())
    found["options"] = spawner.orm_spawner.user_options
    for group, plural in KINDS:
        found[plural] = [_masked(each) for each in await objects(group, plural)]
    await eventually(are_told, f"events tell the start of {user.name}")
    # Only the first pod of an image makes its node pull it.
    found["events"] = sorted({f"{each['type']} {each['reason']}" for each in await events()} - {"Normal Pulling"})
    if spawner.enable_user_namespaces:
        found["namespace"] = _masked(await cluster.admin.get(resource_path("v1", "namespaces", name=spawner.namespace)))
    found["poll"] = await spawner.poll()
    found["state"] = {name: value for name, value in spawner.get_state().items() if name != _RECORD}
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    with contextlib.suppress(asyncio.CancelledError):
        starting.exception()
    await user.stop(pattern.server)
    found["poll after"] = await spawner.poll()
    found["left"] = await left()
    await spawner.delete_forever()
    found["left for ever"] = await left()
    if spawner.enable_user_namespaces:
        with contextlib.suppress(KubernetesError):
            await cluster.admin.delete(resource_path("v1", "namespaces", name=spawner.namespace))
    return found


def _waits(pod: Mapping[str, Any]) -> bool:
    """Whether nothing will start a pod: no scheduler, or an init container that does not end here."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return pod["spec"]["schedulerName"] != "default-scheduler" or any("running" in each["state"] for each in statuses)


def _begun(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The containers of a pod that were started, as `_container` names them."""
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [
        (pod["metadata"]["uid"], f"spec.containers{{{each['name']}}}")
        for each in statuses
        if each["state"].keys() & {"running", "terminated"}
    ]


def _container(involved: Mapping[str, Any]) -> tuple[str, str]:
    """The pod and the container that an event is about."""
    return involved["uid"], involved.get("fieldPath", "")


def _masked(value: Any) -> Any:
    """The value without what differs from object to object: moments, numbers and tokens."""
    if isinstance(value, Mapping):
        if "TOKEN" in str(value.get("name", "")):
            return {**value, "value": "masked"}
        return {key: _masked(each) for key, each in value.items() if key not in _MASKED}
    return [_masked(each) for each in value] if isinstance(value, list) else value

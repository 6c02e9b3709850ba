"""Answers that are not the API server's: a load balancer's pages, a proxy's JSON, half of a list, a replica that is behind.

None of them removes an object that was seen, and afterwards changes are followed as before.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.informers import Informer, InformerSettings
from dra_spawner.kube.resource import Resource
from dra_spawner.simulator.model.claims import ObjectKey
from tests.local_server import serving
from tests.polling import eventually
from tests.running import running

PODS: Final = Resource("Pod", "v1", "pods")
_SETTINGS: Final = InformerSettings(watch_seconds=2, first_delay_seconds=0.01, longest_delay_seconds=0.02)
_REQUESTS: Final = 4
"""That get a hostile answer, one after the other: watches and lists."""


def _pod(name: str, version: str, **more: Any) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version}, **more}


def _list(version: Any, *items: Any, **more: Any) -> str:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items, **more})


def _event(kind: str, obj: Any) -> str:
    return json.dumps({"type": kind, "object": obj}) + "\n"


#: By name: status, type and text. Each is the answer to lists and to watches alike.
HOSTILE: Final[dict[str, tuple[int, str, str]]] = {
    "404 of a load balancer": (404, "text/html", "<html>no route</html>"),
    "404 of a control plane": (404, "text/plain", "404 page not found\n"),
    "404 with a status": (404, "application/json", '{"kind":"Status","reason":"NotFound","code":404}'),
    "404 that names an object": (404, "application/json", '{"reason":"NotFound","code":404,"details":{"name":"a"}}'),
    "410": (410, "application/json", '{"kind":"Status","reason":"Expired","code":410}'),
    "403": (403, "application/json", '{"kind":"Status","reason":"Forbidden","code":403}'),
    "500": (500, "text/plain", "oops"),
    "a page": (200, "text/html", "<html>Please log in</html>"),
    "a page that says that it is JSON": (200, "application/json", "<html>Please log in</html>"),
    "nothing": (200, "application/json", ""),
    "null": (200, "application/json", "null"),
    "an empty object": (200, "application/json", "{}"),
    "a list without objects": (200, "application/json", '{"kind":"PodList","metadata":{"resourceVersion":"99"}}'),
    "no list of objects": (200, "application/json", '{"metadata":{"resourceVersion":"99"},"items":{"a":1}}'),
    "null for a list": (200, "application/json", '{"metadata":{"resourceVersion":"99"},"items":null}'),
    "no version": (200, "application/json", '{"kind":"PodList","metadata":{},"items":[]}'),
    "a number for a version": (200, "application/json", _list(99)),
    "an older list": (200, "application/json", _list("3", _pod("a", "2"))),
    "an older list without objects": (200, "application/json", _list("0")),
    "fewer objects in the same version": (200, "application/json", _list("5", _pod("a", "4"))),
    "a list of another kind": (200, "application/json", _list("99", kind="NodeList")),
    "objects of another kind": (200, "application/json", _list("99", _pod("a", "9", kind="Node"))),
    "half of a list": (200, "application/json", _list("99")[:-9]),
    "an older deletion": (200, "application/json", _event("DELETED", _pod("a", "4"))),
    "a deletion of another kind": (200, "application/json", _event("DELETED", _pod("a", "9", kind="Node"))),
    "a deletion without a version": (200, "application/json", _event("DELETED", _pod("a", ""))),
    "half of a deletion": (200, "application/json", _event("DELETED", _pod("a", "9"))[:-9]),
    "an event of no type": (200, "application/json", _event("", _pod("a", "9"))),
    "an expired watch": (200, "application/json", _event("ERROR", {"kind": "Status", "code": 410})),
}


class _Names:
    def __init__(self) -> None:
        self.names: set[str] = set()

    def put(self, obj: JsonObject) -> None:
        self.names.add(obj["metadata"]["name"])

    def remove(self, key: ObjectKey) -> None:
        self.names.remove(key.name)


async def test_no_answer_of_another_removes_what_was_seen() -> None:
    hostile: list[tuple[int, str, str]] = []
    ends, has_deleted = asyncio.Event(), False

    async def answer(request: web.Request) -> web.StreamResponse:
        if hostile:
            status, content_type, text = hostile.pop()
            return web.Response(status=status, content_type=content_type, text=text)
        if "watch" not in request.query:
            items = [_pod("a", "4")] if has_deleted else [_pod("a", "4"), _pod("b", "5")]
            return web.Response(content_type="application/json", text=_list("6" if has_deleted else "5", *items))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if has_deleted and request.query["resourceVersion"] == "5":
            await response.write(_event("DELETED", _pod("b", "6")).encode())
        await ends.wait()
        return response

    async with serving(answer) as url:
        for case, wrong in HOSTILE.items():
            has_deleted = False
            ends.clear()
            receiver = _Names()
            async with KubernetesApi(ApiClient(Configuration(host=url)), owns_client=True) as api:
                informer = Informer(api, PODS, receiver, settings=_SETTINGS)
                async with running(informer.run()):
                    await eventually(lambda: receiver.names == {"a", "b"}, f"{case}: all is seen")  # noqa: B023
                    hostile.extend([wrong] * _REQUESTS)
                    ends.set()
                    await eventually(lambda: not hostile, f"{case}: it is answered")
                    assert receiver.names == {"a", "b"}, case
                    ends.clear()
                    has_deleted = True
                    await eventually(lambda: receiver.names == {"a"}, f"{case}: what is gone is seen as gone")  # noqa: B023
                    ends.set()

"""An API server without a network whose answers fail as a test says, on the objects of an embedded cluster's store.

Answers are bytes, which the product's own client reads. So each failure takes the way that it takes on a real cluster.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote

import aiohttp
from kubernetes_asyncio.client import ApiClient

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.http import discovery
from dra_spawner.devcluster.api.resource_types import ResourceType, by_plural
from dra_spawner.devcluster.api.storage.store import ApiError, Store
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.client.api_connection import ApiConnection, ApiRequest
from dra_spawner.kube.client.api_errors import KubernetesTimeout, KubernetesUnavailable, error_from_response

#: The present state, and the state of a replica that is behind.
_OLD_VERSION: Final = "1"


class Failure(StrEnum):
    """What is answered instead of the truth."""

    NOT_FOUND = "404"  # as text, and as a Status without an object: of a mux, and of a load balancer
    STATUS_404 = "404 with a status"
    EXPIRED = "410"
    FORBIDDEN = "403"
    BROKEN = "500"
    TIMEOUT = "time-out"
    EMPTY = "empty list"  # of an old version; a watch that ends at once
    OLD = "old resourceVersion"  # half of the objects, in an old version; a watch that deletes, in an old version
    SAME = "empty list of this version"
    HTML = "a page"
    CUT_OFF = "half of the answer"
    OTHER_KIND = "a list of another kind"
    NO_LIST = "an object of no kind"


_STATUSES: Final = {
    Failure.EXPIRED: (410, "Expired"),
    Failure.FORBIDDEN: (403, "Forbidden"),
    Failure.BROKEN: (500, "InternalError"),
    Failure.STATUS_404: (404, "NotFound"),
}


@dataclass
class _Content:
    """The content of an answer that goes on: lines as they come."""

    lines: AsyncIterator[bytes]
    content_type: str = "application/json"

    @property
    def content(self) -> _Content:
        return self

    def iter_any(self) -> AsyncIterator[bytes]:
        return self.lines


class _OpenWatch:
    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.is_over = self.is_cut = False

    def end(self, *, is_cut: bool = False) -> None:
        self.is_over, self.is_cut = True, is_cut
        self.changed.set()


class FailingApi(KubernetesApi):
    """See the module.

    Attributes
    ----------
    failures
        By plural: how the next lists and watches fail. By ``plural/name``: how the next reads of an object fail, and
        the next lists of this object alone.
    writes
        Writes that came, as ``verb path``.
    met
        Number of failures that were answered.
    absent_groups
        API groups that discovery does not name.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(ApiClient.__new__(ApiClient))
        self.store = store
        self.failures: dict[str, deque[Failure]] = defaultdict(deque)
        self.writes: list[str] = []
        self.met = 0
        self.absent_groups: frozenset[str] = frozenset()
        self._open: dict[str, list[_OpenWatch]] = defaultdict(list)
        self.connection = _Connection(self)

    def cut(self, plural: str) -> None:
        """Break the watches of a kind."""
        for each in self._open[plural]:
            each.end(is_cut=True)

    async def answer(self, request: ApiRequest) -> bytes:
        """The body of an answer to any request but a watch."""
        if request.method != "GET":
            return self._write(request)
        if (document := self._discovery(request.path)) is not None:
            return document
        kind, namespace, name = self._target(request)
        if name:
            if self.failures[each := f"{kind.plural}/{name}"]:
                await self._fail(request, self.failures[each].popleft(), kind)
            return self._body(request, lambda: self.store.get(kind, namespace, name))
        only = str((request.params or {}).get("fieldSelector", "")).removeprefix("metadata.name=")
        for each in (kind.plural, f"{kind.plural}/{only}"):
            if self.failures[each]:
                await self._fail(request, self.failures[each].popleft(), kind)
        return self.list_answer(request)

    async def _fail(self, request: ApiRequest, failure: Failure, kind: ResourceType) -> None:
        """Raise the error of a failure, or `_Wrong` with the wrong body."""
        self.met += 1
        if failure in _STATUSES:
            code, reason = _STATUSES[failure]
            status = {"kind": "Status", "code": code, "reason": reason, "message": f"{code} of a test", "details": {}}
            raise error_from_response(request.target, code, json.dumps(status).encode())
        if failure is Failure.NOT_FOUND:
            raise error_from_response(request.target, 404, b"404 page not found\n")
        if failure is Failure.TIMEOUT:
            seconds = request.timeout_seconds or 40.0
            await asyncio.sleep(seconds)
            raise KubernetesTimeout(request.target, status=0, reason="Timeout", message=f"none within {seconds:g} s")
        raise _Wrong(failure)

    def wrong_list(self, failure: Failure, request: ApiRequest) -> bytes:
        """The body of a list that is not the truth."""
        _, _, name = self._target(request)
        truth = self.list_answer(request)
        found = json.loads(truth)
        if name and failure in (Failure.OTHER_KIND, Failure.EMPTY, Failure.SAME, Failure.OLD):
            # Of a proxy, or of a replica that is behind.
            found["items"], kind = [], "ConfigMap" if failure is Failure.OTHER_KIND else None
            return json.dumps({"kind": kind, "metadata": {}} if kind else found).encode()
        match failure:
            case Failure.HTML:
                return b"<html>Be right back</html>"
            case Failure.CUT_OFF:
                return truth[: len(truth) // 2]
            case Failure.NO_LIST:
                return b'{"status": "ok"}'
            case Failure.OTHER_KIND:
                return json.dumps({**found, "kind": "SecretList", "items": []}).encode()
            case Failure.SAME:
                return json.dumps({**found, "items": []}).encode()
        found["metadata"]["resourceVersion"] = _OLD_VERSION
        found["items"] = found["items"][::2] if failure is Failure.OLD else []
        return json.dumps(found).encode()

    def list_answer(self, request: ApiRequest) -> bytes:
        """The body of a list."""
        kind, namespace, _ = self._target(request)
        selectors = {each: str((request.params or {}).get(each, "")) for each in ("labelSelector", "fieldSelector")}
        found = self.store.list(kind, namespace, *selectors.values())
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
        return _json({**head, "metadata": {"resourceVersion": found.resource_version}, "items": found.items})

    @asynccontextmanager
    async def open_watch(self, request: ApiRequest) -> AsyncIterator[_Content]:
        kind, namespace, _ = self._target(request)
        failures = self.failures[kind.plural]
        if not failures:
            yield _Content(self._events(request, kind, namespace))
            return
        failure = failures.popleft()
        try:
            await self._fail(request, failure, kind)
        except _Wrong:
            is_page = failure is Failure.HTML
            yield _Content(self._wrong_events(failure, kind), "text/html" if is_page else "application/json")

    async def _wrong_events(self, failure: Failure, kind: ResourceType) -> AsyncIterator[bytes]:
        objects = self.store.list(kind).items
        if failure in (Failure.EMPTY, Failure.SAME) or not objects:
            return
        old = json.loads(_json(objects[0]))
        if failure is Failure.OLD:
            old["metadata"]["resourceVersion"] = _OLD_VERSION
        if failure is Failure.OTHER_KIND:
            old["kind"] = "Secret"
        event = _json({"type": "DELETED", "object": old})
        if failure is Failure.CUT_OFF:
            event = event[: len(event) // 2]
        yield b'{"status": "ok"}\n' if failure is Failure.NO_LIST else event + b"\n"

    async def _events(self, request: ApiRequest, kind: ResourceType, namespace: str | None) -> AsyncIterator[bytes]:
        params = request.params or {}
        revision, loop = int(params["resourceVersion"]), asyncio.get_running_loop()
        watch, name = _OpenWatch(), str(params.get("fieldSelector", "")).removeprefix("metadata.name=")
        self._open[kind.plural].append(watch)
        forget = self.store.subscribe(lambda change: watch.changed.set())
        end = loop.call_later(float(params["timeoutSeconds"]), watch.end)
        try:
            while not watch.is_over:
                watch.changed.clear()
                for each in self.store.events_since(kind, revision):
                    metadata = each.object["metadata"]
                    revision = each.revision
                    if namespace in (None, metadata.get("namespace")) and name in ("", metadata["name"]):
                        yield _json({"type": each.type.value, "object": each.object}) + b"\n"
                await watch.changed.wait()
            if watch.is_cut:
                raise KubernetesUnavailable(request.target, status=0, reason="Unavailable", message="cut by a test")
        finally:
            end.cancel()
            forget()
            self._open[kind.plural].remove(watch)

    def _discovery(self, path: str) -> bytes | None:
        if path == "/apis":
            groups = discovery.groups()
            return _json({**groups, "groups": [e for e in groups["groups"] if e["name"] not in self.absent_groups]})
        parts = path.strip("/").split("/")
        if len(parts) != (2 if parts[0] == "api" else 3):
            return None
        group = "" if parts[0] == "api" else parts[1]
        document = discovery.resources(group, parts[-1]) if group not in self.absent_groups else None
        if document is None:
            target = ApiRequest("get", "GET", path).target
            raise error_from_response(target, 404, b"404 page not found\n")
        return _json(document)

    def _write(self, request: ApiRequest) -> bytes:
        self.writes.append(f"{request.verb} {request.path}")
        kind, namespace, name = self._target(request)
        if request.verb == "patch" and name:
            kind_of_patch = request.headers["Content-Type"]
            return self._body(request, lambda: self.store.patch(kind, namespace, name, request.body, kind_of_patch))
        if request.verb == "replace" and name:
            return self._body(
                request,
                lambda: self.store.update(
                    kind, {**request.body, "metadata": {"namespace": namespace, **request.body["metadata"]}}
                ),
            )
        if request.verb == "create" and kind.kind != "Event":
            return self._body(request, lambda: self.store.create(kind, request.body, namespace))
        raise error_from_response(request.target, 503, b"no more of these (a test)")

    def _target(self, request: ApiRequest) -> tuple[ResourceType, str | None, str]:
        parts = [unquote(each) for each in request.path.strip("/").split("/")]
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        namespace = None
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        kind = by_plural(group, version, rest[0]) if group not in self.absent_groups else None
        if kind is None:
            raise error_from_response(request.target, 404, b"404 page not found\n")
        return kind, namespace, rest[1] if len(rest) > 1 else ""

    def _body(self, request: ApiRequest, work: Callable[[], JsonObject]) -> bytes:
        try:
            return _json(work())
        except ApiError as error:
            raise error_from_response(request.target, error.status_code, _json(error.to_status())) from None


class _Wrong(Exception):
    """Raised for a failure that is answered as if all were well."""


class _Connection(ApiConnection):
    """Asks a `FailingApi` instead of the network."""

    def __init__(self, api: FailingApi) -> None:
        super().__init__(api.connection.client, 10.0)
        self._failing = api

    async def read_bytes(self, request: ApiRequest) -> bytes:
        await asyncio.sleep(0.001)
        try:
            return await self._failing.answer(request)
        except _Wrong as wrong:
            return self._failing.wrong_list(wrong.args[0], request)

    @asynccontextmanager
    async def send(
        self, request: ApiRequest, timeout: aiohttp.ClientTimeout, begin_seconds: float | None = None
    ) -> AsyncIterator[Any]:
        await asyncio.sleep(0.001)
        async with self._failing.open_watch(request) as content:
            yield content


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

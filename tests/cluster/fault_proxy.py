"""A proxy in front of an API server that counts requests, and fails requests that a test chooses."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from dra_spawner.kube.client.api_errors import RequestTarget

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MAX_BODY_BYTES = 8 * 2**20
# The longest delay of a request if the client does not give up.
_LONGEST_HOLD_SECONDS = 120.0


class Outcome(StrEnum):
    """The effect of a `Fault` on a request."""

    REFUSE = "refuse"  # the connection breaks before the API server hears of the request
    ANSWER = "answer"  # an error answer, and the API server never hears of the request
    HOLD = "hold"  # no answer until the client gives up, and the API server never hears of the request
    LOSE_ANSWER = "lose answer"  # the API server carries it out, then the connection breaks
    LATE = "late"  # the connection breaks; the API server carries it out when `FaultProxy.carry_out_late` is called
    HOLD_ANSWER = "hold answer"  # the API server carries it out, then no answer until the client gives up


@dataclass(frozen=True, slots=True)
class Fault:
    """How a request fails."""

    outcome: Outcome
    status: int = 0
    body: bytes = b""

    @classmethod
    def refuse(cls) -> Fault:
        return cls(Outcome.REFUSE)

    @classmethod
    def hold(cls) -> Fault:
        return cls(Outcome.HOLD)

    @classmethod
    def lose_answer(cls) -> Fault:
        return cls(Outcome.LOSE_ANSWER)

    @classmethod
    def late(cls) -> Fault:
        return cls(Outcome.LATE)

    @classmethod
    def hold_answer(cls) -> Fault:
        return cls(Outcome.HOLD_ANSWER)

    @classmethod
    def json(cls, value: Any) -> Fault:
        """An answer that seems to be one of the API server."""
        return cls(Outcome.ANSWER, 200, json.dumps(value).encode())

    @classmethod
    def answer(cls, status: int, reason: str = "", message: str = "", **details: Any) -> Fault:
        """An answer with a ``metav1.Status``; fields that are not given are as an API server sets them."""
        phrase = HTTPStatus(status).phrase
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message or f"{phrase} (injected by a test)",
            "reason": reason or phrase.replace(" ", ""),
            "code": status,
        }
        if details:
            body["details"] = details
        return cls(Outcome.ANSWER, status, json.dumps(body).encode())


@dataclass(frozen=True, slots=True)
class Request:
    """One request that came.

    Attributes
    ----------
    verb
        As Kubernetes' audit log names it: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``,
        ``deletecollection``.
    resource
        Plural, with its subresource: ``pods``, ``pods/status``.
    """

    verb: str
    path: str
    resource: str
    namespace: str
    name: str

    @classmethod
    def of(cls, request: web.Request, body: bytes) -> Request:
        try:
            target = RequestTarget.from_path("", request.path, json.loads(body) if body else None)
        except ValueError:
            target = RequestTarget.from_path("", request.path)
        named = RequestTarget.from_path("", request.path).name
        if request.method == "GET":
            watches = request.query.get("watch", "").lower() in ("1", "true")
            verb = "watch" if watches else ("get" if named else "list")
        else:
            verb = _VERBS.get(request.method, request.method.lower())
            if verb == "delete" and not named:
                verb = "deletecollection"
        return cls(verb, request.path_qs, target.kind, target.namespace, target.name)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.name}".rstrip()


@dataclass(slots=True)
class _Rule:
    fault: Fault
    matches: Callable[[Request], bool]
    skip: int
    times: int | None
    hits: int = 0


@dataclass(slots=True)
class FaultProxy:
    """Passes requests on to an API server, watches included, and injects faults.

    Parameters
    ----------
    upstream
        Address of the API server.
    certificate_authority
        Of its certificate; None for plain HTTP.

    Attributes
    ----------
    url
        Where it listens, on loopback, without TLS.
    requests
        All requests in order, including the failed ones.

    An asynchronous context manager; it works in the event loop that it was entered in.
    """

    upstream: str
    certificate_authority: Path | None = None
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _session: aiohttp.ClientSession | None = None
    _runner: web.AppRunner | None = None
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _late: list[tuple[web.Request, bytes]] = field(default_factory=list)
    _open: dict[asyncio.Task[Any], tuple[Request, web.Request]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        context: ssl.SSLContext | bool = True
        if self.certificate_authority is not None:
            context = ssl.create_default_context(cafile=str(self.certificate_authority))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._released.set()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def fail(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        matching: Callable[[Request], bool] | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> None:
        """Fail requests from now on.

        Parameters
        ----------
        verb, resource, name
            Which requests; None for any.
        matching
            A further condition.
        nth
            Which of the matching requests that come from now on, counted from 1, is the first to fail.
        times
            How many fail; None for all that follow. Mind that aiohttp itself repeats a GET, PUT or DELETE once if
            its connection breaks: to let a client see that, fail two.
        """

        def matches(request: Request) -> bool:
            return (
                (verb is None or request.verb == verb)
                and (resource is None or request.resource == resource)
                and (name is None or request.name == name)
                and (matching is None or matching(request))
            )

        self._rules.append(_Rule(fault, matches, nth - 1, times))

    def heal(self) -> None:
        """Fail nothing more."""
        self._rules.clear()

    async def carry_out_late(self) -> int:
        """Carry out the requests with the outcome `LATE`, as an API server may do after a client has gone; how many."""
        late, self._late = self._late, []
        for request, body in late:
            await self._carry_out(request, body)
        return len(late)

    def cut(self, *, verb: str | None = None, resource: str | None = None) -> int:
        """Break connections with an answer under way, such as a watch; the number of connections."""
        found = [
            request
            for seen, request in self._open.values()
            if (verb is None or seen.verb == verb) and (resource is None or seen.resource == resource)
        ]
        for request in found:
            self._break(request)
        return len(found)

    def count(self, verb: str | None = None, resource: str | None = None) -> int:
        """How many requests of that kind came."""
        return sum(
            (verb is None or request.verb == verb) and (resource is None or request.resource == resource)
            for request in self.requests
        )

    def _fault_for(self, request: Request) -> Fault | None:
        chosen = None
        for rule in self._rules:
            if not rule.matches(request):
                continue
            rule.hits += 1
            due = rule.hits > rule.skip and (rule.times is None or rule.hits <= rule.skip + rule.times)
            if due and chosen is None:
                chosen = rule.fault
        return chosen

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Request.of(request, body)
        self.requests.append(seen)
        fault = self._fault_for(seen)
        if fault is None:
            task = asyncio.current_task()
            assert task is not None
            self._open[task] = seen, request
            try:
                return await self.pass_on(request, body)
            finally:
                del self._open[task]
        if fault.outcome is Outcome.ANSWER:
            return web.Response(status=fault.status, body=fault.body, content_type="application/json")
        if fault.outcome is Outcome.LATE:
            self._late.append((request, body))
        if fault.outcome in (Outcome.LOSE_ANSWER, Outcome.HOLD_ANSWER):
            # Even if the client gives up meanwhile.
            await asyncio.shield(self._carry_out(request, body))
        if fault.outcome in (Outcome.HOLD, Outcome.HOLD_ANSWER):
            async with asyncio.timeout(_LONGEST_HOLD_SECONDS):
                await self._released.wait()
        return self._break(request)

    async def _carry_out(self, request: web.Request, body: bytes) -> None:
        async with self._upstream(request, body) as answer:
            await answer.read()

    def _break(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    def _upstream(self, request: web.Request, body: bytes) -> Any:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        return self._session.request(
            request.method,
            f"{self.upstream}{request.raw_path}",
            headers=headers,
            data=body or None,
            timeout=aiohttp.ClientTimeout(total=None),
            allow_redirects=False,
        )

    async def pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Send a request on, and its answer back."""
        try:
            async with self._upstream(request, body) as answer:
                headers = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=headers)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, ConnectionError):
            # Either side has broken off; so does the other.
            return self._break(request)


def hide_devices(proxy: FaultProxy) -> None:
    """Let the API server appear as one without devices: it does not serve them, and discovery does not name them."""
    group = {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}
    groups = Fault.json({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
    proxy.fail(groups, matching=lambda request: request.path == "/apis", times=None)
    proxy.fail(Fault.answer(404), matching=lambda request: "resource.k8s.io" in request.path, times=None)

"""One request to the Kubernetes API and its answer; every failure becomes one of our errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, TypeVar

import aiohttp
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.config import ConfigException

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api_errors import (
    AnswerTooLarge,
    KubernetesError,
    KubernetesTimeout,
    KubernetesUnavailable,
    RequestTarget,
    error_from_response,
)
from dra_spawner.kube.client.json_text import MAX_LEVELS, names_of_cut_objects, read_unusual

log = logging.getLogger(__name__)

_MAX_LOGGED: Final = 1000
"""Objects that the log names; accounts that may write objects could fill it otherwise."""

T = TypeVar("T")

Params = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API server.

    Attributes
    ----------
    verb
        For errors, as in the rules of a Role.
    timeout_seconds
        None for the connection's own.
    max_bytes
        Limit of the answer; a longer one raises `AnswerTooLarge`. None for no limit.
    """

    verb: str
    method: str
    path: str
    params: Params | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    max_bytes: int | None = None

    @property
    def target(self) -> RequestTarget:
        """Verb and object, for errors."""
        return RequestTarget.from_path(self.verb, self.path, self.body)


class ApiConnection:
    """Sends requests over the connection of the client library, which handles TLS and tokens.

    Parameters
    ----------
    client
        Of `kubernetes_asyncio`.
    timeout_seconds
        For each request that names no other.
    """

    def __init__(self, client: ApiClient, timeout_seconds: float) -> None:
        self.client = client
        self.timeout_seconds = timeout_seconds
        self._logged: set[tuple[str, str]] = set()

    async def read_json(self, request: ApiRequest) -> JsonObject:
        """Send a request; the JSON object that answers it.

        Values nested deeper than `MAX_LEVELS` may be left out, see `parse`.

        Raises
        ------
        KubernetesError
        """
        data = await self.read_bytes(request)
        try:
            answer = await self.parse(request, data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise KubernetesUnavailable(
                request.target, status=0, reason="BadAnswer", message=f"the answer is no JSON object: {data[:200]!r}"
            )
        return answer

    async def parse(self, request: ApiRequest, data: bytes) -> Any:
        """The JSON value of an answer, or of a part of it.

        JSON that ``json.loads`` refuses for its depth, its encoding or its long numbers is read all the same. The log
        names each object of which something was left out, once.

        Raises
        ------
        ValueError
            If it is no JSON.
        """
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            # In a thread: a megabyte takes 50 ms, and accounts that may write objects can cause it again and again.
            answer = await asyncio.to_thread(read_unusual, data)
        for name in names_of_cut_objects(answer):
            if (request.path, name) not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add((request.path, name))
                log.warning(
                    "An object is nested deeper than %d levels; deeper values are left out: path=%s object=%s",
                    MAX_LEVELS,
                    request.path,
                    name,
                )
        return answer

    async def read_bytes(self, request: ApiRequest) -> bytes:
        """Send a request; the bytes of the answer."""

        async def read(response: aiohttp.ClientResponse) -> bytes:
            pieces: list[bytes] = []
            size = 0
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if request.max_bytes is not None and size > request.max_bytes:
                    message = f"the answer has more than {request.max_bytes} bytes"
                    raise AnswerTooLarge(request.target, status=0, reason="TooLarge", message=message)
            return b"".join(pieces)

        return await self.read(request, read)

    async def read(self, request: ApiRequest, read: Callable[[aiohttp.ClientResponse], Awaitable[T]]) -> T:
        """Send a request, and read its answer.

        An API server that begins, or has too much to do, names a time. The request is sent again then, if
        `KubernetesError.repeat_seconds` allows it and the time of the request as a whole is enough.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + (self.timeout_seconds if request.timeout_seconds is None else request.timeout_seconds)
        while True:
            try:
                async with self.send(request, aiohttp.ClientTimeout(total=end - clock())) as response:
                    return await read(response)
            except KubernetesError as error:
                wait = error.repeat_seconds
                # The next try needs time for its answer, too.
                if wait is None or clock() + 2 * wait > end:
                    raise
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def send(
        self, request: ApiRequest, timeout: aiohttp.ClientTimeout, begin_seconds: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request; the response if it succeeded.

        Parameters
        ----------
        begin_seconds
            Limit until the answer begins; None for that of the whole.

        Raises
        ------
        KubernetesError
            For every failure until the ``async with`` block ends.
        """
        target = request.target
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(begin_seconds) as begin:
                response = await self._response(request, timeout)
            if response.status >= 400:
                raise error_from_response(target, response.status, await response.read(), response.headers)
            yield response
        except TimeoutError as error:
            message = str(error) if isinstance(error, aiohttp.ConnectionTimeoutError) else ""
            limit = begin_seconds if begin.expired() else timeout.total
            message = message or f"no answer within {round(limit or 0.0, 2):g} s"
            raise KubernetesTimeout(target, status=0, reason="Timeout", message=message) from error
        except (aiohttp.ClientError, OSError) as error:
            message = str(error) or type(error).__name__
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message=message) from error
        except RecursionError as error:
            message = "the request is nested too deeply to be sent"
            raise KubernetesUnavailable(target, status=0, reason="BadRequest", message=message) from error
        except RuntimeError as error:
            # aiohttp raises it when this program ends and has closed its connections.
            if "closed" not in str(error):
                raise
            raise KubernetesUnavailable(target, status=0, reason="Closed", message=str(error)) from error
        except (ApiException, ConfigException) as error:
            # The library raises them before it sends, for example when a token cannot be read again.
            message = str(error.reason) if isinstance(error, ApiException) else str(error)
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message=message) from error
        finally:
            if response is not None:
                # Keep the connection only if the answer was read to its end.
                response.release() if response.content.at_eof() else response.close()

    async def _response(self, request: ApiRequest, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """The library's request without its search for models: our bodies are JSON, and the search doubles its cost."""
        headers = {
            **self.client.default_headers,
            "Accept": "application/json",
            "Content-Type": "application/json",
            **request.headers,
        }
        params = [(key, _query_value(value)) for key, value in (request.params or {}).items()]
        update = self.client.update_params_for_auth(headers, params, ["BearerToken"])
        if isawaitable(update):  # not before version 32
            await update
        response: aiohttp.ClientResponse = await self.client.request(
            request.method,
            self.client.configuration.host + request.path,
            query_params=params,
            headers=headers,
            body=request.body,
            _preload_content=False,
            _request_timeout=timeout,
        )
        return response


def _query_value(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def lines_of(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; `StreamReader.readline` refuses lines beyond its buffer, and objects may be larger."""
    pieces: list[bytes] = []
    async for chunk in stream.iter_any():
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            pieces.append(line)
            if whole := b"".join(pieces).strip():
                yield whole
            pieces.clear()
        if rest:
            pieces.append(rest)
    if last := b"".join(pieces).strip():
        yield last

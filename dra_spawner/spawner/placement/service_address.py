"""The address of the dra-spawner service, and the hub's questions to it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp


class NoAnswer(Exception):
    """Raised where the service gives no usable answer; the message says why."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Address and token of the service.

    Attributes
    ----------
    url
        URL of the service's root, with a slash at the end.
    token
        The service's own API token, which only the hub has otherwise.
    encryption
        What an address that begins with ``https`` is trusted by; None for the system's authorities.
    """

    url: str
    token: str = field(repr=False)
    encryption: ssl.SSLContext | None = field(default=None, repr=False)

    @asynccontextmanager
    async def ask(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask the service; `options` are those of an aiohttp request.

        It follows no redirects: the token is for the service alone, not for an address that an answer points to.
        """
        headers = {"Authorization": f"token {self.token}", "Accept": "application/json"}
        connector = aiohttp.TCPConnector(ssl=self.encryption) if self.encryption is not None else None
        async with (
            aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar(), connector=connector) as session,
            session.request(method, self.url + path, allow_redirects=False, **options) as answer,
        ):
            yield answer

    async def ask_for_json(
        self, method: str, path: str, *, limit_seconds: float, most_bytes: int, **options: Any
    ) -> Any:
        """The JSON of an answer with status 200.

        Raises
        ------
        NoAnswer
        """
        try:
            async with asyncio.timeout(limit_seconds), self.ask(method, path, **options) as answer:
                if answer.status != 200:
                    raise NoAnswer(f"it answers {answer.status}")
                return json_of(await whole_body(answer, most_bytes))
        except TimeoutError:
            raise NoAnswer(f"no answer within {limit_seconds:g} s") from None
        except aiohttp.ClientError as error:
            raise NoAnswer(str(error) or type(error).__name__) from None


def json_of(body: bytes) -> Any:
    """The value of a body.

    Raises
    ------
    NoAnswer
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer("its answer is no JSON") from None


async def whole_body(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The body of an answer. ``content.read(most_bytes)`` gives what has come so far, such as a part of it.

    Raises
    ------
    aiohttp.ClientPayloadError
        For a larger body.
    """
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            raise aiohttp.ClientPayloadError(f"its answer has more than {most_bytes} bytes")
    return bytes(body)

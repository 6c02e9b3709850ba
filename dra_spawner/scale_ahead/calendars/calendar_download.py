"""Reads the text of a calendar from a server or a file.

An administrator chooses the address, but others write its server's answers. So a redirect must lead to the same host,
no name may resolve to addresses that only this machine or its cloud can reach, and nothing of any size is taken.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import zlib
from typing import Any, Final

import aiohttp
from aiohttp.abc import ResolveResult
from yarl import URL

from dra_spawner.scale_ahead.calendars.calendar_file import read_file, text_of
from dra_spawner.scale_ahead.calendars.ical_text import MAX_BYTES, CalendarUnreadable

TIMEOUT_SECONDS: Final = 30.0
_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_UNCHANGED: Final = 304
_LONGEST_TAG: Final = 1_000
#: Answers with the times of a present copy, and the question whether there is another one.
_CONDITIONS: Final = (("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since"))
#: Addresses at which clouds tell their machines secrets, other than link-local ones.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)


async def read_location(location: str) -> str:
    """Text of a calendar.

    Parameters
    ----------
    location
        An ``https://`` or ``http://`` address, or the path of a file.

    Raises
    ------
    OSError, aiohttp.ClientError, TimeoutError, ValueError
        If it cannot be read, or is too large.
    """
    return await LocationReader()(location)


class LocationReader:
    """Reads a location again and again. A server that says so is not asked for the same text twice."""

    def __init__(self) -> None:
        self._text = ""
        self._conditions: dict[str, str] = {}

    async def __call__(self, location: str) -> str:
        """Text of a calendar; see `read_location`."""
        if not location.startswith(("https://", "http://")):
            return await read_file(location)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            answer = await _download(URL(location), self._conditions)
        if answer is not None:
            content, conditions = answer
            self._text, self._conditions = text_of(content), conditions
        return self._text


async def _download(url: URL, conditions: dict[str, str]) -> tuple[bytes, dict[str, str]] | None:
    """The content, and conditions for the next time; None if it is unchanged."""
    headers = {"Accept": "text/calendar, */*;q=0.5", "Accept-Encoding": "gzip", **conditions}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Resolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as session:
        for _ in range(_MAX_REDIRECTS + 1):
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                if answer.status in _REDIRECTS:
                    url = _target(url, answer.headers.get("Location", ""))
                    continue
                if answer.status == _UNCHANGED and conditions:
                    return None
                answer.raise_for_status()
                if answer.status != 200:
                    raise CalendarUnreadable(f"its server answers with status {answer.status}")
                content = _decompressed(await _content(answer), answer.headers.get("Content-Encoding", ""))
                kept = ((ours, answer.headers.get(theirs, "")) for theirs, ours in _CONDITIONS)
                return content, {ours: value for ours, value in kept if 0 < len(value) <= _LONGEST_TAG}
    raise CalendarUnreadable(f"its server redirects more than {_MAX_REDIRECTS} times")


def _target(url: URL, location: str) -> URL:
    """Where a redirect leads.

    Raises
    ------
    CalendarUnreadable
        If that is another server, or is not encrypted any more.
    """
    try:
        target = url.join(URL(location))
    except ValueError:
        raise CalendarUnreadable("its server redirects to an address that is not valid") from None
    is_same_host = target.host == url.host
    if is_same_host and target.scheme not in ("https", url.scheme):
        raise CalendarUnreadable("its server redirects to an address without encryption")
    if not is_same_host or (target.port != url.port and (url.port, target.port) != (80, 443)):
        raise CalendarUnreadable("its server redirects to another server; set the address to which it redirects")
    # A relative address has them, and an absolute one need not repeat them.
    return target.with_user(url.user).with_password(url.password) if url.user else target.with_user(None)


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    while len(content) <= MAX_BYTES and (more := await answer.content.read(MAX_BYTES + 1 - len(content))):
        content += more
    return bytes(content)


def _decompressed(content: bytes, encoding: str) -> bytes:
    """At most one byte more than is allowed."""
    match encoding.strip().lower():
        case "" | "identity":
            return content
        case "gzip" | "x-gzip":
            if len(content) > MAX_BYTES:
                return content
            reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                found = reader.decompress(content, MAX_BYTES + 1)
            except zlib.error:
                raise CalendarUnreadable("its server sends bytes that are not compressed by gzip") from None
            if not reader.eof and len(found) <= MAX_BYTES:
                raise CalendarUnreadable("its server sends only a part of it")
            return found
    raise CalendarUnreadable("its server compresses it by another method than gzip")


class _Resolver(aiohttp.ThreadedResolver):
    """Refuses names that lead to this machine, or to the metadata of its cloud; private networks are allowed."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await super().resolve(host, port, family)
        is_local = host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost")
        if not is_local and any(_is_forbidden(each["host"]) for each in found):
            raise CalendarUnreadable(
                "the name of its server leads to this machine or its cloud's own addresses, not to a server"
            )
        return found


def _is_forbidden(address: Any) -> bool:
    found = ipaddress.ip_address(str(address).partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast or found in _METADATA

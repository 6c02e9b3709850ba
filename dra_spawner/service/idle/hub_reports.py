"""What servers have reported to the hub, and the stop of a server by the hub's REST API.

The service's role in the hub needs the scope ``read:servers`` to read reports, and ``delete:servers`` to stop servers.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
from jupyterhub.services.auth import HubOAuth
from jupyterhub.utils import make_ssl_context

from dra_spawner.common.project_links import where
from dra_spawner.fairness.idle.samples import ServerActivity
from dra_spawner.fairness.idle.server_answers import InvalidServerAnswer, read_activity
from dra_spawner.simulator.model.claims import ObjectKey

_VERSION: Final = 1
#: The hub answers a stop after 10 s (its `slow_stop_timeout`) if a server is slow to stop.
_SECONDS: Final = 30.0
_MAX_BYTES: Final = 16 * 2**20
_LONGEST_GROUP: Final = 255
_ROLE: Final = (
    f"the hub refuses it; the service's role there needs the scope {{}} ({where('docs/how-to/idle-devices.md')})"
)


class UnusableAnswer(Exception):
    """Raised for an answer that cannot be used; the message is a part of a sentence."""


class ReportsUnknown(Exception):
    """Raised where the hub's reports are not known; the message is a part of a sentence."""


class NotStopped(Exception):
    """Raised where a server runs on; the message is a part of a sentence.

    Attributes
    ----------
    is_sure
        Whether it runs on for sure; without an answer of the hub it may stop yet.
    """

    def __init__(self, message: str, *, is_sure: bool = True) -> None:
        super().__init__(message)
        self.is_sure = is_sure


@dataclass(frozen=True, slots=True)
class ReportedServer:
    """A server as the hub knows it.

    Attributes
    ----------
    started
        When the hub started it; tells it from an earlier server with the same pod name.
    is_settled
        Whether it runs, and neither starts nor stops.
    age_seconds
        Age of its last report; None without one.
    activity
        What it has reported, or why that is not known, as a part of a sentence.
    groups
        Names of the user's groups; an older hub tells none.
    """

    user: str
    server: str
    started: str
    is_settled: bool
    age_seconds: float | None
    activity: ServerActivity | str
    groups: tuple[str, ...] = ()


class HubReports:
    """Asks the hub.

    Parameters
    ----------
    api_url, token
        Address of the hub's REST API, and the service's token.
    encryption
        Certificates of a hub with ``internal_ssl``.
    """

    def __init__(self, api_url: str, token: str, encryption: ssl.SSLContext | None = None) -> None:
        self._api_url = api_url.rstrip("/")
        self._token = token
        self._encryption = encryption

    @classmethod
    def of(cls, hub: HubOAuth | None) -> Self | None:
        """The hub to which a service belongs; None without one."""
        if hub is None:
            return None
        return cls(hub.api_url, hub.api_token, make_ssl_context(hub.keyfile, hub.certfile, cafile=hub.client_ca))

    async def read(self) -> dict[ObjectKey, ReportedServer]:
        """The hub's servers by their pods.

        Raises
        ------
        ReportsUnknown
        """
        url = f"{self._api_url.removesuffix('/api')}/dra-spawner/activity"
        try:
            status, body = await self._request("GET", url)
            if status == 403:
                raise ReportsUnknown(_ROLE.format("read:servers"))
            if status == 404:
                raise ReportsUnknown("the hub has no dra-spawner, or an older one")
            if status != 200:
                raise ReportsUnknown(f"the hub answers with status {status}")
            return _servers(body)
        except UnusableAnswer as error:
            raise ReportsUnknown(str(error)) from None
        except TimeoutError:
            raise ReportsUnknown(f"the hub does not answer within {_SECONDS:g} s") from None
        except (OSError, aiohttp.ClientError) as error:
            raise ReportsUnknown(f"the hub cannot be reached ({type(error).__name__})") from None

    async def stop(self, user: str, server: str) -> None:
        """Stop a server.

        Raises
        ------
        NotStopped
        """
        path = f"servers/{quote(server, safe='')}" if server else "server"
        try:
            status, _ = await self._request("DELETE", f"{self._api_url}/users/{quote(user, safe='')}/{path}")
        except (UnusableAnswer, OSError, aiohttp.ClientError, TimeoutError) as error:
            # The hub may stop it yet: the next look sees what has become of it.
            raise NotStopped(f"the hub has not answered ({type(error).__name__})", is_sure=False) from None
        if status in (403, 404):
            raise NotStopped(_ROLE.format("delete:servers"))
        if status not in (202, 204):
            raise NotStopped(f"the hub answers with status {status}")

    async def _request(self, method: str, url: str) -> tuple[int, Any]:
        connector = aiohttp.TCPConnector(ssl=self._encryption) if self._encryption is not None else None
        headers = {"Authorization": f"token {self._token}", "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            aiohttp.ClientSession(
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=_SECONDS),
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.request(method, url, allow_redirects=False) as answer,
        ):
            body = await limited_json(answer, _MAX_BYTES, "the hub") if answer.status == 200 else None
            return answer.status, body


async def limited_json(answer: aiohttp.ClientResponse, most_bytes: int, who: str) -> Any:
    """The JSON of an answer with a limited size.

    Raises
    ------
    UnusableAnswer
    """
    content = bytearray()
    while len(content) <= most_bytes and (more := await answer.content.read(most_bytes + 1 - len(content))):
        content += more
    if len(content) > most_bytes:
        raise UnusableAnswer(f"{who} answers with more than {most_bytes // 2**20} MiB")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise UnusableAnswer(f"{who} does not answer with JSON") from None


def _servers(body: object) -> dict[ObjectKey, ReportedServer]:
    servers = body.get("servers") if isinstance(body, Mapping) and body.get("version") == _VERSION else None
    if not isinstance(servers, list):
        raise UnusableAnswer("the hub's answer is not understood; hub and service may have different versions")
    found = {}
    for each in servers:
        names = (
            [each.get(key) for key in ("namespace", "pod", "user", "server")] if isinstance(each, Mapping) else [None]
        )
        if not all(isinstance(name, str) for name in names):
            raise UnusableAnswer("the hub's answer names a server that is not understood")
        namespace, pod, user, server = map(str, names)
        found[ObjectKey(namespace, pod)] = ReportedServer(
            user,
            server,
            str(each.get("started") or ""),
            each.get("ready") is True and not each.get("pending"),
            *_report(each),
            _groups(each.get("groups")),
        )
    return found


def _groups(told: object) -> tuple[str, ...]:
    found = told if isinstance(told, list) else ()
    return tuple(each for each in found if isinstance(each, str) and len(each) <= _LONGEST_GROUP)


def _report(server: Mapping[str, Any]) -> tuple[float | None, ServerActivity | str]:
    age, report = server.get("age_seconds"), server.get("activity")
    if report is None or not isinstance(age, int | float) or isinstance(age, bool):
        return None, "it has not reported; its image may lack dra-spawner's extension of Jupyter Server"
    try:
        return float(age), read_activity(report)
    except InvalidServerAnswer as error:
        return float(age), str(error)

"""The dra-spawner service as the hub knows it, and the one question that a start asks it.

Nothing that the service does or fails to do makes a spawn fail: there is an answer in time, or none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from logging import Logger
from typing import Any, Final

import aiohttp
from jupyterhub.app import JupyterHub
from jupyterhub.utils import url_path_join

from dra_spawner.spawner.placement.answer import InvalidAnswer, PlacementAnswer, read_answer

__all__ = ["ServiceAddress", "ask_for_placement", "is_configured", "service_of_hub"]

_MOST_BYTES: Final = 2**16


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where the service answers this hub.

    Attributes
    ----------
    url
        Of the service's root, with a slash at the end.
    token
        The service's own: who has it is the hub.
    """

    url: str
    token: str = field(repr=False)


def is_configured(name: str) -> bool:
    """Whether the configuration of the hub that runs in this process names a service."""
    if not name or not JupyterHub.initialized():
        return False
    hub = JupyterHub.instance()
    return name in hub._service_map or any(
        isinstance(each, Mapping) and each.get("name") == name for each in hub.services
    )


def service_of_hub(name: str) -> ServiceAddress | None:
    """A service of the hub that runs in this process; None if it has none of that name with an address and a token."""
    if not name or not JupyterHub.initialized():
        return None
    service = JupyterHub.instance()._service_map.get(name)
    if service is None or not service.url or not service.api_token:
        return None
    return ServiceAddress(url_path_join(service.url, service.prefix), service.api_token)


async def ask_for_placement(
    address: ServiceAddress,
    question: Mapping[str, Any],
    definition: Callable[[], str],
    entries: Collection[str],
    wait_seconds: float,
    log: Logger,
) -> PlacementAnswer | None:
    """Ask where a server gets its place.

    Parameters
    ----------
    question
        ``shape``, ``pod`` and ``namespace``.
    definition
        Of the shape, asked for only if the service does not know it.
    entries
        See `read_answer`.
    wait_seconds
        Until no answer is awaited any more.

    Returns
    -------
    PlacementAnswer or None
        None if none came in time, or none that makes sense; the log says why.
    """
    try:
        async with asyncio.timeout(wait_seconds):
            try:
                answer, is_published = await _post(address, question), True
            except _NotKnown:
                # No choice has it by itself: a combination of several options, or what differs between users.
                answer, is_published = await _post(address, {**question, "definition": definition()}), False
        return replace(read_answer(answer, entries, datetime.now(UTC)), is_published=is_published)
    except TimeoutError:
        why = f"no answer within {wait_seconds:g} s"
    except aiohttp.ClientError as error:
        why = str(error) or type(error).__name__
    except _NotKnown as error:
        log.info("The dra-spawner service knows no placement for this server%s", error)
        return None
    except (_Refused, InvalidAnswer) as error:
        why = str(error)
    except Exception:  # a start never fails because of the service
        log.exception("The dra-spawner service could not be asked for a placement")
        return None
    log.warning("The dra-spawner service does not say where this server is placed: %s", why)
    return None


class _Refused(Exception):
    """An answer that is none, in words."""


class _NotKnown(Exception):
    """The service does not know what the server needs."""


async def _post(address: ServiceAddress, question: Mapping[str, Any]) -> object:
    headers = {"Authorization": f"token {address.token}", "Accept": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session,
        # The token is for the service alone, not for an address that an answer points to.
        session.post(address.url + "api/placements", json=question, allow_redirects=False) as response,
    ):
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > _MOST_BYTES:
                raise _Refused(f"its answer has more than {_MOST_BYTES} bytes")
        if response.status == 404 and _of(body, "kind") == "unknown":
            raise _NotKnown(_message(body))
        if response.status == 404:
            # A wrong address would otherwise look as if no server ever fitted.
            raise _Refused(f"it answers 404{_message(body)}; its url or prefix in the hub's services is wrong")
        if response.status != 200:
            raise _Refused(f"it answers {response.status}{_message(body)}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused("its answer is no JSON") from None


def _message(body: bytes | bytearray) -> str:
    """What an error says, as our service words it."""
    message = _of(body, "message")
    return f": {message[:200]!r}" if message else ""


def _of(body: bytes | bytearray, key: str) -> str:
    """A text of an answer in JSON; empty if there is none."""
    try:
        found = json.loads(body)[key]
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""
    return found if isinstance(found, str) else ""

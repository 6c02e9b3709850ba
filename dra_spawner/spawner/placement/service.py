"""Finds the dra-spawner service in the hub's configuration, and asks it for a placement.

A spawn never fails because of the service: there is an answer in time, or none.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from logging import Logger
from pathlib import Path
from typing import Any, Final

import aiohttp
from jupyterhub.utils import url_path_join

from dra_spawner.common.log_once import LogOnce
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.hub_parts.running_hub import running_hub
from dra_spawner.spawner.placement.answer import InvalidAnswer, PlacementAnswer, read_answer
from dra_spawner.spawner.placement.service_address import NoAnswer, ServiceAddress, json_of, whole_body

_MAX_BYTES: Final = 2**16
_MOST_GROUPS: Final = 1_000
_LONGEST_NAME: Final = 255
_MOST_GROUP_BYTES: Final = 48 * 2**10
#: Keys that older services refuse, the newest first; later ones leave out what they do not know.
_NEWER_KEYS: Final = (("tickets",), ("user", "groups"))


def is_configured(name: str) -> bool:
    """Whether the hub that runs in this process has a service of this name in its configuration."""
    hub = running_hub()
    if not name or hub is None:
        return False
    return name in hub._service_map or any(
        isinstance(each, Mapping) and each.get("name") == name for each in hub.services
    )


def service_of_hub(name: str, ca_file: str = "") -> ServiceAddress | None:
    """A service of the hub in this process; None if no service of this name has an address and a token.

    Parameters
    ----------
    ca_file
        The setting ``placeholder_service_ca_file``.
    """
    hub = running_hub()
    service = hub._service_map.get(name) if name and hub is not None else None
    if service is None or not service.url or not service.api_token:
        return None
    encryption = _encryption(hub, ca_file) if service.url.startswith("https:") else None
    return ServiceAddress(url_path_join(service.url, service.prefix), service.api_token, encryption)


def _encryption(hub: Any, ca_file: str) -> ssl.SSLContext | None:
    """The certificates in the file, or else of ``internal_ssl``; None: the system's are used."""
    files = (hub.internal_ssl_key, hub.internal_ssl_cert, hub.internal_ssl_ca) if hub.internal_ssl else ("", "", "")
    files = ("", "", ca_file) if ca_file else files
    if not files[-1]:
        return None
    message = "The dra-spawner service is not trusted, as certificates cannot be read: %s"
    log_once = this_hub().shared("certificates of the service", lambda: LogOnce(hub.log, message))
    try:
        found = _context(*files, Path(files[-1]).stat().st_mtime_ns)
    except OSError as error:  # of a file that is missing, or no certificate
        log_once.present([f"{files[-1]}: {error}"])
        return None
    log_once.present(())
    return found


@lru_cache(maxsize=4)
def _context(key: str, certificate: str, ca_file: str, changed: int) -> ssl.SSLContext:
    """The context of some files; a file that has changed is read again."""
    context = ssl.create_default_context(cafile=ca_file)
    if key and certificate:
        context.load_cert_chain(certificate, key)
    return context


def told_of_user(user: str, groups: Iterable[str]) -> dict[str, Any]:
    """What a question tells of a user, for budgets, within the limits of the service."""
    if len(user) > _LONGEST_NAME:
        return {}
    told, size = list[str](), 0
    for each in groups:
        size += len(json.dumps(each)) + 2
        if len(told) == _MOST_GROUPS or size > _MOST_GROUP_BYTES:
            break
        if len(each) <= _LONGEST_NAME:
            told.append(each)
    return {"user": user, "groups": told}


async def ask_for_placement(
    address: ServiceAddress,
    question: Mapping[str, Any],
    definition: Callable[[], str],
    entries: Collection[str],
    wait_seconds: float,
    log: Logger,
) -> PlacementAnswer | None:
    """Ask the service for the placement of a server.

    Parameters
    ----------
    question
        ``shape``, ``pod`` and ``namespace``.
    definition
        Returns the definition of the shape; called only if the service does not know the shape.
    entries
        See `read_answer`.
    wait_seconds
        Maximum time to wait for the answer.

    Returns
    -------
    PlacementAnswer or None
        None without a valid answer in time; the log says why.
    """
    try:
        async with asyncio.timeout(wait_seconds):
            try:
                answer, is_published = await _post(address, question), True
            except _UnknownShape:
                # The shape is not published: it is of a combination of several options, or differs between users.
                answer, is_published = await _post(address, {**question, "definition": definition()}), False
        return replace(read_answer(answer, entries, datetime.now(UTC)), is_published=is_published)
    except TimeoutError:
        why = f"no answer within {wait_seconds:g} s"
    except aiohttp.ClientError as error:
        why = str(error) or type(error).__name__
    except _UnknownShape as error:
        log.info("The dra-spawner service knows no placement for this server%s", error)
        return None
    except (NoAnswer, InvalidAnswer) as error:
        why = str(error)
    except Exception:  # a start never fails because of the service
        log.exception("The dra-spawner service could not be asked for a placement")
        return None
    log.warning("The dra-spawner service gave no placement for this server: %s", why)
    return None


class _UnknownShape(Exception):
    """Raised if the service does not know the shape of the server."""


async def _post(address: ServiceAddress, question: Mapping[str, Any]) -> object:
    async with address.ask("POST", "api/placements", json=question) as response:
        body = await whole_body(response, _MAX_BYTES)
        if response.status == 404 and _json_text(body, "kind") == "unknown":
            raise _UnknownShape(_message(body))
        if response.status == 404:
            # Otherwise a wrong address would look like an unknown shape.
            raise NoAnswer(f"it answers 404{_message(body)}; its url or prefix in the hub's services is wrong")
        newer = next((keys for keys in _NEWER_KEYS if not question.keys().isdisjoint(keys)), ())
        if response.status == 400 and newer:
            # An older service, which knows no queue, or no budgets.
            return await _post(address, {key: each for key, each in question.items() if key not in newer})
        if response.status != 200:
            raise NoAnswer(f"it answers {response.status}{_message(body)}")
    return json_of(body)


def _message(body: bytes) -> str:
    """The message of the service's error response, for the end of a sentence; empty if there is none."""
    message = _json_text(body, "detail")
    return f": {message[:200]!r}" if message else ""


def _json_text(body: bytes, key: str) -> str:
    """A text in a JSON response, by its key; empty if there is none."""
    try:
        found = json.loads(body)[key]
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""
    return found if isinstance(found, str) else ""

"""What the home page says of classes that its user has announced, or that are for a group of its user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, Final

from dra_spawner import names
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.hub_parts.running_hub import running_hub
from dra_spawner.spawner.placement.service import service_of_hub
from dra_spawner.spawner.placement.service_address import NoAnswer, ServiceAddress
from dra_spawner.spawner.server_context import parts_of

#: Shortest time between two questions, of all pages: a page shows what is so when it is loaded.
_INTERVAL_SECONDS: Final = 2.0
#: A service that answers slowly is asked less often: it spends this part of its time on answers at most.
_MOST_OF_ITS_TIME: Final = 0.1
_LONGEST_AGE_SECONDS: Final = 300.0
_LIMIT_SECONDS: Final = 5.0
#: Until the page is shown without an answer.
_WAIT_SECONDS: Final = 0.3
_MAX_BYTES: Final = 2**20
_MAX_TEXT: Final = 500
_MAX_NOTES: Final = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassNote:
    """What is to be said of one class. Plain text: the template escapes it.

    Attributes
    ----------
    link
        Address of the page with the class; empty for a member of its group, who may not open it.
    """

    name: str
    begins: str
    sentence: str
    is_problem: bool
    link: str


async def class_notes(user: Any) -> list[ClassNote]:
    """Return what is to be said of a user's classes. Never raises: a home page without notes is better than none."""
    try:
        service = str(getattr(user.spawner, "placeholder_service", ""))
        address = service_of_hub(service, str(getattr(user.spawner, "placeholder_service_ca_file", "")))
        if address is None:
            return []
        news = this_hub().shared(("class news", service), _ClassNews)
        items = await news.latest(address)
        if not items:
            return []
        groups = [group.name for group in getattr(user, "groups", None) or ()]
        own = [each for each in items if not each.get("group") and each.get("user") == user.name]
        others = [each for each in items if each.get("group") in groups and each.get("user") != user.name]
        hub = running_hub()
        servers = list(_active_servers(user))
        link = f"{hub._service_map[service].prefix}classes" if hub is not None else ""
        return [
            *(_note(each, link) for each in own[:_MAX_NOTES]),
            *(_note(_for_member(each, servers), "") for each in others[:_MAX_NOTES]),
        ]
    except Exception:  # whatever the service answers
        log.exception("The home page says nothing about classes")
        return []


def _active_servers(user: Any) -> Iterator[tuple[str, bool]]:
    """The id of what each active server of a user has, empty if that is not known, and whether it runs."""
    for server in user.all_spawners():
        parts = parts_of(server)
        if parts is not None and getattr(server, "active", False) and server.pending != "stop":
            labels = ((parts.server.pod() or {}).get("metadata") or {}).get("labels") or {}
            yield str(labels.get(names.SHAPE, "")), bool(server.ready)


def _for_member(found: Mapping[str, Any], servers: Sequence[tuple[str, bool]]) -> Mapping[str, Any]:
    """What a member of a class's group reads, by the own servers, while users come to the class."""
    own = found.get("own_server")
    if not isinstance(own, Mapping) or not servers:
        return found
    same = [runs for shape, runs in servers if shape and shape == own.get("shape")]
    if same:
        return {**found, "sentence": own.get("has" if any(same) else "starts", ""), "is_problem": False}
    if any(shape or runs for shape, runs in servers):
        return {**found, "sentence": own.get("other", "")}
    # It was ordered just now: before it has a pod, its choice is not known.
    return {**found, "sentence": own.get("begins", ""), "is_problem": False}


def _note(found: Mapping[str, Any], link: str) -> ClassNote:
    name, begins, sentence = (str(found.get(key, ""))[:_MAX_TEXT] for key in ("name", "begins", "sentence"))
    return ClassNote(name, begins, sentence, found.get("is_problem") is True, link)


class _ClassNews:
    """The last answer; at most one question at a time."""

    def __init__(self) -> None:
        self._items: list[dict[str, Any]] = []
        self._ask_again_at = self._answered_at = -inf
        self._task: asyncio.Task[None] | None = None

    async def latest(self, address: ServiceAddress) -> list[dict[str, Any]]:
        is_open = self._task is not None and not self._task.done()
        if not is_open and monotonic() >= self._ask_again_at:
            self._task = this_hub().begin(self._ask(address), "class news")
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=_WAIT_SECONDS)
        return self._items if monotonic() - self._answered_at < _LONGEST_AGE_SECONDS else []

    async def _ask(self, address: ServiceAddress) -> None:
        asked_at = monotonic()
        try:
            await self._ask_at(address)
        finally:
            took = monotonic() - asked_at
            self._ask_again_at = asked_at + max(_INTERVAL_SECONDS, took / _MOST_OF_ITS_TIME)

    async def _ask_at(self, address: ServiceAddress) -> None:
        try:
            found = await address.ask_for_json(
                "GET", "api/class-news", limit_seconds=_LIMIT_SECONDS, most_bytes=_MAX_BYTES
            )
        except NoAnswer as error:  # what is known stays
            log.debug("The service says nothing about classes: %s", error)
            return
        items = found.get("items") if isinstance(found, dict) else None
        self._items = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        self._answered_at = monotonic()

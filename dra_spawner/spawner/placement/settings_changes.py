"""Hears from the service when people change its settings, such as by a drain, while servers wait.

The service's stream of events has it. So a waiting user reads it at once, and the hub does not ask again and again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.placement.service import service_of_hub
from dra_spawner.spawner.placement.service_address import ServiceAddress

#: Time after the last interest in changes, for which the stream begins again when it ends.
_KEPT_SECONDS: Final = 10.0
#: Silence after which a connection counts as lost: the service sends a heartbeat each five seconds.
_SILENCE_SECONDS: Final = 15.0
#: Pauses after a stream that has ended as it should, and after another one.
_BETWEEN_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 15.0


class SettingsChanges:
    """Counts changes of settings, as a stream of the service tells them.

    Parameters
    ----------
    service
        Its name.
    address
        Its present address; None while there is none.
    """

    def __init__(self, service: str, address: Callable[[], ServiceAddress | None]) -> None:
        self._service = service
        self._address = address
        self._number = 0
        self._asked_at = 0.0
        self._last_id = ""

    def heard(self) -> int:
        """Number of changes so far; they are heard while this is asked for."""
        self._asked_at = asyncio.get_running_loop().time()
        if self._address() is not None:
            this_hub().run_once(("changes of settings", self._service), self._follow)
        return self._number

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while (address := self._address()) is not None and loop.time() - self._asked_at < _KEPT_SECONDS:
            try:
                await self._stream(address)
                await asyncio.sleep(_BETWEEN_SECONDS)
            except (aiohttp.ClientError, TimeoutError, ValueError):  # the stream is a help, and no server needs it
                self._last_id = ""
                await asyncio.sleep(_PAUSE_SECONDS)
        self._last_id = ""

    async def _stream(self, address: ServiceAddress) -> None:
        """Read one stream to its end."""
        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS)
        async with address.ask("GET", "api/events", headers=headers, timeout=limits) as answer:
            answer.raise_for_status()
            if answer.content_type != "text/event-stream":
                raise ValueError(answer.content_type)
            self._number += not self._last_id  # what was before is not known
            event = ""
            async for line in answer.content:
                name, _, value = line.decode(errors="replace").strip().partition(": ")
                if name == "id":
                    self._last_id = value
                elif name == "event":
                    event = value
                    self._number += value == "reset"
                elif name == "data" and event == "changed":
                    self._number += _names_settings(json.loads(value))


def _names_settings(change: Any) -> bool:
    return isinstance(change, dict) and "settings" in (change.get("resources") or ())


def settings_changes(service: str, ca_file: str = "") -> SettingsChanges:
    """Changes of the settings of a service of this hub; `service_of_hub` says what the file is."""
    return this_hub().shared(
        (SettingsChanges, service), lambda: SettingsChanges(service, lambda: service_of_hub(service, ca_file))
    )

"""``GET {hub}/dra-spawner/devices``: the devices of the server whose own token comes with the request.

Which server that is follows from the token alone. The request has no parameters.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from tornado.web import HTTPError

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.spawner.devices.reader import Reading
from dra_spawner.spawner.my_devices.my_devices_reader import read_own_devices
from dra_spawner.spawner.my_devices.own_devices import OwnDevices
from dra_spawner.spawner.my_devices.own_server_handler import OwnParts, OwnServerHandler
from dra_spawner.spawner.placement.standing import own_budget_sentences
from dra_spawner.spawner.server_context import ServerContext

__all__ = ["DevicesHandler"]

_WAIT_SECONDS: Final = 3.0
#: Maximum age of the devices that a server is told; a server may ask as often as it likes.
_LONGEST_AGE_SECONDS: Final = 2.0

_NOT_KNOWN: Final = "The devices of this server are not known at present."


class DevicesHandler(OwnServerHandler):
    """Answers a server."""

    async def get(self) -> None:
        """Write the answer as JSON."""
        self.set_header("Cache-Control", "no-store")
        parts = self.own_parts()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                found = await _own_devices(parts)
        except (KubernetesError, TimeoutError) as error:
            self.log.warning("The devices of a server are not told: server=%s %r", self.server_name(), error)
            found = None
        except Exception:  # whatever is in a claim that others made
            self.log.exception("The devices of a server are not told: server=%s", self.server_name())
            found = None
        if found is None:
            raise HTTPError(503, _NOT_KNOWN)
        session = parts.home.session()
        spawner = parts.server.spawner
        use = await own_budget_sentences(
            spawner.placeholder_service, spawner.user.name, parts.server.user_groups, self.log
        )
        end = session.as_json() if session is not None else {}
        self.finish({**found.as_json(), **end, **({"use": use} if use else {})})


async def _own_devices(parts: OwnParts) -> OwnDevices | None:
    """The devices of a running server; None if the hub does not see its pod.

    Raises
    ------
    KubernetesError
        If they cannot be read.
    """
    if not parts.server.pod():
        return None
    return await devices_of_server(parts).get(_LONGEST_AGE_SECONDS)


def devices_of_server(parts: OwnParts) -> Reading[OwnDevices]:
    """What reads the devices of a server, one for the server's life."""
    if parts.own_devices is None:
        parts.own_devices = Reading(partial(_read, parts.server))
    return parts.own_devices


async def _read(server: ServerContext) -> OwnDevices:
    pod = server.pod()
    return await read_own_devices(server.kubernetes, pod) if pod else OwnDevices()

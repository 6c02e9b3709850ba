"""Waits until a started server listens, so that JupyterHub finds it at its first look.

JupyterHub looks at a starting server in growing intervals of random length: a server that needs two seconds is found
half a second too late in the mean, and more than a second too late once in ten starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import Any, Final
from urllib.parse import urlsplit

#: Limit of the wait for a server that does not listen yet; JupyterHub waits for it afterwards, too.
_LISTEN_SECONDS: Final = 10.0
_FIRST_SECONDS: Final = 0.1
#: Part of the elapsed time after which the port is tried again: many slow servers must not keep the hub busy.
_PART: Final = 0.1
_CONNECT_SECONDS: Final = 2.0


async def until_it_listens(spawner: Any, url: str, rest: float) -> None:
    """Wait a little for a started server, if JupyterHub waits for it.

    Parameters
    ----------
    rest
        Seconds that the start has left; half of them stay.
    """
    if getattr(spawner, "_spawn_pending", False):
        await until_port_is_open(url, min(_LISTEN_SECONDS, spawner.http_timeout, rest / 2))


async def until_port_is_open(url: str, seconds: float) -> None:
    """Return when the server's port is open, or after some seconds; JupyterHub waits for the server's answer then.

    A name is not waited for, as a lookup that fails may be remembered for long.
    """
    try:
        parts = urlsplit(url)
        host, port = str(ipaddress.ip_address(parts.hostname or "")), parts.port
    except ValueError:
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    while port is not None and (elapsed := loop.time() - began) < seconds:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(min(_CONNECT_SECONDS, seconds - elapsed)):
                _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return
        await asyncio.sleep(min(max(_FIRST_SECONDS, elapsed * _PART), seconds))

"""Background clean-up of a hub: removals of failed starts, and the sweep."""

from __future__ import annotations

import asyncio
from functools import partial
from logging import Logger
from typing import TYPE_CHECKING, Final

from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS, retry_until_done, run_periodically, this_hub
from dra_spawner.spawner.objects.start_objects import StartObjects, utc_now
from dra_spawner.spawner.server_context import ServerContext

if TYPE_CHECKING:
    from dra_spawner.spawner.objects.leftovers import Kind

#: Pauses before each look for what a request without an answer has created after the removal. The API server ends a
#: request after a minute (``--request-timeout``).
_LATE_LOOK_SECONDS: Final = (2.0, 13.0, 60.0)


def begin_removal(objects: StartObjects, pod_name: str, log: Logger) -> asyncio.Task[None]:
    """Begin to remove the objects of a start; requests are retried while the API server does not answer."""

    async def remove_all(found: StartObjects) -> None:
        async def removed() -> bool:
            await found.remove(pod_name)
            return True

        await retry_until_done(removed, f"remove what the start of {pod_name} left", log)

    async def remove_late() -> None:
        for pause in _LATE_LOOK_SECONDS:
            await asyncio.sleep(pause)
            if (late := objects.that_may_appear()) is not None:
                await remove_all(late)

    async def begin() -> None:
        await remove_all(objects)
        if objects.that_may_appear() is not None:
            this_hub().begin(remove_late(), "late removal of a start")

    return this_hub().begin(begin(), "removal of a start")


async def remove(objects: StartObjects, pod_name: str, log: Logger) -> None:
    """Remove the objects of a start; after a short wait the removal continues in the background."""
    await asyncio.wait({begin_removal(objects, pod_name, log)}, timeout=CLEAN_UP_WAIT_SECONDS)


def companion_kinds() -> set[Kind]:
    """Return the mutable set of kinds of companions that starts of this hub created."""
    return this_hub().shared("kinds of companions", set)


def begin_sweeping(server: ServerContext) -> None:
    """Begin the periodic sweep, once in a hub or in its namespace."""
    this_hub().run_once(
        ("sweep", server.servers_namespace),
        lambda: run_periodically(
            partial(_sweep, server),
            lambda: float(server.spawner.leftovers_sweep_interval_seconds),
            "The sweep of leftovers failed",
            server.log,
        ),
    )


async def _sweep(server: ServerContext) -> None:
    from dra_spawner.spawner.objects.leftovers import Sweep  # when the first sweep begins

    # Younger objects without an end may belong to a running start.
    sweep = Sweep(
        server.kubernetes,
        server.servers_namespace,
        server.longest_start,
        utc_now(),
        hub_namespace=server.hub_namespace,
    )
    await sweep.run(companion_kinds())
    for done in sweep.done:
        server.log.info("Swept leftovers: %s", done)
    for error in sweep.errors:
        server.log.warning("Could not sweep all leftovers: %s", error)

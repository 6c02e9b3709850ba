"""What goes on in the background of a hub so that nothing is left behind: removals of failed starts, and the sweep."""

from __future__ import annotations

import asyncio
from functools import partial
from logging import Logger

from dra_spawner.spawner.hub_wide import (
    CLEAN_UP_WAIT_SECONDS,
    hub_wide,
    in_background,
    keep_trying,
    run_for_ever,
    run_once,
)
from dra_spawner.spawner.objects.leftovers import Kind, Sweep
from dra_spawner.spawner.objects.start_objects import StartObjects, utc_now
from dra_spawner.spawner.settings import SpawnerSettings

__all__ = ["begin_removal", "begin_sweeping", "companion_kinds", "remove"]


def begin_removal(objects: StartObjects, pod_name: str, log: Logger) -> asyncio.Task[None]:
    """Begin to remove what a start made. It goes on while the API server does not answer."""

    async def removed() -> bool:
        await objects.remove(pod_name)
        return True

    return in_background(keep_trying(removed, f"remove what the start of {pod_name} left", log))


async def remove(objects: StartObjects, pod_name: str, log: Logger) -> None:
    """Remove what a start made; returns when that is done, or goes on in the background."""
    await asyncio.wait({begin_removal(objects, pod_name, log)}, timeout=CLEAN_UP_WAIT_SECONDS)


def companion_kinds() -> set[Kind]:
    """Return the kinds of companion objects that starts of this hub made; may be added to."""
    return hub_wide("kinds of companions", set)


def begin_sweeping(spawner: SpawnerSettings) -> None:
    """Begin to look for leftovers again and again, once in a hub or in its namespace."""
    run_once(
        ("sweep", spawner.servers_namespace),
        lambda: run_for_ever(
            partial(_sweep, spawner),
            lambda: float(spawner.leftovers_sweep_interval_seconds),
            "Could not look for what was left behind",
            spawner.log,
        ),
    )


async def _sweep(spawner: SpawnerSettings) -> None:
    # Younger objects that do not say otherwise may belong to a start that is under way.
    sweep = Sweep(spawner.kubernetes, spawner.servers_namespace, spawner.longest_start, utc_now())
    await sweep.run(companion_kinds())
    for done in sweep.done:
        spawner.log.info("Swept what was left behind: %s", done)
    for error in sweep.errors:
        spawner.log.warning("Could not sweep everything that was left behind: %s", error)

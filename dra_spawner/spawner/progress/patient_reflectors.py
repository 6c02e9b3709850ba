"""KubeSpawner's reflectors, which here outlive an API server that is away for long.

KubeSpawner's own give up after 51 seconds without an answer, and nothing is seen of pods and events before a start has
failed for it. One whose first list fails stays and knows no pod: a hub takes each server for stopped, and removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kubespawner.reflector import ResourceReflector
from kubespawner.spawner import EventReflector

#: Seconds between two tries, of which each is twice as long as the one before.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0


async def until_answered(ask: Callable[[], Awaitable[Any]], what: str, log: Any) -> Any:
    """Ask the API server until it answers, and log once that it does not.

    Parameters
    ----------
    what
        What it is asked to do, for the log, such as "list pods".
    """
    wait = _FIRST_WAIT
    while True:
        try:
            found = await ask()
        except Exception as error:
            if wait == _FIRST_WAIT:
                log.warning("The API server does not %s; asking until it does: %r", what, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        else:
            if wait != _FIRST_WAIT:
                log.info("The API server answers again: %s", what)
            return found


class PatientReflector(ResourceReflector):
    """A reflector that lists until it is answered, but for its first list: a start ends with a sentence if it fails."""

    async def _list_and_update(self, resource_version: str | None = None) -> Any:
        # After a failure KubeSpawner asks for version 0, "any": the cache of an API server that is behind lacks pods.
        versions = iter((resource_version,) if resource_version != "0" else ())
        ask = super()._list_and_update
        if not self.first_load_future.done():
            return await ask(resource_version)
        # Where the first try fails, the version may be gone at the next.
        return await until_answered(lambda: ask(next(versions, None)), f"list {self.kind}", self.log)


class PatientEventReflector(PatientReflector, EventReflector):
    """KubeSpawner's reflector of events, with patience."""


async def start_shared(start: Awaitable[Any], reflectors: MutableMapping[Any, ResourceReflector], key: Any) -> Any:
    """Return a shared reflector once it has listed; forget one whose first list fails.

    A caller that is cancelled does not end the list, for which others may wait.
    """

    async def started() -> Any:
        try:
            return await start
        except SystemExit as error:
            # KubeSpawner would end the hub, where users have namespaces of their own.
            raise (error.__context__ or ConnectionError(f"the API server does not list {key[0]}")) from None
        finally:
            first = reflectors[key].first_load_future if key in reflectors else None
            if first is not None and first.done() and first.exception():
                del reflectors[key]

    task = asyncio.ensure_future(started())
    task.add_done_callback(lambda each: each.cancelled() or each.exception())  # a caller may be gone
    return await asyncio.shield(task)

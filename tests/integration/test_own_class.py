"""A hub's own class: what it makes in its ``start`` and removes in its ``stop``, as with KubeSpawner."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from jupyterhub.user import User
from kubespawner import KubeSpawner

from dra_spawner.spawner import DRASpawner
from tests.integration.faulty_hub import Faulty

#: A start ends at this limit; JupyterHub's own wait.
_LIMIT_SECONDS = 4
#: JupyterHub stops a server so long after it has cancelled its start; then the start must have ended.
_INTERRUPTED_SECONDS = 1.0


def own_class(base: Any, calls: list[str]) -> type:
    """A class as hubs have them: it notes the order of its calls."""

    class HubSpawner(base):  # type: ignore[misc]
        async def start(self) -> Any:
            calls.append("start")
            return await super().start()

        async def stop(self, now: bool = False) -> None:
            try:
                await super().stop(now)
            finally:
                calls.append(f"stop now={now}")

    return HubSpawner


def failing_hook(spawner: Any, pod: Any) -> None:
    raise RuntimeError("by a test")


async def interrupt(faulty: Faulty, user: User) -> None:
    """Stop a pending start as JupyterHub's API does."""
    starting = asyncio.create_task(user.spawn())
    await faulty.cluster.wait_event(f"jupyter-{user.name}", "FailedScheduling")
    starting.cancel()
    done, _ = await asyncio.wait({starting}, timeout=_INTERRUPTED_SECONDS)
    assert done, "the start ends before JupyterHub stops the server"
    await user.stop()


async def fail(user: User) -> None:
    with contextlib.suppress(Exception):
        await user.spawn()


async def calls_of(faulty: Faulty, base: Any) -> dict[str, list[str]]:
    """Calls of a class and its hook, by the way in which a start ends."""
    calls: list[str] = []
    faulty.side.spawner_class = own_class(base, calls)
    section = faulty.side.config[base.__name__]
    section.update(faulty.side.config.DRASpawner)
    section.update(
        start_timeout=_LIMIT_SECONDS,
        extra_resource_limits={"x.example.com/gpu": "1"},
        post_stop_hook=lambda spawner: calls.append("hook"),
        modify_pod_hook=None,
    )
    found = {}

    async def note(way: str, work: Any) -> None:
        calls.clear()
        await work
        found[way] = list(calls)
        await faulty.nothing_is_left()

    def user(name: str) -> User:
        return faulty.side.user(f"{name}-{base.__name__.lower()}")

    for number in range(2):
        await note(f"stopped while pending, {number}", interrupt(faulty, user(f"ada{number}")))
    await note("time limit", fail(user("bob")))
    section.after_pod_created_hook = failing_hook
    await note("hook after the pod", fail(user("eve")))
    section.after_pod_created_hook, section.modify_pod_hook = None, failing_hook
    await note("hook before the pod", fail(user("dan")))
    return found


@pytest.mark.promise("A hub's own class is asked to stop what it has started, as with KubeSpawner.")
async def test_stop_of_a_hubs_class_is_called_as_with_kubespawner(embedded_faulty: Faulty) -> None:
    with_devices = await calls_of(embedded_faulty, DRASpawner)
    assert with_devices["stopped while pending, 0"] == ["start", "stop now=False", "hook"]
    assert with_devices == await calls_of(embedded_faulty, KubeSpawner)

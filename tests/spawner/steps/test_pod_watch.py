"""Messages about a server's devices."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dra_spawner.spawner.steps.attempt import Attempt
from dra_spawner.spawner.steps.pod_watch import PodWatch

POD: dict[str, Any] = {"spec": {"nodeName": "node-a", "resourceClaims": [{"name": "gpu", "resourceClaimName": "warm"}]}}


async def test_an_attempt_that_ends_while_its_devices_are_read(caplog: pytest.LogCaptureFixture) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def claims(*_: object, **__: object) -> dict[str, Any]:
        asked.set()
        await may_answer.wait()
        return {"items": []}

    log = logging.getLogger("spawner")
    spawner = SimpleNamespace(retry_failed_pod_after_seconds=0, pod_name="jupyter-ada")
    places: list[str] = []
    objects = SimpleNamespace(namespace="hub", api=SimpleNamespace(list=claims), warm_claims={"gpu": "warm"})
    server = SimpleNamespace(spawner=spawner, log=log, pod=lambda: None)
    progress = SimpleNamespace(pod=POD, waiting_for="")
    messages = SimpleNamespace(found_place=places.append)
    attempt = SimpleNamespace(server=server, spawner=spawner, objects=objects, messages=messages, progress=progress)
    watch = PodWatch(cast(Attempt, attempt))
    task = watch.tell_place()
    await asked.wait()
    attempt.objects = None
    may_answer.set()
    await task
    assert len(places) == 1
    assert [each for each in caplog.records if each.name == log.name] == []

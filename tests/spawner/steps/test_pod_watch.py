"""Messages about a server's devices, and what the start of a server looks at."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.client.api_errors import RequestTarget
from dra_spawner.spawner.devices import diagnosis
from dra_spawner.spawner.devices.diagnosis import Diagnosis
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub, this_hub
from dra_spawner.spawner.placement.settings_changes import SettingsChanges
from dra_spawner.spawner.progress.start_messages import StartMessages
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, Retry
from dra_spawner.spawner.steps.pod_watch import PodWatch
from tests.jumping_loop import let_pass, run_jumping

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
    server = SimpleNamespace(spawner=spawner, log=log, pod=lambda: None, ended_pod=lambda: None)
    progress = SimpleNamespace(pod=POD, waiting_for="")
    messages = SimpleNamespace(found_place=places.append)
    attempt = SimpleNamespace(
        server=server, spawner=spawner, objects=objects, messages=messages, progress=progress, retry=Retry()
    )
    watch = PodWatch(cast(Attempt, attempt))
    task = watch.tell_place()
    await asked.wait()
    attempt.objects = None
    may_answer.set()
    await task
    assert len(places) == 1
    assert [each for each in caplog.records if each.name == log.name] == []


def test_a_pod_with_a_node_is_looked_at_once_a_second_and_its_end_is_not_missed() -> None:
    looks = 0
    metadata = {"annotations": {names.START: "nonce"}}
    running: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": "node-a"}}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    ended = {**running, "status": {"conditions": [condition]}}
    seen: list[dict[str, Any] | None] = [running, None]

    def pod() -> dict[str, Any] | None:
        nonlocal looks
        looks += 1
        return seen[0]

    async def gone(path: str) -> None:
        raise KubernetesError(
            RequestTarget.from_path("get", path), status=404, reason="NotFound", message="", missing="pod"
        )

    async def scene() -> None:
        spawner = SimpleNamespace(retry_failed_pod_after_seconds=0, pod_name="jupyter-ada", event_reflector=None)
        server = SimpleNamespace(spawner=spawner, log=logging.getLogger("spawner"), pod=pod, ended_pod=lambda: ended)
        objects = SimpleNamespace(
            nonce="nonce", namespace="hub", api=SimpleNamespace(get=gone), warm_claims={}, shared={}
        )
        progress = SimpleNamespace(pod={}, waiting_for="")
        messages = SimpleNamespace(found_place=lambda _: None)
        attempt = SimpleNamespace(
            server=server, spawner=spawner, objects=objects, messages=messages, progress=progress, retry=Retry()
        )
        following = asyncio.create_task(PodWatch(cast(Attempt, attempt)).follow())
        await let_pass(60)
        assert looks < 70
        seen.pop(0)
        with pytest.raises(SpawnRefused, match=r"The server was ended while it started\. .+"):
            await asyncio.wait_for(following, 10)
        assert progress.pod is ended

    run_jumping(scene())


def test_what_a_waiting_user_reads_follows_changes_of_settings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once more after a moment, as a node or a device is closed a moment after its drain was ordered."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no device"}
    metadata = {"annotations": {names.START: "nonce"}, "name": "jupyter-ada"}
    waiting: dict[str, Any] = {"metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        began, looks, changes = loop.time(), list[int](), [57]
        found = Diagnosis("What could run it is out of use.", fits=False)

        async def explain(*_: object, **__: object) -> Diagnosis:
            looks.append(round(loop.time() - began))
            return found

        monkeypatch.setattr(diagnosis, "diagnose", explain)
        this_hub().shared((SettingsChanges, "dra-spawner"), lambda: SimpleNamespace(heard=lambda: changes[0]))
        spawner = SimpleNamespace(
            retry_failed_pod_after_seconds=0,
            pod_name="jupyter-ada",
            optional_devices_wait_seconds=60,
            placeholder_service="dra-spawner",
            placeholder_service_ca_file="",
        )
        server = SimpleNamespace(
            spawner=spawner, log=logging.getLogger("spawner"), pod=lambda: waiting, ended_pod=lambda: None, devices=None
        )
        objects = SimpleNamespace(nonce="nonce", namespace="hub", api=None, warm_claims={}, shared={})
        messages = StartMessages("hub", "jupyter-ada")
        attempt = SimpleNamespace(
            server=server,
            spawner=spawner,
            objects=objects,
            messages=messages,
            progress=SimpleNamespace(pod={}, waiting_for="", held_back=""),
            plan=SimpleNamespace(fallback=None, specs={}),
            retry=Retry(),
        )
        following = asyncio.create_task(PodWatch(cast(Attempt, attempt)).follow())
        await let_pass(20.5)
        assert messages.line() == "What could run it is out of use."
        found = Diagnosis(fits=True)
        changes[0] += 1
        await let_pass(22)
        following.cancel()
        forget_hub()
        assert looks == [0, 15, 21, 24, 39]
        assert messages.line() == "Your server waits until a machine with all that it needs is free."

    run_jumping(scene())

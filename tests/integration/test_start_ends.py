"""Starts that cannot succeed any more are ended at once, with the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dra_spawner.spawner.objects.pod_devices import terminal_problem
from dra_spawner.spawner.server_context import parts_of
from tests.integration.faulty_hub import Faulty
from tests.polling import eventually


@pytest.fixture
def waiting(embedded_faulty: Faulty) -> Faulty:
    """A start that waits long for a device."""
    embedded_faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com"}}
    embedded_faulty.side.spawner_config.start_timeout = 180
    return embedded_faulty


async def ended_by(waiting: Faulty, work: Any) -> str:
    starting = asyncio.create_task(waiting.spawn())
    await waiting.cluster.wait_event("jupyter-ada", "FailedScheduling")
    await work
    error: Any = await asyncio.wait_for(starting, 150)  # sooner than its own limit
    await waiting.nothing_is_left()
    return str(error.jupyterhub_message)


async def test_a_pod_that_somebody_deletes(waiting):
    pod = waiting.cluster.path("pods", "jupyter-ada")
    message = await ended_by(waiting, waiting.cluster.admin.delete(pod, grace_period_seconds=0))
    assert message == "The server's pod was deleted while it started."


async def test_a_pod_that_the_reflector_lost(waiting):
    """KubeSpawner replaces a reflector that failed by one that is empty until it has listed the pods."""

    spawner = waiting.user().spawner

    def is_asked_for() -> bool:
        spawner.pod_reflector.resources.clear()  # again and again, as it lists the pods after some seconds
        return waiting.requests(verbs=("get",)).count("get pods") >= 2

    async def work() -> None:
        await eventually(lambda: parts_of(spawner).page.progress.waiting_for, "the pod is followed")
        await eventually(is_asked_for, "the API server is asked for the pod twice")
        await waiting.cluster.admin.delete(waiting.cluster.path("pods", "jupyter-ada"), grace_period_seconds=0)

    message = await ended_by(waiting, work())
    assert message == "The server's pod was deleted while it started."


@pytest.mark.promise("A start that fails ends with a sentence for the user.")
async def test_a_pod_that_fails(waiting):
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    pod = waiting.cluster.path("pods", "jupyter-ada", "status")
    message = await ended_by(waiting, waiting.cluster.admin.patch(pod, {"status": status}))
    assert message == "The server's pod has failed: Evicted: The node was low on resource: memory."


def crashing(count: int, reason: str = "CrashLoopBackOff") -> dict[str, Any]:
    last = {"terminated": {"exitCode": 3}}
    return {"name": "c", "restartCount": count, "state": {"waiting": {"reason": reason}}, "lastState": last}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        pytest.param({}, None, id="nothing known"),
        pytest.param({"phase": "Pending", "containerStatuses": [crashing(9, "ImagePullBackOff")]}, None, id="image"),
        pytest.param({"phase": "Running", "containerStatuses": [crashing(2)]}, None, id="it may recover"),
        pytest.param({"containerStatuses": [crashing(3)]}, "Container c of this server ends repeatedly (exit code 3)", id="crash loop"),
        pytest.param({"initContainerStatuses": [crashing(3)]}, "Container c of this server", id="of an init container"),
        pytest.param({"containerStatuses": [{**crashing(3), "lastState": None}]}, "repeatedly. Its", id="no exit code"),
        pytest.param({"containerStatuses": [{"name": "c", "restartCount": 5, "state": {"running": {}}}]}, None, id="runs again"),
        pytest.param({"phase": "Failed"}, "Kubernetes does not say why.", id="failed without a word"),
        pytest.param({"phase": "Succeeded"}, "The server ended by itself while it started, without an error.", id="succeeded"),
    ],
)  # fmt: skip
def test_states_of_a_pod(status, sentence):
    found = terminal_problem({"status": status})
    assert found is None if sentence is None else sentence in (found or "")

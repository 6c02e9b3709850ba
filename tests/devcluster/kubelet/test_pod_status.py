"""The status that the kubelet writes for a pod."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.pod_status import ContainerState, PodPhase, PodState, RestartPolicy

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=90)


def state(*containers: ContainerState, init: tuple[ContainerState, ...] = ()) -> PodState:
    return PodState("127.0.0.1", NOON, containers, init, pod_ip="127.1.2.3")


def running(name: str = "main") -> ContainerState:
    container = ContainerState(name, "image:1")
    container.start(NOON, "id-1")
    return container


def ended(exit_code: int, name: str = "main") -> ContainerState:
    container = running(name)
    container.exit(LATER, exit_code)
    return container


def conditions(pod: PodState) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod.to_json(NOON)["conditions"]}


@pytest.mark.parametrize(
    ("pod", "phase", "ready"),
    [
        pytest.param(state(ContainerState("main", "i")), "Pending", "False", id="waiting"),
        pytest.param(
            state(running(), ContainerState("side", "i")), "Pending", "False", id="one waits for its first start"
        ),
        pytest.param(state(running()), "Running", "True", id="running"),
        pytest.param(state(running(), ended(1, "side")), "Running", "False", id="one has ended"),
    ],
)
def test_phase_and_readiness(pod: PodState, phase: str, ready: str):
    assert pod.phase == phase
    assert conditions(pod)["Ready"] == conditions(pod)["ContainersReady"] == ready


@pytest.mark.parametrize(
    ("exit_codes", "phase", "reason"),
    [
        pytest.param([0, 0], PodPhase.SUCCEEDED, "PodCompleted", id="all well"),
        pytest.param([0, 3], PodPhase.FAILED, "PodFailed", id="one badly"),
    ],
)
def test_final_phase(exit_codes: list[int], phase: PodPhase, reason: str):
    pod = state(*(ended(code, f"c{number}") for number, code in enumerate(exit_codes)))
    assert pod.phase is PodPhase.RUNNING  # until nothing will be started again
    pod.finish()
    assert pod.phase is phase
    ready = next(each for each in pod.to_json(NOON)["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)


def test_a_failed_init_container_fails_the_pod():
    pod = state(ContainerState("main", "i"), init=(ended(1, "init"),))
    assert conditions(pod)["Initialized"] == "False"
    pod.finish()
    assert pod.phase is PodPhase.FAILED


def test_life_of_a_container():
    container = ContainerState("main", "image:1")
    assert container.to_json()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    container.start(NOON, "id-1")
    assert container.to_json()["state"] == {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
    container.exit(LATER, 2)
    terminated = {
        "exitCode": 2,
        "reason": "Error",
        "startedAt": "2026-01-01T12:00:00Z",
        "finishedAt": "2026-01-01T12:01:30Z",
        "containerID": "id-1",
    }
    assert container.to_json()["state"] == {"terminated": terminated}
    container.wait("CrashLoopBackOff", "back-off 10s")
    container.restart()
    status = container.to_json()
    assert status["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert status["lastState"] == {"terminated": terminated}
    assert (status["restartCount"], status["ready"]) == (1, False)
    container.start(LATER, "id-2")
    assert container.to_json()["state"] == {"running": {"startedAt": "2026-01-01T12:01:30Z"}}


def test_conditions_keep_their_time_until_they_change():
    container = ContainerState("main", "i")
    pod = state(container)
    before = pod.to_json(NOON)["conditions"]
    container.start(LATER, "id")
    after = {each["type"]: each for each in pod.to_json(LATER, before)["conditions"]}
    assert after["Initialized"]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    ready: dict[str, Any] = after["Ready"]
    assert ready["lastTransitionTime"] == "2026-01-01T12:01:30Z"
    # A merge patch removes fields of the old condition with null.
    assert (ready["reason"], ready["message"]) == (None, None)


@pytest.mark.parametrize(
    ("policy", "exit_code", "restarts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policy(policy: str, exit_code: int, restarts: bool):
    assert RestartPolicy(policy).restarts_after(exit_code) is restarts

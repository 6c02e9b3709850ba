"""The kubelet's part of a pod's ``status``: pure functions of the states of its containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import timestamp


class PodPhase(StrEnum):
    """``status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class RestartPolicy(StrEnum):
    """``spec.restartPolicy``."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"

    def restarts_after(self, exit_code: int) -> bool:
        return self is RestartPolicy.ALWAYS or (self is RestartPolicy.ON_FAILURE and exit_code != 0)


@dataclass(slots=True)
class ContainerState:
    """State of one container: waiting, running or terminated."""

    name: str
    image: str
    waiting_reason: str = "ContainerCreating"
    waiting_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    container_id: str = ""
    restart_count: int = 0
    last_state: JsonObject = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.started_at is not None and self.exit_code is None and not self.waiting_reason

    @property
    def terminated(self) -> bool:
        return self.exit_code is not None and not self.waiting_reason

    def start(self, now: datetime, container_id: str) -> None:
        self.waiting_reason = self.waiting_message = ""
        self.started_at, self.finished_at, self.exit_code = now, None, None
        self.container_id = container_id

    def exit(self, now: datetime, exit_code: int) -> None:
        self.finished_at, self.exit_code = now, exit_code

    def wait(self, reason: str, message: str = "") -> None:
        """Set the container to waiting."""
        if self.terminated:
            self.last_state = self.state_json()
        self.waiting_reason, self.waiting_message = reason, message

    def restart(self) -> None:
        """Count a restart."""
        if self.terminated:
            self.last_state = self.state_json()
        self.restart_count += 1

    def state_json(self) -> JsonObject:
        """``ContainerState`` of core/v1."""
        if self.waiting_reason:
            waiting = {"reason": self.waiting_reason}
            if self.waiting_message:
                waiting["message"] = self.waiting_message
            return {"waiting": waiting}
        assert self.started_at is not None
        if self.exit_code is None:
            return {"running": {"startedAt": timestamp(self.started_at)}}
        assert self.finished_at is not None
        return {
            "terminated": {
                "exitCode": self.exit_code,
                "reason": "Completed" if self.exit_code == 0 else "Error",
                "startedAt": timestamp(self.started_at),
                "finishedAt": timestamp(self.finished_at),
                "containerID": self.container_id,
            }
        }

    def to_json(self, *, is_init: bool = False) -> JsonObject:
        """``ContainerStatus`` of core/v1."""
        status: JsonObject = {
            "name": self.name,
            "image": self.image,
            "imageID": f"{self.image}@local" if self.started_at else "",
            "ready": self.exit_code == 0 if is_init else self.running,
            "started": self.running,
            "restartCount": self.restart_count,
            "state": self.state_json(),
            "lastState": self.last_state,
        }
        if self.container_id:
            status["containerID"] = self.container_id
        return status


@dataclass(slots=True)
class PodState:
    """State of a pod's containers, and the data of its ``status`` that a kubelet writes."""

    host_ip: str
    start_time: datetime
    containers: Sequence[ContainerState]
    init_containers: Sequence[ContainerState] = ()
    pod_ip: str = ""
    _final_phase: PodPhase | None = None

    @property
    def phase(self) -> PodPhase:
        """Pending until each container has been started once, then Running, and the final phase after `finish`."""
        if self._final_phase is not None:
            return self._final_phase
        started = all(state.started_at is not None for state in self.containers)
        return PodPhase.RUNNING if started else PodPhase.PENDING

    def finish(self) -> None:
        """Set the final phase: Succeeded if every container has ended with exit code 0, else Failed."""
        succeeded = all(state.exit_code == 0 for state in self.containers)
        self._final_phase = PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED

    def to_json(self, now: datetime, previous: Sequence[JsonObject] = ()) -> JsonObject:
        """The parts of ``status`` that a kubelet writes, for a strategic merge patch.

        Parameters
        ----------
        now
            Time of the changed conditions.
        previous
            The pod's present conditions; unchanged conditions keep their time.
        """
        status: JsonObject = {
            "phase": self.phase.value,
            "hostIP": self.host_ip,
            "hostIPs": [{"ip": self.host_ip}],
            "startTime": timestamp(self.start_time),
            "conditions": self._conditions(now, {condition["type"]: condition for condition in previous}),
            "containerStatuses": [state.to_json() for state in self.containers],
        }
        if self.init_containers:
            status["initContainerStatuses"] = [state.to_json(is_init=True) for state in self.init_containers]
        if self.pod_ip:
            status["podIP"] = self.pod_ip
            status["podIPs"] = [{"ip": self.pod_ip}]
        return status

    def _conditions(self, now: datetime, previous: dict[str, JsonObject]) -> list[JsonObject]:
        initialized = all(state.exit_code == 0 or state.running for state in self.init_containers)
        unready = [state.name for state in self.containers if not state.running]
        if self.phase.final:
            reason = "PodCompleted" if self.phase is PodPhase.SUCCEEDED else "PodFailed"
            why = {"reason": reason}
        else:
            why = {
                "reason": "ContainersNotReady",
                "message": f"containers with unready status: [{' '.join(unready)}]",
            }
        ready: JsonObject = {"status": "False", **why} if unready else {"status": "True"}
        not_initialized = {"status": "False", "reason": "ContainersNotInitialized"}
        present: dict[str, JsonObject] = {
            "PodReadyToStartContainers": {"status": "True" if self.pod_ip and not self.phase.final else "False"},
            "Initialized": {"status": "True"} if initialized else not_initialized,
            "ContainersReady": ready,
            "Ready": ready,
        }
        conditions = []
        for condition_type, fields in present.items():
            before = previous.get(condition_type, {})
            changed = before.get("status") != fields["status"]
            time = timestamp(now) if changed else before.get("lastTransitionTime", timestamp(now))
            cleared: JsonObject = dict.fromkeys({"reason", "message"} & before.keys() - fields.keys())
            conditions.append({"type": condition_type, **fields, **cleared, "lastTransitionTime": time})
        return conditions

"""One pod on a development node, from its binding to its removal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.container_runtime import EXIT_CODE_KILLED, ContainerStartFailed, RunningContainer
from dra_spawner.devcluster.kubelet.images import PullFailed
from dra_spawner.devcluster.kubelet.pod_environment import EnvironmentProblem
from dra_spawner.devcluster.kubelet.pod_needs import NeedMissing, PodNeeds, PodServices
from dra_spawner.devcluster.kubelet.pod_status import ContainerState, PodPhase, PodState, RestartPolicy
from dra_spawner.kube.client.api import KubernetesError, PatchType, resource_path

log = logging.getLogger(__name__)

# As in the kubelet: a container that ends repeatedly restarts at once, then after 10 s, 20 s … 5 min; ten minutes
# without an end reset the back-off.
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 300.0
_BACKOFF_RESET_SECONDS = 600.0
# Interval of checks for missing objects (claims, volumes, sources of the environment).
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 2.0
# Maximum interval between tries of a failed request.
_LONGEST_REQUEST_RETRY_SECONDS = 5.0
_DEFAULT_GRACE_SECONDS = 30.0
# Grace period when the kubelet itself ends.
_SHUTDOWN_GRACE_SECONDS = 2.0
_FORCED_GRACE_SECONDS = 1.0


class _PodGone(Exception):
    """Raised if the pod object is gone, or replaced by another of its name."""


class PodWorker:
    """Runs one pod.

    Parameters
    ----------
    pod
        A pod that is bound to a node of this kubelet.
    """

    def __init__(self, pod: JsonObject, services: PodServices) -> None:
        self.pod = pod
        self._services = services
        self._changed = asyncio.Event()
        self._gone = False
        self._running: dict[str, RunningContainer] = {}
        self._published: JsonObject = {}
        self._publishing = asyncio.Lock()
        self._needs = PodNeeds(pod, services)
        spec = pod["spec"]
        self._policy = RestartPolicy(spec.get("restartPolicy", "Always"))
        self.state = PodState(
            host_ip=_host_ip(services.node(spec["nodeName"])),
            start_time=services.clock.now(),
            containers=[ContainerState(each["name"], each.get("image", "")) for each in spec["containers"]],
            init_containers=[
                ContainerState(each["name"], each.get("image", ""), waiting_reason="PodInitializing")
                for each in spec.get("initContainers") or []
            ],
        )

    def update(self, pod: JsonObject) -> None:
        """Handle a change of the pod object."""
        self.pod = pod
        self._changed.set()

    def gone(self) -> None:
        """Handle the removal of the pod object."""
        self._gone = True
        self._changed.set()

    async def run(self) -> None:
        """Run the pod until it is gone; on cancellation, end its containers and leave the object unchanged."""
        lifetime: asyncio.Task[None] | None = None
        try:
            phase = (self.pod.get("status") or {}).get("phase")
            if phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED) and not self._terminating:
                lifetime = asyncio.get_running_loop().create_task(self._live(), name=f"pod {self._name}")
            await self._until_terminating()
            if lifetime is not None:
                await _cancel(lifetime)
            await self._end_containers(self._grace_seconds)
            self._services.prepared.unprepare(self.pod)
            if not self._gone:
                await self._finish_deletion()
        except _PodGone:
            pass
        finally:
            if lifetime is not None:
                await _cancel(lifetime)
            await self._end_containers(lambda: _SHUTDOWN_GRACE_SECONDS)
            self._services.prepared.unprepare(self.pod)
            if self.state.pod_ip:
                self._services.addresses.release(self.state.pod_ip)
            self._services.events.forget(self.pod)
            if self._services.runtime.runs_processes:
                self._services.directories.remove_pod(self.pod)

    async def _live(self) -> None:
        try:
            if await self._start():
                async with asyncio.TaskGroup() as group:
                    for container, state in zip(self.pod["spec"]["containers"], self.state.containers, strict=True):
                        group.create_task(self._run_container(container, state, self._policy))
                await self._end_containers(self._grace_seconds)  # sidecars
            self._services.prepared.unprepare(self.pod)
            self.state.finish()
            await self._publish()
        except* _PodGone:
            self.gone()
        except* Exception:
            log.exception("A pod's worker failed: pod=%s", self._name)

    async def _start(self) -> bool:
        """Prepare the pod and run its init containers; False if one failed for good."""
        services = self._services
        delay = services.start_seconds(self.pod)
        if services.runtime.runs_processes or delay:
            await self._publish()  # shows ContainerCreating meanwhile
        await self._until_available(lambda: self._needs.read(self.pod))
        if delay:
            await services.clock.sleep(delay)
        self.state.pod_ip = services.addresses.acquire()
        for container, state in zip(
            self.pod["spec"].get("initContainers") or [], self.state.init_containers, strict=True
        ):
            if container.get("restartPolicy") == RestartPolicy.ALWAYS:  # a sidecar
                await self._launch(container, state)
                continue
            init_policy = RestartPolicy.NEVER if self._policy is RestartPolicy.NEVER else RestartPolicy.ON_FAILURE
            await self._run_container(container, state, init_policy)
            if state.exit_code:
                return False
        return True

    async def _run_container(self, container: JsonObject, state: ContainerState, policy: RestartPolicy) -> None:
        """Run a container, and restart it by its policy."""
        failures = 0
        while True:
            running = await self._launch(container, state)
            await self._publish()
            exit_code = await running.wait()
            self._running.pop(state.name, None)
            state.exit(self._services.clock.now(), exit_code)
            assert state.started_at is not None
            assert state.finished_at is not None
            if not policy.restarts_after(exit_code):
                await self._publish()
                return
            if (state.finished_at - state.started_at).total_seconds() > _BACKOFF_RESET_SECONDS:
                failures = 0
            if failures:
                await self._back_off(state, failures)
            else:
                await self._publish()
            failures += 1
            state.restart()

    async def _back_off(self, state: ContainerState, failures: int) -> None:
        seconds = min(_FIRST_BACKOFF_SECONDS * 2 ** (failures - 1), _LONGEST_BACKOFF_SECONDS)
        metadata = self.pod["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        state.wait("CrashLoopBackOff", f"back-off {seconds:g}s restarting failed container={state.name} pod={pod}")
        message = f"Back-off restarting failed container {state.name} in pod {pod}"
        self._services.events.warning(self.pod, "BackOff", message, state.name)
        await self._publish()
        await self._services.clock.sleep(seconds)

    async def _launch(self, container: JsonObject, state: ContainerState) -> RunningContainer:
        started: list[RunningContainer] = []

        async def start() -> None:
            try:
                await self._services.pull(self.pod, container)
            except PullFailed as failure:
                self._services.events.warning(self.pod, "Failed", "Error: ErrImagePull", state.name)
                raise NeedMissing(
                    "BackOff", f'Back-off pulling image "{state.image}": {failure}', state.name, "ImagePullBackOff"
                ) from failure
            try:
                launch = self._needs.launch(container, state, self.state)
            except EnvironmentProblem as problem:
                await self._needs.read(self.pod)  # for the next try: a Secret may have come
                raise NeedMissing("Failed", f"Error: {problem}", state.name, "CreateContainerConfigError") from problem
            except ContainerStartFailed as failure:
                raise NeedMissing("Failed", f"Error: {failure}", state.name, "CreateContainerError") from failure
            try:
                started.append(await self._services.runtime.start(launch))
            except ContainerStartFailed as failure:
                raise NeedMissing("Failed", f"Error: {failure}", state.name, "CreateContainerError") from failure

        await self._until_available(start, state)
        running = started[0]
        self._running[state.name] = running
        self._services.events.normal(self.pod, "Created", "Container created", state.name)
        self._services.events.normal(self.pod, "Started", "Container started", state.name)
        state.start(self._services.clock.now(), running.container_id)
        return running

    async def _until_available(self, step: Callable[[], Awaitable[None]], state: ContainerState | None = None) -> None:
        """Repeat `step` until no object is missing, and report missing objects meanwhile."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            try:
                await step()
            except NeedMissing as missing:
                # Objects that are missing only for a moment are not reported.
                if delay > _FIRST_RETRY_SECONDS or missing.container:
                    self._services.events.warning(self.pod, missing.reason, str(missing), missing.container)
                    if state is not None:
                        state.wait(missing.state, str(missing).removeprefix("Error: "))
                    await self._publish()
                await self._services.clock.sleep(delay)
                delay = min(2 * delay, _LONGEST_RETRY_SECONDS)
            else:
                return

    @property
    def _terminating(self) -> bool:
        return self._gone or bool(self.pod["metadata"].get("deletionTimestamp"))

    async def _until_terminating(self) -> None:
        while not self._terminating:
            await self._changed.wait()
            self._changed.clear()

    async def _end_containers(self, grace_seconds: Callable[[], float]) -> None:
        """Send SIGTERM to all containers, and SIGKILL after the grace period, which a later deletion may shorten."""
        if not self._running:
            return
        for name, container in self._running.items():
            self._services.events.normal(self.pod, "Killing", f"Stopping container {name}", name)
            container.terminate()
        ends = asyncio.gather(*(self._end(name, container) for name, container in self._running.items()))
        began = asyncio.get_running_loop().time()
        while not ends.done():
            # Real time, as the processes are real.
            left = began + grace_seconds() - asyncio.get_running_loop().time()
            if left <= 0:
                for container in self._running.values():
                    container.kill()
                break
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            either: list[asyncio.Future[Any]] = [ends, changed]
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        await ends
        self._running.clear()

    def _grace_seconds(self) -> float:
        if self._gone:
            return _FORCED_GRACE_SECONDS
        metadata = self.pod["metadata"]
        return float(metadata.get("deletionGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))

    async def _end(self, name: str, container: RunningContainer) -> None:
        exit_code = await container.wait()
        for state in (*self.state.containers, *self.state.init_containers):
            if state.name == name:
                state.exit(self._services.clock.now(), exit_code)

    async def _finish_deletion(self) -> None:
        """Report the exit codes of the containers, then remove the object."""
        if self._services.runtime.runs_processes and self._published:
            for state in self.state.containers:
                if state.exit_code is None:  # it never ran
                    state.start(self._services.clock.now(), "")
                    state.exit(self._services.clock.now(), EXIT_CODE_KILLED)
            if not self.state.phase.final:
                self.state.finish()
            await self._publish()
        await self._request(
            lambda: self._services.api.delete(
                self._path(), grace_period_seconds=0, uid=self.pod["metadata"]["uid"], missing_ok=True
            )
        )

    @property
    def _name(self) -> str:
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def _path(self, subresource: str | None = None) -> str:
        metadata = self.pod["metadata"]
        return resource_path("v1", "pods", metadata["namespace"], metadata["name"], subresource)

    async def _publish(self) -> None:
        """Write the status, if it has changed."""
        async with self._publishing:
            previous = (self.pod.get("status") or {}).get("conditions") or []
            status = self.state.to_json(self._services.clock.now(), previous)
            if _without_times(status) == _without_times(self._published):
                return
            body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
            await self._request(
                lambda: self._services.api.patch(self._path("status"), body, patch_type=PatchType.STRATEGIC)
            )
            self._published = status

    async def _replaced(self) -> bool:
        """Whether the pod is gone, or replaced by another of its name."""
        try:
            present = await self._services.api.get(self._path())
        except KubernetesError as error:
            return error.not_found
        return bool(present["metadata"]["uid"] != self.pod["metadata"]["uid"])

    async def _request(self, send: Callable[[], Awaitable[JsonObject]]) -> None:
        """Repeat a request until it succeeds or the pod is gone."""
        delay = 0.1
        while True:
            if self._gone:
                raise _PodGone
            try:
                await send()
            except KubernetesError as error:
                if error.not_found or (error.status == 409 and await self._replaced()):
                    raise _PodGone from error
                if not error.retryable and error.status != 409:
                    log.error("A pod's kubelet was refused a request: %s", error)
                    return
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_REQUEST_RETRY_SECONDS)
            else:
                return


def _host_ip(node: JsonObject) -> str:
    for address in (node.get("status") or {}).get("addresses") or []:
        if address["type"] == "InternalIP":
            return str(address["address"])
    return "127.0.0.1"


def _without_times(status: Mapping[str, object]) -> JsonObject:
    conditions = status.get("conditions") or []
    assert isinstance(conditions, list)
    return {
        **status,
        "conditions": [
            {key: value for key, value in condition.items() if key != "lastTransitionTime" and value is not None}
            for condition in conditions
        ],
    }


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

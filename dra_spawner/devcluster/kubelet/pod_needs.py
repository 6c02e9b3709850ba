"""The objects that a pod needs before its containers can start, and the parameters of each container."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import Clock
from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, ContainerRuntime
from dra_spawner.devcluster.kubelet.device_environment import device_environment
from dra_spawner.devcluster.kubelet.pod_addresses import PodAddresses, bind_to
from dra_spawner.devcluster.kubelet.pod_environment import (
    EnvironmentProblem,
    command_line,
    container_environment,
    references,
)
from dra_spawner.devcluster.kubelet.pod_events import EventRecorder
from dra_spawner.devcluster.kubelet.pod_status import ContainerState, PodState
from dra_spawner.devcluster.kubelet.pod_volumes import (
    NodeDirectories,
    VolumeProblem,
    container_mounts,
    prepare_volumes,
    translate,
    volume_references,
    working_directory,
)
from dra_spawner.devcluster.kubelet.prepared_claims import PreparedClaims
from dra_spawner.devcluster.kubelet.process_user import ProcessUser, give_directories, process_user
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path

#: Name of the claim for extended resources in containers, as the pod has no name for it.
EXTENDED_RESOURCES = "extended-resources"
#: Name of a user that has no name on this machine, as in Jupyter's images.
_USER_NAME = "jovyan"


@dataclass(frozen=True, slots=True)
class PodServices:
    """The parts of a kubelet that its pods' workers share.

    Attributes
    ----------
    node
        Returns the present Node object by name.
    pull
        Pulls an image for a container of a pod; see `Kubelet`.
    start_seconds
        Duration of the start of the pod's sandbox.
    refuse_devices
        Returns the driver's message if a pod's devices cannot be prepared; empty if they can.
    prepared
        The claims that are prepared on the kubelet's nodes.
    """

    api: KubernetesApi
    clock: Clock
    runtime: ContainerRuntime
    addresses: PodAddresses
    directories: NodeDirectories
    events: EventRecorder
    node: Callable[[str], JsonObject]
    pull: Callable[[JsonObject, JsonObject], Awaitable[None]]
    start_seconds: Callable[[JsonObject], float]
    refuse_devices: Callable[[JsonObject], str]
    prepared: PreparedClaims


class NeedMissing(Exception):
    """Raised if an object that the pod needs does not exist yet.

    Attributes
    ----------
    reason
        Reason of the pod's event.
    container
        Container that needs the object; empty if the whole pod needs it.
    state
        Reason of the container's waiting state.
    """

    def __init__(self, reason: str, message: str, container: str = "", state: str = "ContainerCreating") -> None:
        super().__init__(message)
        self.reason, self.container, self.state = reason, container, state


class PodNeeds:
    """Claims, volumes and sources of the environment of one pod."""

    def __init__(self, pod: JsonObject, services: PodServices) -> None:
        self._pod = pod
        self._services = services
        self._claims: dict[str, JsonObject] = {}
        self._uses: dict[str, list[JsonObject]] = {}
        self._volumes: dict[str, Path] = {}
        self._sources: dict[tuple[str, str], JsonObject] = {}

    async def read(self, pod: JsonObject) -> None:
        """Read the objects that the pod's spec refers to.

        Raises
        ------
        NeedMissing
            If an object does not exist.
        """
        self._pod = pod
        self._claims = {
            entry["name"]: claim
            for entry in self._pod["spec"].get("resourceClaims") or []
            if (claim := await self._claim(entry)) is not None
        }
        await self._read_extended_resources()
        if self._claims and (why := self._services.refuse_devices(pod)):
            raise _unprepared(why)
        for claim in self._claims.values():
            self._services.prepared.prepare(pod, claim)
        if not self._services.runtime.runs_processes:
            return
        containers = [*(self._pod["spec"].get("initContainers") or []), *self._pod["spec"]["containers"]]
        for resource, name in sorted(references(containers) | volume_references(self._pod)):
            path = resource_path("v1", resource, self._pod["metadata"]["namespace"], name)
            try:
                self._sources[resource, name] = await self._services.api.get(path)
            except KubernetesError as error:
                if not error.not_found:
                    raise NeedMissing("FailedMount", str(error)) from error
        try:
            self._volumes = prepare_volumes(self._pod, self._services.directories, self._sources)
        except VolumeProblem as problem:
            raise NeedMissing("FailedMount", str(problem)) from problem

    async def _read_extended_resources(self) -> None:
        """Read the scheduler's claim for extended resources, and the devices of each container."""
        self._uses = {}
        status = (self._pod.get("status") or {}).get("extendedResourceClaimStatus")
        if not status:
            return
        name = EXTENDED_RESOURCES if EXTENDED_RESOURCES not in self._claims else status["resourceClaimName"]
        claim = await self._claim({"name": name, "resourceClaimName": status["resourceClaimName"]})
        if claim is not None:
            self._claims[name] = claim
            for mapping in status["requestMappings"]:
                use = {"name": name, "request": mapping["requestName"]}
                self._uses.setdefault(mapping["containerName"], []).append(use)

    async def _claim(self, entry: JsonObject) -> JsonObject | None:
        """The claim of an entry of ``spec.resourceClaims``; None if the entry needs none.

        Raises
        ------
        NeedMissing
            If the claim does not exist, or this pod may not use it yet.
        """
        name = entry.get("resourceClaimName")
        if name is None:
            statuses = (self._pod.get("status") or {}).get("resourceClaimStatuses") or []
            generated = [status for status in statuses if status["name"] == entry["name"]]
            if not generated:
                raise _unprepared(f'ResourceClaim for "{entry["name"]}" not created yet')
            name = generated[0].get("resourceClaimName")
            if name is None:
                return None
        metadata = self._pod["metadata"]
        try:
            claim = await self._services.api.get(
                resource_path(names.RESOURCE_API, "resourceclaims", metadata["namespace"], name)
            )
        except KubernetesError as error:
            raise _unprepared(f"fetch ResourceClaim {name}: {error.message}") from error
        status = claim.get("status") or {}
        reserved = any(consumer["uid"] == metadata["uid"] for consumer in status.get("reservedFor") or [])
        if not reserved:
            raise _unprepared(
                f"pod {metadata['name']} ({metadata['uid']}) is not allowed to use ResourceClaim "
                f"{name} ({claim['metadata']['uid']})"
            )
        if not status.get("allocation"):
            raise _unprepared(f"ResourceClaim {name}: not allocated")
        return claim

    def launch(self, container: JsonObject, state: ContainerState, pod_state: PodState) -> ContainerLaunch:
        """The runtime's parameters for a container.

        Raises
        ------
        EnvironmentProblem
            If a variable or a mount cannot be provided.
        ContainerStartFailed
            If a driver refuses the container.
        """
        pod, directories = self._pod, self._services.directories
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        launch_log = directories.log(pod, state.name, state.restart_count)
        claims = {
            entry: self._services.prepared.for_container(pod, container, entry, claim)
            for entry, claim in self._claims.items()
        }
        if not self._services.runtime.runs_processes:
            return ContainerLaunch(name, state.name, state.image, (), {}, Path(), launch_log)
        seen = {**pod, "status": {**(pod.get("status") or {}), **pod_state.to_json(self._services.clock.now())}}
        node = self._services.node(pod["spec"]["nodeName"])
        environment = container_environment(container, seen, node, self._sources)
        private = directories.container(pod, state.name)
        temporary = directories.temporary(pod, state.name)
        private.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(parents=True, exist_ok=True)
        try:
            mounts = container_mounts(container, self._volumes, environment, pod)
        except VolumeProblem as problem:
            raise EnvironmentProblem(str(problem)) from problem

        def local(text: str) -> str:
            return bind_to(pod_state.pod_ip, translate(text, mounts))

        directory = working_directory(container, mounts, private)
        command = [local(word) for word in command_line(container, (), environment)]
        user = self._give_directories(container, [private, temporary])
        environment = {
            **_machine_environment(),
            **({"USER": _USER_NAME, "LOGNAME": _USER_NAME} if user else {}),
            "HOME": str(directory),
            "TMPDIR": str(temporary),
            "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
            **{name: local(value) for name, value in environment.items()},
            **device_environment(container, claims, self._uses.get(container["name"], ())),
        }
        return ContainerLaunch(name, state.name, state.image, command, environment, directory, launch_log, user)

    def _give_directories(self, container: JsonObject, own: list[Path]) -> ProcessUser | None:
        """Give the directories of a container, and of its writable volumes, to its user."""
        pod, directories = self._pod, self._services.directories
        user = process_user(pod, container)
        if user is not None:
            mounted = {mount["name"] for mount in container.get("volumeMounts") or []}
            writable = [
                self._volumes[volume["name"]]
                for volume in pod["spec"].get("volumes") or []
                if volume["name"] in mounted and ("emptyDir" in volume or "persistentVolumeClaim" in volume)
            ]
            containers = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
            is_only_user = all(process_user(pod, each) == user for each in containers)
            give_directories(user, directories.root, directories.pod(pod), [*own, *writable], is_only_user=is_only_user)
        return user


def _unprepared(why: str) -> NeedMissing:
    return NeedMissing(
        "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: prepare dynamic resources: {why}"
    )


def _machine_environment() -> dict[str, str]:
    """Variables of this machine that programs need: PATH with this Python first, the locale and the shell."""
    path = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "LANG": os.environ.get("LANG") or os.environ.get("LC_ALL") or "C.UTF-8",
        "SHELL": os.environ.get("SHELL", "/bin/sh"),
    }

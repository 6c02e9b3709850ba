"""Servers with devices as the cluster shows them, and the use of each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dra_spawner import names
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.fairness.idle.samples import DeviceUse
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.targets.choice_names import profile_of
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.idle.metric_reader import FoundMetrics
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.usage.held_devices import held_claims, held_devices


@dataclass(frozen=True, slots=True)
class ServerWithDevices:
    """A running server with devices.

    Attributes
    ----------
    version
        ``resourceVersion`` of its pod.
    devices
        Its devices, with whether other claims have a part of the same device.
    held
        Whole devices that it holds, weighed as utilization weighs them; None if that is not known.
    """

    pod: ObjectKey
    uid: str
    version: str
    user: str
    server: str
    choice: str
    node: str
    devices: tuple[tuple[DeviceId, bool], ...]
    held: float | None
    notice: Notice

    @property
    def profile(self) -> str:
        """Slug of its profile."""
        return profile_of(self.choice)


def servers_with_devices(controller: ScaleAheadController) -> Iterator[ServerWithDevices]:
    """Users' servers that run and hold devices."""
    watch = controller.watch
    claims_of = Counter(
        each.id
        for tracked in watch.snapshot.claims.values()
        for each in tracked.claim.status.devices or ()
        if not each.admin_access
    )
    for key, pod in watch.snapshot.pods.items():
        if not held_claims(pod) or not pod.is_running or pod.is_deleted or not controller.launch_waits.is_server(pod):
            continue
        observed = watch.observed(Kind.POD, key)
        devices = tuple(_devices_of(watch, pod, claims_of))
        if observed is None or observed.uid != pod.uid or not devices:
            continue
        held = held_devices(watch.snapshot, pod)
        shape = pod.labels.get(names.SHAPE, "")
        yield ServerWithDevices(
            key,
            pod.uid,
            observed.resource_version,
            observed.annotations.get(names.USERNAME, "") or pod.labels.get(names.USERNAME, ""),
            observed.annotations.get(names.SERVERNAME, ""),
            controller.name_of(shape) or pod.labels.get(names.PROFILE, ""),
            pod.node_name,
            devices,
            sum(held.values()) if held is not None else None,
            Notice.read(observed.annotations.get(names.IDLE_NOTICE, "")),
        )


def uses_of(server: ServerWithDevices, found: FoundMetrics) -> Iterator[DeviceUse]:
    """The use of each device of a server for which there is a query."""
    for device, is_shared in server.devices:
        values = found.of_driver(device.driver)
        if values is not None:
            alike = {each for each, _ in server.devices if each.driver == device.driver}
            percent, is_own = values.of(
                server.pod.namespace, server.pod.name, device, is_shared=is_shared, devices=len(alike)
            )
            yield DeviceUse(device.device, percent, is_own, values.query.used_above)


def _devices_of(watch: ClusterWatch, pod: Pod, claims_of: Counter[DeviceId]) -> Iterator[tuple[DeviceId, bool]]:
    for key in held_claims(pod):
        tracked = watch.snapshot.claims.get(key)
        if tracked is None:
            continue
        others = any(
            each.uid != pod.uid and _is_server(watch, tracked.claim.namespace, each.name) for each in tracked.consumers
        )
        for each in tracked.claim.status.devices or ():
            if not each.admin_access:
                yield each.id, others or claims_of[each.id] > 1


def _is_server(watch: ClusterWatch, namespace: str, name: str) -> bool:
    """Whether a consumer is another server: a placeholder stays a moment beside the server that has taken its claim."""
    pod = watch.snapshot.pods.get(ObjectKey(namespace, name))
    return pod is None or pod.labels.get(names.COMPONENT) != names.PLACEHOLDER

"""Reports of nodes that devices of this hub's pods do not work, from the watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.targets.sick_devices import SickDevice, sick_devices
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod


class HealthReports:
    """The devices that are reported as broken.

    A placeholder with a broken device is replaced at once, and its report goes with it. So reports are noted when they
    come, and kept until they were looked at.

    Parameters
    ----------
    limit
        The most devices that the service drains by itself; with 0 nothing is noted.
    """

    def __init__(self, watch: ClusterWatch, limit: int, namespaces: Callable[[], Namespaces]) -> None:
        self.limit = limit
        self._watch = watch
        self._namespaces = namespaces
        self._noted: dict[DeviceId, SickDevice] = {}

    def follow(self, on_report: Callable[[], None]) -> Callable[[], None]:
        """Note reports from now on; the result is a function that ends it."""
        if not self.limit:
            return lambda: None

        def note(change: Change) -> None:
            pod = self._watch.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
            if pod is not None and pod.unhealthy_devices and self._is_own(pod):
                self._noted |= sick_devices((pod,), self._watch.snapshot.claims)
                on_report()

        return self._watch.on_change(note)

    def present(self) -> dict[DeviceId, SickDevice]:
        """The devices that were noted, or that a present pod has."""
        if not self.limit:
            return {}
        return {**self._noted, **sick_devices(self._own_pods(), self._watch.snapshot.claims)}

    def forget(self, seen: Mapping[DeviceId, SickDevice]) -> None:
        """Forget reports that were looked at; others may have come meanwhile."""
        self._noted = {device: each for device, each in self._noted.items() if seen.get(device) != each}

    def _own_pods(self) -> Iterator[Pod]:
        return (pod for pod in self._watch.snapshot.pods.values() if pod.unhealthy_devices and self._is_own(pod))

    def _is_own(self, pod: Pod) -> bool:
        namespaces = self._namespaces()
        return namespaces.servers is None or pod.namespace in namespaces.servers | (
            namespaces.placeholders or frozenset()
        )

"""Queries that tell the use of devices, and the answers of Prometheus to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from dra_spawner.dra.model.devices import DeviceId

KeyT = TypeVar("KeyT")

#: Series that are read of one answer; more are refused, as none may be left out.
_MAX_SERIES: Final = 100_000


class TellsApart(StrEnum):
    """Whose use a series with the labels of a pod is."""

    #: That of the pod alone, also where several share a device.
    POD = "pod"
    #: That of the whole device; where several servers share it, the series is of all of them.
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A query of Prometheus whose series tell the use of devices.

    A series belongs to a server by the labels ``namespace`` and ``pod``, or to a device by ``driver``, ``pool`` and
    ``device``. ``exported_namespace`` and ``exported_pod`` come first: a scrape that keeps its own labels writes these.
    ``UUID`` and ``GPU_I_ID`` tell that a series is of one GPU, or of one of its MIG instances.

    Attributes
    ----------
    drivers
        Drivers of whose devices it tells; empty for all.
    used_above
        Value above which a device counts as used.
    apart
        Whose use a series is.
    """

    query: str
    drivers: tuple[str, ...] = ()
    used_above: float = 1.0
    apart: TellsApart = TellsApart.DEVICE

    def tells_of(self, driver: str) -> bool:
        """Whether it tells of a driver's devices."""
        return not self.drivers or driver in self.drivers


#: The largest value of some minutes, so that a short use between two scrapes counts. With MIG the exporter has a series
#: for each instance, and names the pod of each. The use of the whole GPU is missing there, or always 0
#: (NVIDIA/dcgm-exporter#216), so it counts for whole GPUs only. Of these the larger metric counts: `or` would leave out
#: the second one where both have the same labels.
_DCGM: Final = (
    "max by (namespace, pod, exported_namespace, exported_pod, pod_namespace, pod_name, UUID, GPU_I_ID, "
    "dra_driver_name, dra_pool_name, dra_device_name) ("
    'label_replace(max_over_time(DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""}[3m]), "of", "gpu", "", "") or '
    'label_replace(max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[3m]) * 100, "of", "engine", "", ""))'
)
#: Devices of the example driver do not compute: what runs on them is the processor's work.
_EXAMPLE: Final = (
    "sum by (namespace, pod, exported_namespace, exported_pod) ("
    'rate(container_cpu_usage_seconds_total{container!="", container!="POD"}[3m])) * 100'
)

PRESETS: Final[Mapping[str, MetricQuery]] = {
    "dcgm": MetricQuery(_DCGM, ("gpu.nvidia.com",)),
    "example": MetricQuery(_EXAMPLE, ("gpu.example.com",), used_above=5.0, apart=TellsApart.POD),
}
"""Queries for NVIDIA's exporter (percent of the GPU), and for the Kubernetes example driver (percent of a core)."""


class InvalidMetrics(ValueError):
    """Raised for an answer that is no instant vector; the message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class MetricValues:
    """The answer to one query: where several series are of one pod or device, the largest value."""

    query: MetricQuery
    of_pods: Mapping[tuple[str, str], float] = field(default_factory=dict)
    of_devices: Mapping[DeviceId, float] = field(default_factory=dict)
    of_devices_of_pods: Mapping[tuple[str, str, DeviceId], float] = field(default_factory=dict)
    hardware_of_pods: Mapping[tuple[str, str], frozenset[tuple[str, str]]] = field(default_factory=dict)
    """UUID and instance of the GPUs of which series are, where these tell it."""

    def of(
        self, namespace: str, pod: str, device: DeviceId, *, is_shared: bool, devices: int = 1
    ) -> tuple[float | None, bool]:
        """Use of a server's device, and whether it is the server's own.

        Parameters
        ----------
        is_shared
            Whether other claims have a part of the same device.
        devices
            Number of different devices of this driver that the server has.
        """
        # A series of the device is of all shares; one of the pod is the pod's own, if the query says so.
        found = self.of_devices_of_pods.get((namespace, pod, device))
        if found is None:
            found = self._of_pod((namespace, pod), devices)
        is_own = not is_shared or (found is not None and self.query.apart is TellsApart.POD)
        if found is not None and self.query.apart is TellsApart.POD:
            return (None if math.isnan(found) else found), is_own
        # Of several values of one device, only the largest one proves that nothing uses it.
        every = [each for each in (found, self.of_devices.get(device)) if each is not None]
        found = math.nan if any(map(math.isnan, every)) else max(every, default=math.nan)
        return (None if math.isnan(found) else found), is_own

    def _of_pod(self, pod: tuple[str, str], devices: int) -> float | None:
        """The largest value of a pod's series; not known where series of some of its devices are missing."""
        found, hardware = self.of_pods.get(pod), self.hardware_of_pods.get(pod)
        if found is None or hardware is None or len(hardware) >= devices or found > self.query.used_above:
            return found
        return math.nan


def read_metrics(query: MetricQuery, answer: object) -> MetricValues:
    """The values of an answer of ``/api/v1/query``.

    Raises
    ------
    InvalidMetrics
    """
    data = answer.get("data") if isinstance(answer, Mapping) else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or data.get("resultType") != "vector" or not isinstance(result, list):
        raise InvalidMetrics("the answer is no instant vector")
    if len(result) > _MAX_SERIES:
        raise InvalidMetrics(f"the answer has more than {_MAX_SERIES:,} series")
    pods: dict[tuple[str, str], float] = {}
    devices: dict[DeviceId, float] = {}
    both: dict[tuple[str, str, DeviceId], float] = {}
    hardware: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for each in result:
        labels = each.get("metric") if isinstance(each, Mapping) else None
        if not isinstance(each, Mapping) or not isinstance(labels, Mapping):
            raise InvalidMetrics("a series has no labels")
        value = _value(each.get("value"))
        pod = (
            _label(labels, "exported_namespace", "pod_namespace", "namespace"),
            _label(labels, "exported_pod", "pod_name", "pod"),
        )
        device = DeviceId(
            _label(labels, "dra_driver_name", "driver"),
            _label(labels, "dra_pool_name", "pool"),
            _label(labels, "dra_device_name", "device"),
        )
        if all(pod) and all(device):
            _keep_largest(both, (*pod, device), value)
        elif all(pod):
            _keep_largest(pods, pod, value)
            if uuid := _label(labels, "UUID"):
                hardware.setdefault(pod, set()).add((uuid, _label(labels, "GPU_I_ID")))
        if all(device):
            _keep_largest(devices, device, value)
    return MetricValues(query, pods, devices, both, {key: frozenset(each) for key, each in hardware.items()})


def drivers_without_values(queries: Iterable[MetricValues]) -> tuple[str, ...]:
    """Drivers of whose devices no series tells anything, in order: their exporter may be down."""
    return tuple(
        sorted(
            driver
            for each in queries
            if not (each.of_pods or each.of_devices)
            for driver in each.query.drivers or ("all",)
        )
    )


def _keep_largest(values: dict[KeyT, float], key: KeyT, value: float) -> None:
    """A value that is no number stays: what is not known must not be taken for unused."""
    before = values.get(key, value)
    values[key] = math.nan if math.isnan(before) or math.isnan(value) else max(before, value)


def _value(sample: object) -> float:
    """The value of a sample; NaN where it is no number from 0 on."""
    text = sample[1] if isinstance(sample, list) and len(sample) == 2 else None
    try:
        value = float(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if value is None:
        raise InvalidMetrics("a sample is no pair of a time and a number")
    return value if math.isfinite(value) and value >= 0 else math.nan


def _label(labels: Mapping[str, object], *names: str) -> str:
    """The first of these labels that is a text."""
    return next((found for each in names if isinstance(found := labels.get(each), str) and found), "")

"""Idle time of devices: counted by the leader alone, so that sums over replicas count it once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.service.node_figures import ClassFigures

__all__ = ["IdleDevices"]


class IdleDevices(Collector):
    """Sums up the idle time of the devices of each class.

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._idle: Mapping[str, int] = {}
        self._at: float | None = None

    def note(self, figures: Mapping[tuple[str, str], ClassFigures], *, counts: bool) -> None:
        """Take in the present number of idle devices; between two calls, the mean of both counts.

        Parameters
        ----------
        figures
            By class and node pool.
        counts
            Whether to count the time since the last call.
        """
        now, idle = self._clock(), Counter[str]()
        for (device_class, _), found in figures.items():
            idle[device_class] += found.devices - found.used_devices
        if self._at is not None and counts:
            for device_class in {*idle, *self._idle}:
                mean = (idle[device_class] + self._idle.get(device_class, 0)) / 2
                self._seconds[device_class] += mean * (now - self._at)
        self._idle, self._at = idle, now

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "dra_spawner_idle_device_seconds",
            "Device-seconds in which devices of a class were idle",
            labels=["class"],
        )
        for device_class in sorted({*self._idle, *self._seconds}):
            family.add_metric([device_class], self._seconds[device_class])
        yield family

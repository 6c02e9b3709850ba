"""Idle time of devices. Only the leader counts it, so that sums over replicas count it once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.service.figures.node_figures import ClassFigures


class IdleDevices(Collector):
    """Sums up the idle time of the devices of each class.

    Parameters
    ----------
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._idle: Mapping[str, int] = {}
        self._at: float | None = None

    def note(self, figures: Mapping[tuple[str, str], ClassFigures], *, counts: bool) -> None:
        """Add the idle time since the last call: the mean of both numbers of idle devices, times the seconds.

        Parameters
        ----------
        figures
            Figures by class and node pool.
        counts
            Whether to count the time since the last call.
        """
        now, idle = self._clock(), Counter[str]()
        for (device_class, _), found in figures.items():
            idle[device_class] += found.idle_devices
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

"""For how long devices were in nobody's use: counted by the leader alone, so that sums over replicas count once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.service.node_figures import ClassFigures

__all__ = ["IdleDevices"]


class IdleDevices(Collector):
    """Sums up for how long devices of each class were in nobody's use.

    Parameters
    ----------
    clock
        Seconds that only go forward.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._idle: Mapping[str, int] = {}
        self._at: float | None = None

    def note(self, figures: Mapping[tuple[str, str], ClassFigures], *, counts: bool) -> None:
        """Take in how many there are now; between two times it was on average as many as the mean of both.

        Parameters
        ----------
        figures
            By class and kind of node.
        counts
            Whether the time since the last call is to be counted here.
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
            "Device-seconds in which nobody used a device of a class",
            labels=["class"],
        )
        for device_class in sorted({*self._idle, *self._seconds}):
            family.add_metric([device_class], self._seconds[device_class])
        yield family

"""Metrics about time, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from dra_spawner.service.figures.idle_devices import IdleDevices
from dra_spawner.service.figures.node_figures import ClassFigures


class Meter:
    """The sums, with a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.idle = IdleDevices(clock=lambda: self.now)
        self.registry = CollectorRegistry()
        self.registry.register(self.idle)

    def note(self, seconds: float, *, counts: bool = True, **devices: tuple[int, int]) -> None:
        self.now += seconds
        figures = {(name, f"pool-{index}"): ClassFigures(*found) for index, (name, found) in enumerate(devices.items())}
        self.idle.note(figures, counts=counts)

    def value(self, device_class: str) -> float | None:
        return self.registry.get_sample_value("dra_spawner_idle_device_seconds_total", {"class": device_class})


def test_idle_devices_are_summed_up_over_time() -> None:
    meter = Meter()
    assert meter.value("gpu") is None
    meter.note(50, gpu=(8, 8))
    assert meter.value("gpu") == 0
    meter.note(10, gpu=(8, 4))
    assert meter.value("gpu") == 20, "four became idle at some time within ten seconds"
    meter.note(10, gpu=(8, 4), nic=(2, 0))
    assert (meter.value("gpu"), meter.value("nic")) == (60, 10)
    meter.note(10)
    assert (meter.value("gpu"), meter.value("nic")) == (80, 20), "their nodes went away"
    meter.note(1000)
    assert meter.value("gpu") == 80


def test_a_class_on_several_kinds_of_nodes_is_one() -> None:
    meter = Meter()
    figures = {("gpu", "a"): ClassFigures(2, 1), ("gpu", "b"): ClassFigures(3, 0)}
    meter.idle.note(figures, counts=True)
    meter.now += 2
    meter.idle.note(figures, counts=True)
    assert meter.value("gpu") == 8


def test_a_replica_that_does_not_lead_counts_nothing() -> None:
    meter = Meter()
    meter.note(0, gpu=(1, 0))
    meter.note(100, counts=False, gpu=(1, 0))
    assert meter.value("gpu") == 0
    meter.note(5, gpu=(1, 0))
    assert meter.value("gpu") == 5

"""Prometheus metrics about idle servers: by the leader alone, so that sums count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.fairness.idle.verdicts import Verdict
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.service.idle.idle_servers import IdleServers

__all__ = ["register_idle_servers"]


def register_idle_servers(registry: CollectorRegistry, idle: IdleServers) -> None:
    """Register what is idle, and what was done; nothing where idle servers are not looked for."""
    if idle.settings.is_on:
        registry.register(_Collector(idle))


class _Collector(Collector):
    def __init__(self, idle: IdleServers) -> None:
        self._idle = idle

    def collect(self) -> Iterator[Metric]:
        servers = GaugeMetricFamily(
            "dra_spawner_servers_with_devices", "Servers with devices, by what is known of their use", labels=["use"]
        )
        found = Counter(each.judgement.verdict for each in self._idle.seen.values())
        for verdict in Verdict:
            servers.add_metric([verdict.value], found[verdict])
        seconds = CounterMetricFamily(
            "dra_spawner_held_idle_device_seconds",
            "Device-seconds that idle servers held, a share by its part of the device",
            labels=["profile"],
        )
        for profile, number in sorted(self._idle.idle_device_seconds.items()):
            seconds.add_metric([profile], number)
        actions = CounterMetricFamily("dra_spawner_idle_actions", "Actions about idle servers", labels=["action"])
        for action in IdleAction:
            actions.add_metric([action.value], self._idle.counts[action])
        yield from (servers, seconds, actions)

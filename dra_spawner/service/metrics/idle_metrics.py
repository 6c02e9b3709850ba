"""Prometheus metrics about idle servers: by the leader alone, so that sums count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dra_spawner.fairness.idle.verdicts import Verdict
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.service.idle.idle_servers import IdleServers
from dra_spawner.service.metrics.families import counter, gauge, register_families


def register_idle_servers(registry: CollectorRegistry, idle: IdleServers) -> None:
    """Register what is idle, and what was done; nothing where idle servers are not looked for."""

    def collect() -> Iterator[Metric]:
        found = Counter(each.judgement.verdict for each in idle.seen.values())
        servers = {verdict.value: found[verdict] for verdict in Verdict}
        yield gauge("servers_with_devices", "Servers with devices, by what is known of their use", servers, "use")
        text = "Device-seconds that idle servers held, a share by its part of the device"
        yield counter("held_idle_device_seconds", text, dict(sorted(idle.idle_device_seconds.items())), "profile")
        actions = {action.value: idle.counts[action] for action in IdleAction}
        yield counter("idle_actions", "Actions about idle servers", actions, "action")

    if idle.settings.is_on:
        register_families(registry, collect)

"""Prometheus metrics of nodes' lead times and servers' waits. Only the leader has them, so that sums count once."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

from dra_spawner import names
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer
from dra_spawner.placeholders.controller.records.node_lead_times import ReachedPhase
from dra_spawner.placeholders.planner.targets.choice_names import is_combination, profile_of
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController

__all__ = ["register_times"]

_PREFIX = "dra_spawner_"
_LEAD_BUCKETS = (10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 3600)
#: Small steps for warm placeholders, large ones for new nodes.
_WAIT_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 450, 600, 900)


def register_times(registry: CollectorRegistry, controller: ScaleAheadController) -> None:
    """Register the lead times of nodes and the waits of servers."""
    lead = Histogram(
        f"{_PREFIX}node_lead_time_seconds",
        "Seconds from the creation of a node until it is ready, has the devices of its kind (slices), is open (images)",
        ["pool", "phase"],
        buckets=_LEAD_BUCKETS,
        registry=registry,
    )
    wait = Histogram(
        f"{_PREFIX}launch_wait_seconds",
        "Seconds from a server's pod to its node: warm placeholder (hit), new node (node_wait), otherwise (miss)",
        ["profile", "outcome"],
        buckets=_WAIT_BUCKETS,
        registry=registry,
    )

    def note_lead(reached: ReachedPhase) -> None:
        if controller.leads:
            lead.labels(reached.bounded_kind, reached.phase.value).observe(reached.seconds)

    def note_wait(bound: BoundServer) -> None:
        if controller.leads:
            profile = _profile(controller, bound.pod.labels.get(names.SHAPE, ""))
            wait.labels(profile, bound.outcome.value).observe(bound.seconds)

    controller.node_lead_times.on_reached(note_lead)
    controller.launch_waits.on_launch(note_wait)


def _profile(controller: ScaleAheadController, shape: str) -> str:
    """The label ``profile`` of a shape. A combination of options counts for its profile, as there may be too many."""
    name = controller.name_of(shape)
    if not name:
        return "other"
    return profile_of(name) if is_combination(name) and name not in controller.replicas else name

"""Prometheus metrics of placeholders and handovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.answers.availability import PlaceholderCounts, count_placeholders
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.cluster.view import View, age, reservation_of
from dra_spawner.placeholders.planner.targets.choice_names import is_combination
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.metrics.families import PREFIX, counter, gauge, register_families

_BUCKETS = (0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 30, 60)
_CLAIM_STATES = ("free", "reserved", "in_use", "unallocated")


def register_placeholders(registry: CollectorRegistry, controller: ScaleAheadController) -> None:
    """Register the metrics of placeholders."""
    histogram = Histogram(
        f"{PREFIX}handover_seconds",
        "Seconds from the reservation of a warm claim until the server's pod is on its node",
        buckets=_BUCKETS,
        registry=registry,
    )
    controller.handover_times.on_bound(histogram.observe)
    register_families(registry, lambda: _families(controller))


def _families(controller: ScaleAheadController) -> Iterator[Metric]:
    view, latest = controller.view(), controller.latest
    # Until everything was read it is not known that there are none.
    is_read = controller.watch.synced
    if is_read:
        yield from _by_choice(controller, count_placeholders(view))
        text = "Seconds since the pod of the oldest server without a node was created; 0 without one"
        longest = max((age(each.created, view.now).total_seconds() for each in view.pending_users), default=0.0)
        yield gauge("longest_pending_server_seconds", text, longest)
    text = "Servers without a node for more than 60 % of the hub's start_timeout"
    yield counter("slow_servers", text, controller.launch_waits.slow)
    targets = {(name, "configured"): each.min for name, each in sorted(controller.settings.replicas.items())}
    targets |= {(name, "forecast"): each.target for name, each in sorted(controller.scale_ahead.forecasts.items())}
    yield gauge("placeholders_target", "Target of placeholders, by choice", targets, "profile", "source")
    if is_read:
        claims = _claims(view)
        text = "Warm claims by state"
        yield gauge("placeholder_claims", text, {each: claims[each] for each in _CLAIM_STATES}, "state")
    counts = controller.counts
    placements = {each.value: counts.placements[each] for each in AvailabilityState}
    yield counter("placements", "Placements by state", placements, "state")
    yield counter("evictions", "Placeholders that ended", {each.value: counts.ended[each] for each in Cause}, "reason")
    denials = {each.value: counts.denials[each] for each in Hold}
    yield counter("evictions_held", "Denied evictions of placeholders", denials, "rule")
    text = "1 while the leader's decisions are on hold; 0 on other replicas"
    yield gauge("on_hold", text, latest is not None and bool(latest.on_hold))


def _by_choice(controller: ScaleAheadController, counts: dict[str, PlaceholderCounts]) -> Iterator[Metric]:
    placeholders: Counter[tuple[str, str]] = Counter()
    servers: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    # Every published shape has a series, also without objects; combinations of options would be too many. Other shapes
    # with objects share one name.
    named = {
        shape
        for shape in controller.policy.shapes
        if (name := controller.name_of(shape)) in controller.replicas or not is_combination(name)
    }
    for shape in sorted({*named, *counts}):
        found, name = counts.get(shape, PlaceholderCounts()), controller.name_of(shape) or "other"
        servers[name] += found.used
        pending[name] += found.pending
        for state in PlaceholderState:
            placeholders[name, state.value] += found.placeholders[state]
    yield gauge("placeholders", "Placeholders by choice and state", placeholders, "profile", "state")
    yield gauge("servers", "Users' servers with a node, by choice", servers, "profile")
    yield gauge("pending_servers", "Users' servers without a node", pending, "profile")


def _claims(view: View) -> Counter[str]:
    """Numbers of warm claims by state."""
    numbers: Counter[str] = Counter()
    with_placeholder = {key for placeholder in view.placeholders.values() for key in placeholder.claims}
    for tracked in view.warm_claims:
        if tracked.key not in with_placeholder:
            numbers["in_use"] += 1
        elif reservation_of(tracked) is not None:
            numbers["reserved"] += 1
        else:
            numbers["free" if tracked.claim.is_allocated else "unallocated"] += 1
    return numbers

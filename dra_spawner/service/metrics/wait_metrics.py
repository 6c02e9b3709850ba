"""Prometheus metrics of waits: of servers, of users in the queue, of nodes, and of estimates.

Only the leader has them, so that sums count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric

from dra_spawner import names
from dra_spawner.placeholders.controller.answers.wait_calibration import EstimateOutcome, WaitCalibration
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer
from dra_spawner.placeholders.controller.records.node_lead_times import ReachedPhase
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.targets.choice_names import is_combination, profile_of
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.metrics.families import PREFIX, counter, gauge, register_families
from dra_spawner.service.tickets.followed_tickets import FollowedTickets

_LEAD_BUCKETS = (10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 3600)
#: Small steps for warm placeholders, large ones for new nodes.
_WAIT_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 450, 600, 900)
_TICKET_BUCKETS = (60, 300, 600, 1800, 3600, 7200, 14400, 28800, 57600, 86400)


def register_times(registry: CollectorRegistry, controller: ScaleAheadController) -> None:
    """Register the lead times of nodes and the waits of servers."""
    lead = Histogram(
        f"{PREFIX}node_lead_time_seconds",
        "Seconds from the creation of a node until it is ready, has the devices of its kind (slices), is open (images)",
        ["pool", "phase"],
        buckets=_LEAD_BUCKETS,
        registry=registry,
    )
    wait = Histogram(
        f"{PREFIX}launch_wait_seconds",
        "Seconds from a server's pod to its node: warm placeholder (hit), new node (node_wait), otherwise (miss)",
        ["profile", "outcome"],
        buckets=_WAIT_BUCKETS,
        registry=registry,
    )

    def note_lead(reached: ReachedPhase) -> None:
        if controller.leads:
            lead.labels(reached.bounded_kind, reached.phase.value).observe(reached.seconds)

    def note_wait(bound: BoundServer) -> None:
        if controller.leads and is_demand(bound.pod):
            profile = _profile(controller, bound.pod.labels.get(names.SHAPE, ""))
            wait.labels(profile, bound.outcome.value).observe(bound.seconds)

    controller.node_lead_times.on_reached(note_lead)
    controller.launch_waits.on_launch(note_wait)


def register_tickets(registry: CollectorRegistry, followed: FollowedTickets | None) -> None:
    """Register the metrics of the queue for devices; none without a queue."""
    if followed is None:
        return
    histogram = Histogram(
        f"{PREFIX}ticket_wait_seconds",
        "Seconds from joining the queue until a device is held",
        buckets=_TICKET_BUCKETS,
        registry=registry,
    )
    followed.on_hold = histogram.observe

    def collect() -> Iterator[Metric]:
        own = (each for each in followed.present.open if each.hub == followed.hub)
        tickets = dict(sorted(Counter((each.choice, each.state.value) for each in own).items()))
        yield gauge("tickets", "Tickets of the queue by choice and state, of this hub", tickets, "choice", "state")
        # The hub writes that a user leaves.
        events = {each.value: followed.counts[each] for each in TicketEvent if each is not TicketEvent.LEAVE}
        yield counter("ticket_events", "Events of tickets that this replica has written", events, "event")

    register_families(registry, collect)


def register_waits(registry: CollectorRegistry, calibration: WaitCalibration) -> None:
    """Register how estimates of waits came out."""
    text = "Waits of pending servers whose estimate is an interval: inside of it, before it (early), after it (late)"

    def collect() -> Iterator[Metric]:
        outcomes = {outcome.value: calibration.counts[outcome] for outcome in EstimateOutcome}
        yield counter("wait_estimates", text, outcomes, "outcome")

    register_families(registry, collect)


def _profile(controller: ScaleAheadController, shape: str) -> str:
    """The label ``profile`` of a shape. A combination of options counts for its profile, as there may be too many."""
    name = controller.name_of(shape)
    if not name:
        return "other"
    return profile_of(name) if is_combination(name) and name not in controller.replicas else name

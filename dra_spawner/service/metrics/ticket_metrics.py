"""Prometheus metrics of the queue for devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.service.tickets.followed_tickets import FollowedTickets

__all__ = ["register_tickets"]

_BUCKETS = (60, 300, 600, 1800, 3600, 7200, 14400, 28800, 57600, 86400)


def register_tickets(registry: CollectorRegistry, followed: FollowedTickets | None) -> None:
    """Register the metrics; none without a queue."""
    if followed is None:
        return
    histogram = Histogram(
        "dra_spawner_ticket_wait_seconds",
        "Seconds from joining the queue until a device is held",
        buckets=_BUCKETS,
        registry=registry,
    )
    followed.on_hold = histogram.observe
    registry.register(_Collector(followed))


class _Collector(Collector):
    def __init__(self, followed: FollowedTickets) -> None:
        self._followed = followed

    def collect(self) -> Iterator[Metric]:
        opened = GaugeMetricFamily(
            "dra_spawner_tickets", "Tickets of the queue by choice and state, of this hub", labels=["choice", "state"]
        )
        own = (each for each in self._followed.present.open if each.hub == self._followed.hub)
        for (choice, state), count in sorted(Counter((each.choice, each.state) for each in own).items()):
            opened.add_metric([choice, state.value], count)
        yield opened
        ended = CounterMetricFamily(
            "dra_spawner_ticket_events", "Events of tickets that this replica has written", labels=["event"]
        )
        for event in TicketEvent:
            if event is not TicketEvent.LEAVE:  # the hub writes it
                ended.add_metric([event.value], self._followed.counts[event])
        yield ended

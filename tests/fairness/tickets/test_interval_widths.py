"""How earlier waits came true makes the next intervals wider or narrower."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED, MOST_STRETCH, IntervalWidths
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.fairness.tickets.ticket_data import book_data, read_book
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from tests.all_of_them import all_of_them
from tests.fairness.tickets.books import HUB, NOW, ticket
from tests.presence import present


def test_a_tenth_of_the_waits_outside_keeps_a_width_and_nothing_goes_beyond_the_limit() -> None:
    widths = AS_COMPUTED
    for number in range(1000):
        widths = widths.after(is_early=number % 10 == 0, is_late=False)
    assert abs(widths.below) < 0.2
    assert widths.above == -MOST_STRETCH
    for _ in range(100):
        widths = widths.after(is_early=False, is_late=True)
    assert (widths.below, widths.above) == (widths.below, MOST_STRETCH)
    assert IntervalWidths(MOST_STRETCH, 0.0).stretched(10.0, 100.0, 200.0) == (0.0, 200.0)


def told(low: int, high: int) -> tuple[str, TicketBook]:
    """A ticket that was told an interval, in a queue that waits."""
    found, book = TicketBook().join(ticket("ada"))
    return found.id, book.with_waits(Waits(NOW, {found.id: WaitInterval(low, high)}), HUB)


@all_of_them(
    "seconds, below, above",
    {
        "inside": (300, -1, -1),
        "early": (30, 1, -1),
        "late": (700, -1, 1),
        "the clock was set back": (-60, 0, 0),
    },
)
def test_the_first_interval_that_was_told_counts_once(seconds: int, below: int, above: int) -> None:
    key, book = told(60, 600)
    book = book.with_waits(Waits(NOW, {key: WaitInterval(0, 1)}), HUB)  # computed again
    assert present(book.tickets[key].told).high_seconds == 600
    book = read_book(book_data(book))  # another leader
    at = NOW + timedelta(seconds=seconds)
    book = book.after(key, TicketEvent.HOLD, at, until=at)
    widths = book.widths.get(HUB, AS_COMPUTED)
    assert ((widths.below > 0) - (widths.below < 0), (widths.above > 0) - (widths.above < 0)) == (below, above)
    again = book.after(key, TicketEvent.LOST, at).after(key, TicketEvent.HOLD, at, until=at)
    assert again.widths == book.widths


def test_a_wait_that_is_longer_than_told_counts_before_it_is_over() -> None:
    key, book = told(60, 600)
    later = Waits(NOW + timedelta(seconds=601), {key: WaitInterval(60, 600)})
    book = book.with_waits(later, HUB)
    assert book.widths[HUB].above > 0
    assert book.with_waits(replace(later, at=later.at + timedelta(hours=1)), HUB).widths == book.widths
    assert read_book(book_data(book)) == book

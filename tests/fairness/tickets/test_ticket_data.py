"""Tickets in a ConfigMap that a newer version writes, too."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.fairness.tickets.ticket_data import book_data, changed_book_data, read_book
from dra_spawner.placeholders.lifecycle import TicketEvent

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_what_a_newer_version_notes_about_a_ticket_stays_with_it() -> None:
    book = TicketBook()
    for number, user in enumerate(("ada", "bob", "eve")):
        _, book = book.join(Ticket(f"t{number}", 0, user, "hub", "gpu", NOW, NOW))
    newer = book_data(book)
    tickets = json.loads(newer["tickets"])
    for each in tickets:
        each["colour"] = {"of": each["user"]}
    newer = newer | {"tickets": json.dumps(tickets), "newer": "1"}
    read = read_book(newer)
    assert read == book
    changed = read.after("t0", TicketEvent.LEAVE, NOW).without_user("bob", "hub")
    _, changed = changed.join(Ticket("t3", 0, "joe", "hub", "gpu", NOW, NOW))
    data = newer | changed_book_data(changed, read, newer)
    assert read_book(data) == changed
    colours = {each["id"]: each.get("colour") for each in json.loads(data["tickets"])}
    assert colours == {"t0": {"of": "ada"}, "t2": {"of": "eve"}, "t3": None}
    assert data["newer"] == "1"
    assert changed_book_data(changed, changed, book_data(changed)) == book_data(changed)

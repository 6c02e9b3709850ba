"""What the list of tickets tells, and to whom."""

from __future__ import annotations

from datetime import timedelta

from jsonschema import validate

from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.service.http.schemas.ticket_schemas import TICKETS
from dra_spawner.service.http.tickets.ticket_handlers import tickets_json
from tests.fairness.tickets.books import NOW, ticket


def test_names_of_users_are_for_administrators_and_kept_nodes_are_shown() -> None:
    book = TicketBook()
    for user in ("ada", "bob", "eve"):
        last, book = book.join(ticket(user))
    first = book.open[0]
    until = NOW + timedelta(hours=1)
    book = book.after(first.id, TicketEvent.KEEP, NOW, kept_node="node-a", kept_until=until)
    book = book.after(last.id, TicketEvent.LEAVE, NOW)
    known, unknown = (tickets_json(book, NOW, with_names=names) for names in (True, False))
    assert [(each["user"], each["place"], each["state"]) for each in known] == [
        ("ada", 1, "waiting"),
        ("bob", 2, "waiting"),
        ("eve", 0, "left"),
    ]
    assert (known[0]["kept_node"], known[0]["kept_until"]) == ("node-a", until.isoformat())
    assert (known[1]["kept_node"], known[1]["kept_until"]) == ("", None)
    assert unknown == [each | {"user": ""} for each in known]
    for name in ("ada", "bob", "eve"):
        assert name not in str([{key: each[key] for key in each if key != "id"} for each in unknown])
    validate(known, {"type": "array", "items": TICKETS["properties"]["items"]["items"]})

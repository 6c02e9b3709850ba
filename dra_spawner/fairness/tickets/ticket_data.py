"""Tickets as the data of a ConfigMap. What cannot be read is never overwritten.

Hubs and services of several releases share it: a newer release adds fields of tickets and keys of the data, which older
ones keep as they are. It changes no field, and adds no state: older ones could not read any ticket then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from dra_spawner.fairness.tickets.interval_widths import MOST_STRETCH, IntervalWidths
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import WaitInterval

#: Limit of the data; a ConfigMap holds 1 MiB, with what the API server adds.
MAX_BYTES: Final = 900_000
_TICKETS_KEY: Final = "tickets"
_NUMBER_KEY: Final = "next-number"
_WAITS_KEY: Final = "waits"
_WIDTHS_KEY: Final = "widths"
_SERVED_KEY: Final = "served"
_MAX_NUMBER: Final = 2**53
_OLDEST_SECONDS: Final = 86_400
_REQUIRED: Final = ("id", "number", "user", "hub", "choice", "joined", "since", "state")
_OPTIONAL: Final = (
    *("groups", "devices", "behind", "placeholder", "uid", "until", "told", "told_at"),
    *("kept_node", "kept_until"),
)


class TicketsCorrupt(Exception):
    """Raised for data that cannot be read; the message says what."""


def book_data(book: TicketBook) -> dict[str, str]:
    """The data of the ConfigMap: ASCII, one line for each ticket."""
    return {
        _TICKETS_KEY: _lines(_ticket_json(each) for each in _by_number(book)),
        _NUMBER_KEY: str(book.next_number),
        _WAITS_KEY: json.dumps(_waits_json(book.waits), separators=(",", ":")) if book.waits is not None else "",
        _WIDTHS_KEY: json.dumps({hub: [each.below, each.above] for hub, each in sorted(book.widths.items())}),
        _SERVED_KEY: json.dumps({hub: at.isoformat() for hub, at in sorted(book.served.items())}),
    }


def read_book(data: object) -> TicketBook:
    """The tickets in the data of a ConfigMap; none in empty data.

    Raises
    ------
    TicketsCorrupt
    """
    if not data:
        return TicketBook()
    try:
        found = _mapping(data)
        tickets = [_read_ticket(_mapping(each)) for each in json.loads(found.get(_TICKETS_KEY) or "[]")]
        number = int(found.get(_NUMBER_KEY) or 1)
        waits = _read_waits(_mapping(json.loads(found[_WAITS_KEY]))) if found.get(_WAITS_KEY) else None
        widths = _mapping(json.loads(found.get(_WIDTHS_KEY) or "{}"))
        by_hub = {_text(hub): _read_widths(each) for hub, each in widths.items()}
        served = _mapping(json.loads(found.get(_SERVED_KEY) or "{}"))
        at = {_text(hub): _moment(each) for hub, each in served.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise TicketsCorrupt(f"{type(error).__name__}: {error!s:.200}") from None
    by_id = {each.id: each for each in tickets}
    if len(by_id) < len(tickets) or len({each.number for each in tickets}) < len(tickets):
        raise TicketsCorrupt("two tickets have one number or one id")
    if not 0 < number < _MAX_NUMBER or any(each.number >= number for each in tickets):
        raise TicketsCorrupt(f"the next number, {number}, is not above all numbers")
    return TicketBook(by_id, number, waits, by_hub, at)


def _lines(tickets: Iterable[Any]) -> str:
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in tickets)
    return f"[{lines}]"


def _by_number(book: TicketBook) -> list[Ticket]:
    return sorted(book.tickets.values(), key=lambda each: each.number)


def _ticket_json(ticket: Ticket) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": ticket.id,
        "number": ticket.number,
        "user": ticket.user,
        "hub": ticket.hub,
        "choice": ticket.choice,
        "joined": ticket.joined.isoformat(),
        "since": ticket.since.isoformat(),
        "state": ticket.state.value,
    }
    more = {
        "groups": list(ticket.groups),
        "devices": list(ticket.devices),
        "behind": ticket.is_behind,
        "placeholder": ticket.placeholder,
        "uid": ticket.placeholder_uid,
        "until": ticket.until.isoformat() if ticket.until is not None else "",
        "told": [ticket.told.low_seconds, ticket.told.high_seconds] if ticket.told is not None else [],
        "told_at": ticket.told_at.isoformat() if ticket.told_at is not None else "",
        "kept_node": ticket.kept_node,
        "kept_until": ticket.kept_until.isoformat() if ticket.kept_until is not None else "",
    }
    newer = json.loads(ticket.more) if ticket.more else {}
    return newer | found | {key: value for key, value in more.items() if value}


def _read_ticket(found: Mapping[str, Any]) -> Ticket:
    number = found["number"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"number {number!r:.40}")
    newer = {key: each for key, each in found.items() if key not in _REQUIRED and key not in _OPTIONAL}
    return Ticket(
        _text(found["id"]),
        number,
        _text(found["user"]),
        _text(found["hub"]),
        _text(found["choice"]),
        _moment(found["joined"]),
        _moment(found["since"]),
        TicketState(found["state"]),
        tuple(map(_text, found.get("groups", ()))),
        tuple(map(_text, found.get("devices", ()))),
        found.get("behind") is True,
        _text(found.get("placeholder", "")),
        _text(found.get("uid", "")),
        _moment(found["until"]) if found.get("until") else None,
        _text(found.get("kept_node", "")),
        _moment(found["kept_until"]) if found.get("kept_until") else None,
        _read_interval(found["told"]) if found.get("told") else None,
        _moment(found["told_at"]) if found.get("told_at") else None,
        json.dumps(newer) if newer else "",
    )


def _waits_json(waits: Waits) -> dict[str, Any]:
    found: dict[str, Any] = {
        "at": waits.at.isoformat(),
        "of": {key: [each.low_seconds, each.high_seconds] for key, each in waits.of.items()},
    }
    return found | ({"older": dict(waits.older)} if waits.older else {})


def _read_waits(found: Mapping[str, Any]) -> Waits:
    of = {_text(key): _read_interval(each) for key, each in _mapping(found["of"]).items()}
    older = {_text(key): int(seconds) for key, seconds in _mapping(found.get("older") or {}).items()}
    ages = {key: min(each, _OLDEST_SECONDS) for key, each in older.items() if key in of and each > 0}
    return Waits(_moment(found["at"]), of, ages)


def _read_interval(found: Any) -> WaitInterval:
    low, high = found
    return WaitInterval(int(low), int(high))


def _read_widths(found: Any) -> IntervalWidths:
    below, above = (float(each) for each in found)
    if not (abs(below) <= MOST_STRETCH and abs(above) <= MOST_STRETCH):  # nor NaN
        raise ValueError(f"widths {found!r:.40}")
    return IntervalWidths(below, above)


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"found {value!r:.60} instead of a mapping")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"found {value!r:.60} instead of a text")
    return value


def _moment(value: object) -> datetime:
    found = datetime.fromisoformat(_text(value))
    if found.tzinfo is None:
        raise ValueError(f"{value!r:.60} has no zone")
    return found

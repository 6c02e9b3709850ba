"""Tickets for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dra_spawner.fairness.tickets.ticket import Ticket

__all__ = ["HUB", "NOW", "ticket"]

NOW = datetime(2030, 1, 1, 9, tzinfo=UTC)
HUB = "hub/dra-spawner-shapes"


def ticket(user: str, choice: str = "gpu", **values: object) -> Ticket:
    """A ticket that was not joined yet; ``serial`` makes its id another one."""
    new = Ticket(f"{user}-{choice}-{values.pop('serial', '')}", 0, user, HUB, choice, NOW, NOW)
    return replace(new, **values)  # type: ignore[arg-type]  # names of fields

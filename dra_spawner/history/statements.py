"""Parts of statements of the history's database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, and_, case, or_, select, type_coerce, update

from dra_spawner.history.records import SERVICE, TRIAL
from dra_spawner.history.schema import launches
from dra_spawner.history.stored_settings import last_seen_of


def as_number(column: Column[Any]) -> ColumnElement[int]:
    """A column of times, as it is stored."""
    return type_coerce(column, BigInteger).label(column.name)


def between(column: Column[Any], begin: datetime | None, end: datetime | None) -> list[ColumnElement[bool]]:
    """Conditions that a time is from `begin` on and before `end`; None is no limit."""
    found: list[ColumnElement[bool]] = []
    if begin is not None:
        found.append(column >= begin)
    if end is not None:
        found.append(column < end)
    return found


def earliest(present: Column[Any], new: Column[Any]) -> ColumnElement[Any]:
    """The earlier one of two times, of which the present one may be missing."""
    return case((or_(present.is_(None), new < present), new), else_=present)


def end_absent(connection: Connection, present: frozenset[str]) -> None:
    """End open launches that are not in the cluster: when the service last observed it, or at their last known time."""
    is_open = and_(launches.c.ended.is_(None), launches.c.source.in_((SERVICE, TRIAL)))
    seen = last_seen_of(connection)
    columns = (launches.c.uid, launches.c.asked, launches.c.bound, launches.c.running)
    for uid, *times in connection.execute(select(*columns).where(is_open)).all():
        if uid not in present:
            ended = max(filter(None, (*times, seen)), default=None)
            change = {"ended": ended, "end_is_estimate": True}
            connection.execute(update(launches).where(launches.c.uid == uid).values(change))

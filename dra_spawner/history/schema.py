"""The tables of the history. `migrations` creates them; a test compares both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Dialect, Index, MetaData, String, Table, Text
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_000_000
METADATA = MetaData()
#: Names in Kubernetes have at most 253 characters, names of JupyterHub's users at most 255.
_NAME = 255


class UtcTime(TypeDecorator[datetime]):
    """Column type of times: whole microseconds since 1970 (UTC), exact and the same in each kind of database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """The stored number of a time with time zone."""
        return None if value is None else (value - EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """The time of a stored number, in UTC; None for nonsense that another program has written."""
        try:
            return None if value is None else EPOCH + timedelta(microseconds=int(value))
        except (ValueError, TypeError, OverflowError):
            return None


settings = Table(
    "history_settings",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    comment="Key of hashes, how names of users are stored, when the service last saw the cluster",
)

launches = Table(
    "launches",
    METADATA,
    Column("uid", String(_NAME), primary_key=True),
    Column("asked", UtcTime, nullable=False),
    Column("profile", String(_NAME)),
    Column("choice", Text),
    Column("user_name", String(_NAME)),
    Column("user_is_hashed", Boolean, nullable=False),
    Column("pod", String(_NAME)),
    Column("bound", UtcTime),
    Column("running", UtcTime),
    Column("ended", UtcTime),
    Column("end_is_estimate", Boolean, nullable=False),
    Column("node", String(_NAME)),
    Column("warm", Boolean),
    Column("cause", String(32)),
    Column("reason", Text),
    Column("source", String(32), nullable=False),
    Column("ended_because", Text),
    Column("devices", Text, comment="JSON: whole devices by driver"),
    Index("launches_asked", "asked", "uid"),
    Index("launches_ended", "ended"),
    Index("launches_user_name", "user_name"),
)

node_lead_times = Table(
    "node_lead_times",
    METADATA,
    Column("uid", String(_NAME), primary_key=True),
    Column("node", String(_NAME), nullable=False),
    Column("kind", String(_NAME), nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("asked", UtcTime),
    Column("ready", UtcTime),
    Column("slices", UtcTime),
    Column("images", UtcTime),
    Index("node_lead_times_kind", "kind", "created"),
)

decisions = Table(
    "decisions",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("node", String(_NAME), nullable=False),
    Column("profile", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("details", Text, nullable=False, comment="JSON"),
    Column("mentions", Text, nullable=False, comment="Hashed names of pods in the texts, each between spaces"),
    Column("names_are_hashed", Boolean, nullable=False),
    Index("decisions_at", "at"),
)

calendar_entries = Table(
    "calendar_entries",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("created", UtcTime, nullable=False),
    Column("entry", Text, nullable=False, comment="JSON, as in the setting calendar_entries"),
)

learned_demands = Table(
    "learned_demands",
    METADATA,
    Column("profile_group", Text, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("state", Text, nullable=False, comment="JSON, which only scale-ahead reads"),
)

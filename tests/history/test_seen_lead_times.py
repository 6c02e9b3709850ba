"""Lead times that were seen, by kind of node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import NodeLeadTime
from dra_spawner.history.seen_lead_times import seen_lead_times

CREATED = datetime(2026, 11, 1, tzinfo=UTC)


def lead_time(number: int, kind: str, minutes: float | None, asked: float | None = None) -> NodeLeadTime:
    created = CREATED + timedelta(hours=number)
    images = created + timedelta(minutes=minutes) if minutes is not None else None
    earlier = created - timedelta(minutes=asked) if asked is not None else None
    return NodeLeadTime(str(number), f"n{number}", kind, created, asked=earlier, images=images)


def test_from_the_order_until_users_are_let_in() -> None:
    database = HistoryDatabase.open("sqlite://")
    try:
        assert seen_lead_times(database) == {}
        database.add(
            [
                lead_time(1, "a100", 6, asked=2),
                lead_time(2, "a100", 5),
                lead_time(3, "a100", None),  # never open to users
                lead_time(4, "a100", 300),  # broken
                lead_time(5, "t4", 3, asked=-1),  # the pod is younger than the node
            ]
        )
        minutes = {
            kind: [each / timedelta(minutes=1) for each in leads] for kind, leads in seen_lead_times(database).items()
        }
        assert minutes == {"a100": [8, 5], "t4": [3]}
        assert list(seen_lead_times(database, CREATED + timedelta(hours=2))["a100"]) == [timedelta(minutes=5)]
        database.add([lead_time(100 + number, "t4", 4) for number in range(60)])
        assert seen_lead_times(database)["t4"] == (timedelta(minutes=4),) * 50, "the last ones"
    finally:
        database.close()

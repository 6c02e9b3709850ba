"""The annotation of a warned server: read as it was written, and harmless if it is anything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from dra_spawner.fairness.idle.notices import Notice
from tests.all_of_them import all_of_them

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_it_is_read_as_it_was_written() -> None:
    notice = Notice(
        NOW,
        NOW - timedelta(hours=1),
        NOW + timedelta(minutes=5),
        NOW.astimezone(timezone(timedelta(hours=2))),
        2,
        1,
        NOW,
    )
    assert Notice.read(notice.text()) == notice
    assert len(notice.text()) < 1000


@all_of_them("text", (
    "", "warned", "[]", "null", "1", "{", '{"warnedAt": 5, "kept": "two"}', '{"warnedAt": "2026"}', '{"kept": true}',
    '{"warnedAt": "2026-03-02T09:00:00"}', '{"keptUntil": "9999-12-31T23:59:59-14:00"}', '{"kept": -1}', "[" * 900,
    '{"warnedAt": "2026-03-02T09:00:00+00:00"' + " " * 1000 + "}",
))  # fmt: skip
def test_what_others_wrote_says_nothing(text: str) -> None:
    assert Notice.read(text) == Notice()

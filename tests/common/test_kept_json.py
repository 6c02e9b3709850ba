"""Stored JSON that another version or a person wrote: what is kept of it, and how its values are read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from dra_spawner.common.kept_json import by_fields, moment_in, with_unknown


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_a_time_means_the_same_on_each_machine() -> None:
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    for each in (noon, noon.replace(tzinfo=None), noon.astimezone(timezone(timedelta(hours=2)))):
        assert moment_in(each.isoformat()) == noon


def test_items_of_one_identity_stay_apart() -> None:
    """As two changes of one setting at the same moment."""
    alike = [{"at": 1, "details": "first"}, {"at": 1, "details": "second"}]
    stored = [{"at": 0, "details": "before", "newer": True}, {"what": "newer"}]
    known = [{"at": 0, "details": "before"}]
    found = with_unknown([*known, *alike], known, stored, by_fields("at"))
    assert found == [{"what": "newer"}, stored[0], *alike]

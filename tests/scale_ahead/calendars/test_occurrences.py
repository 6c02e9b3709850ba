"""Fields that an occurrence refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

BEGINS = datetime(2026, 11, 24, 17, tzinfo=UTC)


def occurrence(**changes: Any) -> Occurrence:
    values: dict[str, Any] = {"begins": BEGINS, "ends": BEGINS + timedelta(hours=1), "users": 3}
    return Occurrence("physics", "gpu", **(values | changes))


def test_the_defaults() -> None:
    found = occurrence()
    assert (found.counts, found.ramp) == ("additional", timedelta(minutes=15))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"begins": BEGINS.replace(tzinfo=None)}, "begins of 'physics' is .* no time zone", id="naive"),
        pytest.param({"ends": BEGINS}, "not after", id="empty"),
        pytest.param({"users": -1}, "users of 'physics' is -1; it must be 0 or more", id="negative users"),
        pytest.param({"ramp": timedelta(minutes=-1)}, "ramp", id="negative ramp"),
        pytest.param({"counts": "total"}, "must be 'additional' or 'in total'", id="other word"),
    ],
)
def test_invalid_occurrences_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        occurrence(**changes)

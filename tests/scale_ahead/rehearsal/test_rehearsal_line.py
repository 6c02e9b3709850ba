"""Lines of rehearsals: their meaning, and messages about wrong ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.scale_ahead.calendars.demand_lines import DemandLine
from dra_spawner.scale_ahead.rehearsal.rehearsal_line import published_choice, read_rehearsal_line
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU

BERLIN = ZoneInfo("Europe/Berlin")
#: A Monday in winter, at 16:00 in Berlin.
NOW = datetime(2026, 11, 23, 15, 0, 20, tzinfo=UTC)


@all_of_them(
    "line, begins",
    {
        "today": ("350 of gpu-slice at 17:00", "2026-11-23T17:00:00+01:00"),
        "today by name": ("350 of gpu-slice today at 17:00", "2026-11-23T17:00:00+01:00"),
        "this minute": ("350 of gpu-slice at 16:00", "2026-11-23T16:00:00+01:00"),
        "tomorrow": ("350 of gpu-slice tomorrow at 9:00", "2026-11-24T09:00:00+01:00"),
        "date": ("350 of gpu-slice at 2026-12-01 17:00", "2026-12-01T17:00:00+01:00"),
        "ISO": ("350 of gpu-slice AT 2026-12-01T17:00", "2026-12-01T17:00:00+01:00"),
        "UTC": ("350 of gpu-slice at 17:00Z", "2026-11-23T17:00:00+00:00"),
        "offset": ("350 of gpu-slice at 2026-12-01 17:00-05:00", "2026-12-01T17:00:00-05:00"),
        "now": ("350 of gpu-slice now", "2026-11-23T16:00:20+01:00"),
        "skipped by the clock": ("350 of gpu-slice at 2027-03-28 02:30", "2027-03-28T03:30:00+02:00"),
        "comes twice": ("350 of gpu-slice at 2027-10-31 02:30", "2027-10-31T02:30:00+02:00"),
    },
)
def test_times(line: str, begins: str) -> None:
    now = NOW if "2027-10" not in line else datetime(2027, 10, 30, tzinfo=UTC)
    found = read_rehearsal_line(line, now, BERLIN)
    assert found.begins.isoformat() == begins
    assert found.demand == DemandLine(350, "gpu-slice")


@all_of_them(
    "line, demand",
    [
        ("5 of x in total at 17:00", DemandLine(5, "x", "in total")),
        ("5 of x at 17:00 in total", DemandLine(5, "x", "in total")),
        ("5 of x within 20 min at 17:00", DemandLine(5, "x", ramp=timedelta(minutes=20))),
        ("5 of x at 17:00 within 20 min", DemandLine(5, "x", ramp=timedelta(minutes=20))),
        ('5 of "GPU at 9:00 now" at 17:00', DemandLine(5, "GPU at 9:00 now")),
        ("5 of now now", DemandLine(5, "now")),
    ],
)
def test_the_time_stands_anywhere_after_the_profile(line: str, demand: DemandLine) -> None:
    assert read_rehearsal_line(line, NOW).demand == demand


@all_of_them(
    "line, message",
    [
        ("350 of gpu-slice", "found no time after '350 of gpu-slice'; allowed is \"at 17:00\""),
        ("350 of gpu-slice at 5 pm", "found no time"),
        ("350 of gpu-slice at 25:00", "found 'at 25:00'; allowed is a date like 2026-11-24 and a time from 0:00"),
        ("350 of gpu-slice at 2026-02-30 17:00", "found 'at 2026-02-30 17:00'; allowed is a date"),
        ("350 of gpu-slice at 17:00+99:00", "found 'at 17:00+99:00'; allowed is an offset from UTC"),
        ("350 of gpu-slice at 15:00", "found 'at 15:00'; allowed is a time after 2026-11-23 16:00 CET"),
        ("350 of gpu-slice at 15:00", '"tomorrow at 15:00"; this one is past'),
        ("350 of gpu-slice tomorrow at 2026-11-24 17:00", "allowed is a day or a date, not both"),
        ("350 of gpu-slice at 17:00 now", "found 2 times"),
        ("350 of gpu-slice at 2031-01-01 17:00", "found 2031-01-01; allowed is a day within a year"),
        ("350 of gpu-slice at 0001-01-01 0:00+10:00", "allowed is a day within a year from now"),
        (
            "350 gpu-slice at 17:00",
            "found 'gpu-slice' where \"of\" is expected, in '350 gpu-slice at 17:00'; allowed is",
        ),
        ("x of gpu-slice at 17:00", "found 'x' where a number of users is expected"),
        ("of gpu-slice now", "found 'of' where a number of users is expected"),
        ("350", "found nothing after '350' where \"of\" is expected"),
        ("350 of", "found nothing after '350 of' where a profile is expected"),
        ("350 of gpu slice at 17:00", "found 'slice' after the profile, in '350 of gpu slice'; allowed is a line like"),
        ("350 of gpu-slice im total at 17:00", "found 'im total' after the profile"),
        ("350 of gpu-slice in total within 20 at 17:00", "found 'within 20' after the profile"),
        ("350 of gpu-slice at 5 pm", "found no time in 'at 5 pm'"),
        ("50000 of gpu-slice at 17:00", "found 50000 users; a rehearsal allows at most 10000"),
        ("", "found ''; allowed is a line like"),
    ],
)
def test_wrong_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_rehearsal_line(line, NOW, BERLIN)
    assert message in str(error.value)


def test_the_profile_is_one_that_the_hub_publishes() -> None:
    shapes = {"gpu-slice": GPU, "gpu-slice/a=1,b=2": GPU, "small": GPU}
    published = PublishedShapes(shapes, {"shared": "its servers share a claim"})

    def choice(name: str, published: PublishedShapes = published) -> str:
        return published_choice(read_rehearsal_line(f"5 of {name} now", NOW), published).demand.profile

    assert choice("gpu-slice") == "gpu-slice"
    assert choice("gpu-slice/b=2,a=1") == "gpu-slice/a=1,b=2", "the order of options does not matter"
    for name, message in (
        ("gpu-slcie", r"found the profile 'gpu-slcie'; the hub publishes gpu-slice, small\. Did you mean gpu-slice\?$"),
        ("zebra", r"found the profile 'zebra'; the hub publishes gpu-slice, small\.$"),
        ("shared", "found the profile 'shared', which is left out: its servers share a claim$"),
    ):
        with pytest.raises(ValueError, match=message):
            choice(name)
    with pytest.raises(ValueError, match="the profiles are not known: no ConfigMap"):
        choice("gpu", PublishedShapes(problem="no ConfigMap"))

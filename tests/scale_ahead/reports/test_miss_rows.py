"""The calendar entry of a miss, as a line that is read back as the same entry."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import yaml

from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.replaying.cluster_file import parse_cluster
from dra_spawner.scale_ahead.calendars.demand_lines import read_demand_line
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.reports.miss_rows import demand_line, entry_line, miss_json, miss_row
from dra_spawner.scale_ahead.reports.misses import Miss, MissCause
from tests.all_of_them import all_of_them

AT = datetime(2026, 11, 24, 16, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
HOSTILE = (
    "gpu-slice",
    'say "hi", {users: 0}: #',
    "<script>alert(1)</script>",
    "a\nb\x00\x7f\u2028",
    "Übung \U0001f600 $x$",
    "- {profile: x}",
)


def miss(cause: MissCause = MissCause.UNEXPECTED, minutes: int = 12) -> Miss:
    begin = minute_of(AT)
    return Miss(begin, begin + minutes, 200, 250, 12.4, 5, cause, begin, 237.6)


@all_of_them("profile", HOSTILE)
def test_the_line_is_read_back_as_the_same_entry(profile: str) -> None:
    entry = miss().calendar_entry(profile)
    line = entry_line(entry, BERLIN)
    assert line.isprintable()
    (read,) = yaml.safe_load(line)
    assert read == {
        "profile": profile,
        "users": 238,
        "begins": "2026-11-24T17:00:00+01:00",
        "ends": "2026-11-24T18:00:00+01:00",
        "counts": "additional",
        "ramp_minutes": 12,
    }


def test_the_line_fits_into_the_description_of_a_cluster() -> None:
    entry = miss().calendar_entry("gpu-slice")
    text = f"nodes: [{{name: gpu, profiles: [gpu-slice], slots: 8, lead_minutes: 8}}]\ncalendar:\n{entry_line(entry)}\n"
    (document,) = read_documents("cluster.yaml", text, PROFILE_FILES)
    (read,) = parse_cluster(document).calendar
    assert (read.profile, read.users, read.begins, read.ramp) == ("gpu-slice", 238, AT, timedelta(minutes=12))
    nameless = entry_line(miss().calendar_entry(""))
    text = f"nodes: [{{name: gpu, slots: 8, lead_minutes: 8}}]\ncalendar:\n{nameless}\n"
    (document,) = read_documents("cluster.yaml", text, PROFILE_FILES)
    assert parse_cluster(document).calendar[0].users == 238


@all_of_them("profile", ["gpu-slice", "Large GPU", "<b>", "Übung"])
def test_the_line_of_an_event_is_read_back(profile: str) -> None:
    read = read_demand_line(demand_line(miss().calendar_entry(profile)))
    assert (read.users, read.profile, read.counts, read.ramp) == (238, profile, "additional", timedelta(minutes=12))


def test_an_entry_that_an_event_line_cannot_express_is_left_out() -> None:
    for profile in ('say "hi"', "", "a\x00b"):
        assert demand_line(miss().calendar_entry(profile)) == ""
    assert demand_line(miss(minutes=1441).calendar_entry("gpu")) == ""


def test_a_row_has_local_time_and_both_lines() -> None:
    row = miss_row(miss(), "gpu", BERLIN, detail="more", outcome="0 of 250 wait.")
    assert row.when == "Tue 2026-11-24 17:00 CET"
    assert (row.misses, row.launches, row.minutes, row.detail) == (200, 250, 12, "more")
    assert row.line == "238 of gpu additional within 12 min"
    assert row.outcome == "0 of 250 wait."


def test_the_entry_may_begin_before_the_miss() -> None:
    early = replace(miss(), rush_begins=minute_of(AT) - 4)
    row = miss_row(early, "gpu")
    assert row.when == "Tue 2026-11-24 16:00 UTC"
    assert 'begins: "2026-11-24T15:56:00+00:00"' in row.entry
    assert row.line == "238 of gpu additional within 16 min"


def test_no_entry_is_offered_where_none_helps() -> None:
    row = miss_row(miss(MissCause.NODE_LIMIT), "gpu", outcome="0 of 250 wait.")
    assert (row.entry, row.line) == ("", "")
    assert row.outcome == "No calendar entry helps: raise the limit of nodes."
    assert miss_json(miss(MissCause.NODE_LIMIT), "gpu")["isPreventable"] is False

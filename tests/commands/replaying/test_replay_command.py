"""``dra-spawner replay`` from files to figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dra_spawner.cli import main
from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.replaying.cluster_file import ClusterFile, parse_cluster
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.replay.policy_names import parse_policy
from tests.all_of_them import all_of_them
from tests.scale_ahead.calendars.ics_text import calendar, event

CLUSTER = """
nodes:
  - {name: gpu, profiles: [slice, half], slots: 4, lead_minutes: [6, 8], image_minutes: 2, max_nodes: 40, price: 3}
  - {name: cpu, profiles: [small], slots: 10, lead_minutes: 3}
servers: {median_minutes: 30}
classes:
  - {profile: slice, users: 30, weekday: tuesday, at: "10:00", absent: 0.1}
calendar:
  - {profile: small, users: 5, begins: "2026-11-03T12:00Z", ends: "2026-11-03T13:00Z", counts: in total}
floor: 1
zone: Europe/Berlin
"""


def cluster(text: str) -> ClusterFile:
    (document,) = read_documents("cluster.yaml", text, PROFILE_FILES)
    return parse_cluster(document)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    rows = [f"2026-11-{at // 10:02}T{at % 10 + 8:02}:{minute:02}:00Z" for at in range(20, 40) for minute in (5, 9, 40)]
    trace = "time,profile\n" + "".join(f"{row},{profile}\n" for row in rows for profile in ("slice", "small"))
    (tmp_path / "launches.csv").write_text(trace)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return str(tmp_path / "launches.csv"), str(tmp_path / "cluster.yaml")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["replay", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_table_for_each_kind_of_node(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    code, out, err = run(capsys, *files)
    assert (code, err) == (0, "")
    assert out.startswith("gpu: ")
    assert "\ncpu: 60 launches in 1.4 days\n" in out
    policies = [line.split()[0] for line in out.splitlines() if "%" in line]
    assert [each.partition(":")[0] for each in policies] == ["none", "forecast", "fixed"] * 2


def test_json_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    arguments = (*files, "--policy", "fixed:3", "--policy", "z2jh:3", "--format", "json", "--seed")
    first, again, other = (run(capsys, *arguments, seed)[1] for seed in ("1", "1", "2"))
    assert first == again != other
    found = json.loads(first)
    policies = found["kinds"][0]["policies"]
    assert [each["policy"] for each in policies] == ["fixed:3", "z2jh:3"]
    assert policies[0]["hitRate"] == policies[0]["hits"] / policies[0]["launches"]
    assert policies[0]["price"] == pytest.approx(3 * policies[0]["nodeHours"])


def test_a_description_may_have_fields_of_a_rehearsal() -> None:
    """Labels of nodes; and kinds without profiles of their own, which a replay does not take."""
    text = "nodes: [{name: a, slots: 8, lead_minutes: 6, labels: {pool: x, zone: north}}, {name: b, slots: 4, lead_minutes: 6}]"
    (document,) = read_documents("cluster.yaml", text, PROFILE_FILES)
    first, second = parse_cluster(document, has_groups=False).kinds
    assert (first.labels, second.labels) == ((("pool", "x"), ("zone", "north")), ())
    with pytest.raises(InputError, match="must list its profiles, since there are several kinds"):
        parse_cluster(document)


@pytest.mark.promise("`dra-spawner replay` shows that an announced class waits less.")
def test_an_announced_class_waits_less(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    arguments = (*files, "--policy", "forecast", "--format", "json")
    announced, unannounced = (
        json.loads(run(capsys, *arguments, *more)[1])["kinds"][0]["policies"][0] for more in ((), ("--unannounced",))
    )
    assert announced["hitRate"] > unannounced["hitRate"]
    assert unannounced["largestMisses"][0]["calendarEntry"]["begins"].startswith("2026-11-03T09:")


def test_an_ical_calendar_announces_a_class(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str], tmp_path: Path
) -> None:
    def waits(*lines: str) -> tuple[float, str]:
        found = event("DTSTART;TZID=Europe/Berlin:20261103T100000", "DURATION:PT1H", "SUMMARY:Class", *lines)
        courses = tmp_path / "courses.ics"
        courses.write_text(calendar(found))
        arguments = ("--policy", "forecast", "--format", "json", "--unannounced", "--calendar", str(courses))
        code, out, err = run(capsys, *files, *arguments)
        assert code == 0
        gpu = next(each for each in json.loads(out)["kinds"] if each["nodes"] == "gpu")
        return gpu["policies"][0]["hitRate"], err

    (with_entry, err), (without, _) = waits("DESCRIPTION:30 of slice"), waits()
    assert not err
    assert with_entry > without + 0.1
    _, err = waits(r"DESCRIPTION:30 of nothing\n30 of sl ice")
    assert "no node has profile 'nothing'; its events are left out" in err
    assert "event 'Class' on 2026-11-03 10:00: found 'ice' after the profile, in '30 of sl ice'" in err
    (tmp_path / "page.ics").write_text("<html>")
    for file, problem in (("page.ics", "BEGIN:VCALENDAR"), ("none.ics", "cannot be read: No such file")):
        code, _, err = run(capsys, *files, "--calendar", str(tmp_path / file))
        assert code == 2
        assert file in err
        assert problem in err


def test_bad_rows_end_the_command_or_are_reported(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    path = Path(files[0])
    path.write_text(path.read_text() + "2026-11-03T18:00:00Z,tpu\n")
    code, out, err = run(capsys, *files)
    assert (code, out) == (2, "")
    assert err.startswith(f"dra-spawner replay: {path}, line 122: has the profile 'tpu'")
    code, out, err = run(capsys, *files, "--skip-bad", "--policy", "none")
    assert code == 0
    assert err.startswith(f"dra-spawner replay: skipped: {path}, line 122: has the profile 'tpu'")
    assert out.startswith("gpu: ")


def test_classes_need_lengths_where_the_trace_has_them(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str]
) -> None:
    trace, description = Path(files[0]), Path(files[1])
    trace.write_text("time,profile,seconds\n2026-11-02T08:00Z,slice,600\n2026-11-03T08:00Z,slice,600\n")
    assert run(capsys, *files, "--policy", "none")[0] == 0
    description.write_text(CLUSTER.replace("servers: {median_minutes: 30}\n", ""))
    code, out, err = run(capsys, *files, "--policy", "none")
    assert (code, out) == (2, "")
    assert "servers: is missing" in err


@all_of_them(
    "arguments, problem",
    {
        "number": (("--policy", "fixed:many"), "'fixed:many' needs a whole number"),
        "policy": (("--policy", "best"), "'best' is not a policy; write none, fixed:NUMBER"),
        "equal to nothing": (("--policy", "fixed:equal"), "needs a policy before it"),
        "setting": (("--policy", "forecast:hits=1"), "the setting 'hits'; known are hit_rate"),
        "value": (("--policy", "forecast:hit_rate=2"), "hit_rate is 2.0; it must be more than 0"),
        "no number": (("--policy", "forecast:weeks=x"), "'x' for weeks; it must be a number"),
        "nothing judged": (("--learn-days", "9"), "must be longer than the 9 days for learning"),
    },
)
def test_wrong_options_are_reported_in_a_sentence(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str], arguments: tuple[str, ...], problem: str
) -> None:
    code, out, err = run(capsys, *files, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert problem in err


def test_settings_of_the_forecast_are_read() -> None:
    settings = parse_policy("forecast:hit_rate=0.9,around_minutes=5", DemandSettings()).settings
    assert (settings.hit_rate, settings.around.total_seconds()) == (0.9, 300)


def test_the_description_is_read() -> None:
    found = cluster(CLUSTER)
    assert [each.name for each in found.kinds] == ["gpu", "cpu"]
    assert found.group_of == {"slice": "gpu", "half": "gpu", "small": "cpu"}
    assert found.classes[0].weekday == 1
    assert found.calendar[0].counts == "in total"
    assert str(found.zone) == "Europe/Berlin"


def test_a_single_kind_gets_launches_without_a_profile() -> None:
    assert cluster("nodes: [{name: all, slots: 2, lead_minutes: 5}]").group_of == {"": "all"}


@all_of_them(
    "change, message",
    {
        "slots": (("slots: 4", "slots: 0"), "line 3: nodes[0].slots: is 0; it must be a whole number of 1"),
        "missing": (("slots: 4, ", ""), "line 3: nodes[0]: must have 'slots'"),
        "unknown": (("max_nodes: 40", "maximum: 40"), "line 3: nodes[0].maximum: is not known"),
        "lead": (("[6, 8]", "[6, x]"), "nodes[0].lead_minutes: is [6, 'x']; it must be a number"),
        "no lead": (("[6, 8]", "0"), "nodes[0]: lead_times must have one or more times"),
        "infinite": (("lead_minutes: 3", "lead_minutes: .inf"), "nodes[1]"),
        "twice": (("[small]", "[slice]"), "line 4: nodes[1]: lists the profile 'slice', which 'gpu'"),
        "name twice": (("name: cpu", "name: gpu"), "line 4: nodes[1]: has the name 'gpu'"),
        "profile": (("profile: small", "profile: tiny"), "line 9: calendar[0].profile: is 'tiny'"),
        "day": (("tuesday", "tue"), "line 7: classes[0].weekday: is 'tue'; it must be one of monday"),
        "at": (('"10:00"', "ten"), "line 7: classes[0].at: is 'ten'"),
        "counts": (("in total", "total"), "line 9: calendar[0].counts: is 'total'"),
        "zone": (("12:00Z", "12:00"), "line 9: calendar[0].begins: is '2026-11-03T12:00', which has no"),
        "place": (("Europe/Berlin", "Berlin"), "line 11: zone: is 'Berlin', which is not a known time zone"),
        "servers": (("median_minutes: 30", "median_minutes: 0"), "line 5: servers: median_minutes is 0"),
        "floor": (("floor: 1", "floor: -1"), "line 10: floor: is -1"),
    },
)
def test_mistakes_in_the_description_are_named(change: tuple[str, str], message: str) -> None:
    assert change[0] in CLUSTER
    with pytest.raises(InputError) as refused:
        cluster(CLUSTER.replace(*change))
    assert message in str(refused.value)


@all_of_them("text", ["[]", "nodes: 3", "nodes: []", "nodes: [3]", "{}"])
def test_text_that_is_no_description(text: str) -> None:
    with pytest.raises(InputError, match=r"cluster\.yaml"):
        cluster(text)

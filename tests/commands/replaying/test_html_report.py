"""The report of ``dra-spawner replay``: contents of the page, and that foreign names stay text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from dra_spawner.cli import main
from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.replaying.cluster_file import parse_cluster
from dra_spawner.commands.replaying.report_data import detailed_policies
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.replay.policy_names import parse_policy
from tests.all_of_them import all_of_them

CLUSTER = """
nodes:
  - {name: gpu, profiles: [slice], slots: 4, lead_minutes: 8, image_minutes: 2, price: 3}
servers: {median_minutes: 30}
classes:
  - {profile: slice, users: 30, weekday: tuesday, at: "10:00", absent: 0.1}
zone: Europe/Berlin
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    hours = [*((2, hour) for hour in range(6, 24)), *((3, hour) for hour in range(14))]
    rows = [f"2026-11-{day:02}T{hour:02}:{minute:02}:00Z" for day, hour in hours for minute in (5, 9)]
    (tmp_path / "launches.csv").write_text("time,profile\n" + "".join(f"{row},slice\n" for row in rows))
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return str(tmp_path / "launches.csv"), str(tmp_path / "cluster.yaml")


def report(capsys: pytest.CaptureFixture[str], files: tuple[str, str], *more: str) -> str:
    path = Path(files[0]).parent / "report.html"
    code = main(["replay", *files, "--report", str(path), *more])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return path.read_text()


class _Page(HTMLParser):
    """References and scripts that a browser would load or run, and the text of elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("br", "meta", "path"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "srcset", "data") and not (value or "").startswith("#"):
                self.loads.append(value or "")
            assert not name.startswith("on")

    def handle_endtag(self, tag: str) -> None:
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def of(self, tag: str) -> list[str]:
        return [text for found, text in self.texts if found == tag]


def entries(page: str) -> Iterator[str]:
    yield from (each for each in _Page(page).of("code") if each.startswith("- {"))


def test_one_page_that_needs_nothing_else(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    page = report(capsys, files, "--unannounced")
    found = _Page(page)
    assert found.open == []
    assert found.loads == []
    assert not {"script", "link", "iframe", "img", "object"} & set(found.tags)
    assert "url(" not in re.sub(r'clip-path="url\(#[-\w]+\)"', "", page)
    assert "default-src 'none'" in page
    # The frontier, all days, and the worst day.
    assert found.tags.count("svg") == 3


def test_the_page_has_policies_settings_and_method(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    page = report(capsys, files, "--policy", "forecast:hit_rate=0.9,hold=2", "--policy", "fixed:7", "--seed", "5")
    out = json.loads(
        _json(capsys, files, "--policy", "forecast:hit_rate=0.9,hold=2", "--policy", "fixed:7", "--seed", "5")
    )
    cells = _Page(page).of("td")
    for policy in out["kinds"][0]["policies"]:
        assert policy["policy"] in cells
        assert f"{policy['hitRate']:.2%}" in cells
    assert "seed 5" in page
    assert cells[cells.index("hit_rate") + 1] == "0.9"
    assert cells[cells.index("hold") + 1] == "2.0"
    assert "8 min, and 2 min for images" in page
    assert "times are Europe/Berlin" in page
    assert "<h2>How it was measured</h2>" in page


def _json(capsys: pytest.CaptureFixture[str], files: tuple[str, str], *more: str) -> str:
    assert main(["replay", *files, "--format", "json", *more]) == 0
    return capsys.readouterr().out


def test_each_entry_prevents_its_miss(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    """Pasted into the description, an entry improves the next report as this one predicts."""
    policy = ("--policy", "forecast", "--unannounced")
    page = report(capsys, files, *policy)
    before = json.loads(_json(capsys, files, *policy))["kinds"][0]["policies"][0]
    lines = list(entries(page))
    assert len(lines) == len(before["largestMisses"]) > 0
    largest = before["largestMisses"][0]
    assert largest["misses"] > 15
    assert yaml.safe_load(lines[0])[0]["begins"].startswith("2026-11-03T10:")
    still = re.findall(r"Replayed with these entries: (\d+) of (\d+) wait", page)
    assert int(still[0][1]) == largest["launches"]
    assert int(still[0][0]) == 0
    description = Path(files[1])
    description.write_text(f"{CLUSTER}calendar:\n" + "".join(f"{each}\n" for each in lines))
    after = json.loads(_json(capsys, files, *policy))["kinds"][0]["policies"][0]
    assert after["hitRate"] > before["hitRate"]
    begins = [each["begins"] for each in after["largestMisses"]]
    assert largest["begins"] not in begins


def test_no_misses_and_one_policy(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    page = report(capsys, files, "--policy", "fixed:200", "--learn-days", "1")
    assert "No launch had to wait." in page
    assert "The busiest day, Tuesday 2026-11-03" in page
    assert list(entries(page)) == []
    assert "hit_rate" not in page
    page = report(capsys, files, "--policy", "fixed:2")
    assert "This policy uses no calendar; forecast and calendar do." in page
    assert "Replayed with" not in page


def test_a_kind_without_launches(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    text = CLUSTER.replace("servers:", "  - {name: cpu, profiles: [small], slots: 10, lead_minutes: 3}\nservers:")
    Path(files[1]).write_text(text)
    page = report(capsys, files, "--policy", "forecast")
    assert "0 launches in" in page
    assert "There were no launches, so nothing can be compared." in page
    assert _Page(page).of("h2") == ["gpu", "cpu", "How it was measured"]


def test_a_limit_on_nodes_is_no_matter_of_calendars(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    Path(files[1]).write_text(CLUSTER.replace("slots: 4,", "slots: 1, max_nodes: 3,"))
    page = report(capsys, files, "--policy", "forecast")
    assert "No calendar entry helps: raise the limit of nodes." in page


HOSTILE = "</style><script>alert(1)</script><img src=x onerror=y>'\"&$\\frac{$\u202e"


def test_names_from_files_stay_text(capsys: pytest.CaptureFixture[str], files: tuple[str, str], tmp_path: Path) -> None:
    quoted = json.dumps(HOSTILE)
    text = CLUSTER.replace("name: gpu", f"name: {quoted}").replace("[slice]", f"[{quoted}]")
    Path(files[1]).write_text(text.replace("profile: slice", f"profile: {quoted}"))
    trace = tmp_path / "<b>launches&.csv"
    cell = '"' + HOSTILE.replace('"', '""') + '"'
    trace.write_text(Path(files[0]).read_text().replace("slice", cell))
    page = report(capsys, (str(trace), files[1]), "--unannounced", "--policy", "forecast")
    assert "<script" not in page
    assert "<img" not in page
    found = _Page(page)
    assert not {"script", "img"} & set(found.tags)
    assert HOSTILE.replace("\u202e", "\ufffd") in found.of("h2")
    assert any("<b>launches&.csv" in each for each in found.of("p"))
    lines = list(entries(page))
    assert lines
    (document,) = read_documents(
        "cluster.yaml", f"{text.replace('profile: slice', f'profile: {quoted}')}calendar:\n{lines[0]}\n", PROFILE_FILES
    )
    assert parse_cluster(document).calendar[0].profile == HOSTILE


def test_rows_that_were_left_out_are_listed(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    trace = Path(files[0])
    trace.write_text(trace.read_text() + "".join(f"2026-11-05T00:{minute:02}:00Z,<i>\n" for minute in range(30)))
    path = trace.parent / "report.html"
    assert main(["replay", *files, "--report", str(path), "--skip-bad", "--policy", "none"]) == 0
    capsys.readouterr()
    page = path.read_text()
    assert unescape(page).count("has the profile '<i>'") == 10
    assert "<i>" not in page
    assert "and 20 more" in page


def test_the_same_seed_makes_the_same_page(capsys: pytest.CaptureFixture[str], files: tuple[str, str]) -> None:
    first, again, other = (report(capsys, files, "--policy", "none", "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again != other


def test_a_file_that_cannot_be_written_is_reported_before_the_work(
    capsys: pytest.CaptureFixture[str], files: tuple[str, str], tmp_path: Path
) -> None:
    for file, problem in ((tmp_path, "is a directory"), (tmp_path / "none" / "r.html", "its directory does not exist")):
        code = main(["replay", *files, "--report", str(file)])
        captured = capsys.readouterr()
        assert (code, captured.out) == (2, "")
        assert captured.err.startswith(f"dra-spawner replay: {file}: ")
        assert problem in captured.err
    full = Path("/dev/full")
    if full.exists():
        assert main(["replay", *files, "--policy", "none", "--report", str(full)]) == 2
        assert "cannot be written: No space left on device" in capsys.readouterr().err


@all_of_them(
    "names, expected",
    [
        (["none", "forecast", "fixed:equal"], {1}),
        (["none", "fixed:3", "z2jh:3"], {1, 2}),
        (["none"], {0}),
        (["calendar", "fixed:3", "forecast"], {0, 2}),
        ([f"forecast:hold={number}" for number in range(9)], {0, 1, 2, 3}),
    ],
)
def test_policies_that_are_shown_in_detail(names: list[str], expected: set[int]) -> None:
    assert detailed_policies([parse_policy(each, DemandSettings()) for each in names]) == expected

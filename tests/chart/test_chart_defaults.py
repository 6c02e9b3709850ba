"""The chart as a package has its defaults, without links, and Helm has nothing to say about it."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

from tests.chart.chart_defaults import DEFAULTS, defaults_text
from tests.chart.rendering import CHART, IMAGE, helm_or_skip, run_helm


def test_defaults_are_those_of_the_values_file() -> None:
    assert DEFAULTS.read_text() == defaults_text(), "run python -m tests.chart.chart_defaults"


def test_a_packaged_chart_has_its_defaults_without_links(tmp_path: Path) -> None:
    assert [path for path in CHART.rglob("*") if path.is_symlink()] == []
    done = subprocess.run(
        [helm_or_skip(), "package", CHART, "--destination", tmp_path], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    (package,) = tmp_path.glob("*.tgz")
    # As programs that package charts without following links, such as Flux, leave it.
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path, filter="data")
    # Nothing below a key is as good as the key's default.
    values = {**IMAGE, "placeholders": None, "service": None, "hub": None}
    expected = run_helm("template", "a", str(CHART), values=IMAGE)
    for chart in (package, tmp_path / "dra-spawner"):
        assert run_helm("template", "a", str(chart), values=values) == expected

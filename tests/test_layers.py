"""The layers are law: `lint-imports` finds an import that goes the wrong way, wherever it is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Module that imports, and module that it must not import.
WRONG = (
    ("dra_spawner.dra.quantity", "dra_spawner.names"),
    ("dra_spawner.dra.devices", "dra_spawner.dra.allocator"),
    ("dra_spawner.dra.cel.lexer", "dra_spawner.dra.cel.parser"),
    ("dra_spawner.simulator.pods", "dra_spawner.simulator.snapshot"),
    ("dra_spawner.simulator.fitting", "dra_spawner.kube.api"),
    ("dra_spawner.simulator.snapshot", "dra_spawner.profiles.claims"),
    ("dra_spawner.profiles.pairs", "dra_spawner.kube.api"),
    ("dra_spawner.profiles.merging", "dra_spawner.placeholders.planner.shapes"),
    ("dra_spawner.placeholders.planner.token_bucket", "dra_spawner.kube.api"),
    ("dra_spawner.placeholders.planner.policy", "dra_spawner.placeholders.controller.executor"),
    ("dra_spawner.kube.rights", "dra_spawner.profiles.claims"),
    ("dra_spawner.spawner.start_messages", "dra_spawner.placeholders.controller.executor"),
    ("dra_spawner.kube.api", "dra_spawner.kube.informers"),
    ("dra_spawner.service.node_figures", "dra_spawner.spawner.spawner"),
    ("dra_spawner.service.context", "dra_spawner.service.http.web_application"),
    ("dra_spawner.service.http.handlers", "dra_spawner.service.http.nodes_page"),
    ("dra_spawner.fit.limits", "dra_spawner.devcluster.clock"),
    ("dra_spawner.history.records", "dra_spawner.names"),
    ("dra_spawner.history.database", "dra_spawner.history.recorder"),
    ("dra_spawner.history_commands.opening", "dra_spawner.cli"),
    ("dra_spawner.uninstall.plan", "dra_spawner.check.check_outcome"),
    ("dra_spawner.profiles.language", "dra_spawner.profiles.lint.rules"),
    ("dra_spawner.profiles.drivers.amd", "dra_spawner.profiles.drivers.hami"),
    ("dra_spawner.uninstall.found_objects", "dra_spawner.uninstall.plan"),
    ("dra_spawner.calendars.occurrences", "dra_spawner.names"),
    ("dra_spawner.placeholders.planner.demand.settings", "dra_spawner.simulator.pods"),
    ("dra_spawner.placeholders.planner.demand.hold", "dra_spawner.placeholders.planner.demand.forecast"),
    ("dra_spawner.placeholders.planner.demand.floor", "dra_spawner.placeholders.planner.demand.seasonal"),
    ("dra_spawner.rehearsal.rehearse", "dra_spawner.kube.api"),
    ("dra_spawner.rehearsal.timetable", "dra_spawner.rehearsal.capacity"),
    ("dra_spawner.rehearsal_commands.cluster_sources", "dra_spawner.rehearsal_commands.rehearse_command"),
    ("dra_spawner.replay.traces", "dra_spawner.replay.replay"),
    ("dra_spawner.reports.misses", "dra_spawner.reports.plots"),
    ("dra_spawner.reports.history_misses", "dra_spawner.service.context"),
    ("dra_spawner.devcluster.api.validation.names", "dra_spawner.devcluster.api.validation.claims"),
)


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Output of the linter for a copy of the package."""
    code = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    command = [sys.executable, "-c", code, "--no-cache", "--config", "pyproject.toml"]
    wide = os.environ | {"COLUMNS": "1000"}
    return subprocess.run(command, cwd=directory, env=wide, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "dra_spawner", directory / "dra_spawner", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", directory)
    found = lint_imports(directory)
    assert found.returncode == 0, found.stdout
    return directory


@pytest.mark.parametrize(("importer", "imported"), WRONG)
def test_a_wrong_import_is_found(copy: Path, importer: str, imported: str):
    path = copy.joinpath(*importer.split(".")).with_suffix(".py")
    text = path.read_text()
    path.write_text(f"{text}\nimport {imported}\n")
    try:
        found = lint_imports(copy)
    finally:
        path.write_text(text)
    assert found.returncode == 1, found.stdout
    assert f"{importer} -> {imported}" in found.stdout

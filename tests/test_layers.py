"""The layers are law: `lint-imports` finds an import that goes the wrong way, wherever it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

WRONG: Final = (
    ("dra.quantity", "dra_spawner.names"),
    ("dra.model.devices", "dra_spawner.dra.allocation.allocator"),
    ("simulator.model.pods", "dra_spawner.simulator.snapshot"),
    ("simulator.fitting", "dra_spawner.kube.client.api"),
    ("simulator.snapshot", "dra_spawner.profiles.compiler.claims"),
    ("profiles.compiler.pairs", "dra_spawner.kube.client.api"),
    ("profiles.syntax.merging", "dra_spawner.placeholders.planner.targets.shapes"),
    ("profiles.compiler.language", "dra_spawner.profiles.lint.rules"),
    ("profiles.lint.cluster", "dra_spawner.profiles.lint.capacity"),
    ("profiles.drivers.shipped.amd", "dra_spawner.profiles.drivers.shipped.hami"),
    ("placeholders.planner.cluster.view", "dra_spawner.placeholders.planner.decisions.draining"),
    ("placeholders.planner.amounts.limit_usage", "dra_spawner.placeholders.planner.answers.outlook"),
    ("placeholders.controller.round.reconciler", "dra_spawner.placeholders.controller.answers.availability"),
    ("placeholders.controller.placeholder_controller", "dra_spawner.scale_ahead.controller.scale_ahead"),
    ("spawner.spawn_form", "dra_spawner.scale_ahead.demand.forecast"),
    ("scale_ahead.calendars.entries", "dra_spawner.scale_ahead.demand.minutes"),
    ("placeholders.planner.targets.policy", "dra_spawner.kube.client.api"),
    ("placeholders.planner.answers.waits", "dra_spawner.placeholders.planner.decide"),
    ("placeholders.planner.targets.policy", "dra_spawner.placeholders.controller.round.executor"),
    ("scale_ahead.demand.settings", "dra_spawner.simulator.model.pods"),
    ("scale_ahead.demand.estimators.floor", "dra_spawner.scale_ahead.demand.estimators.seasonal"),
    ("scale_ahead.calendars.occurrences", "dra_spawner.names"),
    ("kube.client.rights", "dra_spawner.profiles.compiler.claims"),
    ("doctor.rules.network", "dra_spawner.doctor.rules.paths"),
    ("spawner.progress.start_messages", "dra_spawner.placeholders.controller.round.executor"),
    ("spawner.progress.durations", "dra_spawner.spawner.spawn_form"),
    ("spawner.steps.vlan", "dra_spawner.spawner.steps.placement"),
    ("service.figures.node_figures", "dra_spawner.spawner.spawner"),
    ("service.context", "dra_spawner.service.http.web_application"),
    ("service.http.api.handlers", "dra_spawner.service.http.pages.nodes_page"),
    ("commands.cluster_files.limits", "dra_spawner.devcluster.clock"),
    ("commands.cluster_files.documents", "dra_spawner.service.context"),
    ("commands.cluster_files.questions", "dra_spawner.kube.client.api"),
    ("history.records", "dra_spawner.names"),
    ("history.database", "dra_spawner.history.recorder"),
    ("commands.history_files.opening", "dra_spawner.cli"),
    ("commands.removing.plan", "dra_spawner.commands.checking.check_outcome"),
    ("scale_ahead.rehearsal.rehearse", "dra_spawner.kube.client.api"),
    ("scale_ahead.reports.history_misses", "dra_spawner.service.context"),
    ("user_server.own_devices", "dra_spawner.versions"),
    ("devcluster.controllers.claim_controller", "dra_spawner.devcluster.embedded_cluster"),
    ("devcluster.clock", "tests.polling"),
    ("spawner.settings", "pytest"),
)
"""A module of the package, and what it must not import."""

PURE: Final = (
    "scale_ahead.calendars.occurrences",
    "doctor.examination",
    "doctor.rules.rights",
    "dra.cel.values",
    "placeholders.lifecycle",
    "placeholders.planner.answers.waits",
    "profiles.user_form.sizes",
    "scale_ahead.rehearsal.wording",
    "simulator.model.table",
    "commands.removing.plan",
)
IMPURE: Final = (
    *("asyncio", "concurrent.futures", "http.client", "importlib", "io", "kubernetes_asyncio", "logging", "os"),
    *("pathlib", "random", "secrets", "socket", "subprocess", "tempfile", "threading", "time", "urllib.request"),
)

CIRCLES: Final = (
    ("scale_ahead.calendars", "demand_lines", "occurrences"),
    ("commands", "checking.check_outcome", "hub_files.profiles_found"),
    ("dra.cel.syntax", "lexer", "parser"),
    ("simulator.model", "pod_limits", "pods"),
    ("scale_ahead.demand", "hold", "forecast"),
    ("scale_ahead.rehearsal", "timetable", "capacity"),
    ("scale_ahead.reports", "misses", "plots"),
    ("devcluster.api.storage", "garbage_collector", "store"),
    ("devcluster.api.validation", "claims", "names"),
    ("devcluster.kubelet", "pod_needs", "pod_worker"),
    ("kube", "client.api", "informers"),
    ("placeholders.controller.round", "executor", "expectations"),
    ("profiles.intel_gas", "choosing", "labels"),
    ("commands.rehearsing", "cluster_sources", "rehearse_command"),
    ("scale_ahead.replay", "replay", "traces"),
    ("service.metrics", "demand_metrics", "time_metrics"),
    ("spawner.devices", "diagnosis", "reader"),
    ("spawner.my_devices", "own_devices", "published"),
    ("spawner.objects", "api_objects", "start_objects"),
    ("commands.removing", "found_objects", "plan"),
)
"""A package, and two of its modules that import each other."""


def planted() -> Iterator[tuple[str, str, str]]:
    """Each module of the copy, what it imports, and what the linter says about it, as a pattern."""
    for importer, imported in (*WRONG, *product(PURE, IMPURE)):
        outside = imported if imported.startswith("dra_spawner.") else imported.partition(".")[0]
        yield importer, imported, rf"^- +{re.escape(f'dra_spawner.{importer} -> {outside}')} \(l\.\d+\)\n\n"
    for package, one, other in CIRCLES:
        for importer, imported in ((one, other), (other, one)):
            wanted = rf"^No cycles are allowed in dra_spawner\.{re.escape(package)}\.$"
            yield f"{package}.{importer}", f"dra_spawner.{package}.{imported}", wanted


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Output of the linter for a copy of the package."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    wide = os.environ | {"COLUMNS": "1000"}
    return subprocess.run(command, cwd=directory, env=wide, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "dra_spawner", tmp_path / "dra_spawner", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


@pytest.mark.needs_program("lint-imports")
def test_a_wrong_import_is_found(copy: Path) -> None:
    found = lint_imports(copy)
    assert found.returncode == 0, found.stdout + found.stderr
    for importer, imported, _ in planted():
        with copy.joinpath("dra_spawner", *importer.split(".")).with_suffix(".py").open("a") as file:
            file.write(f"\nimport {imported}\n")
    found = lint_imports(copy)
    assert found.returncode == 1, found.stdout + found.stderr
    passed = [
        f"{importer} -> {imported}"
        for importer, imported, wanted in planted()
        if not re.search(wanted, found.stdout, re.MULTILINE)
    ]
    assert not passed, "no contract forbids:\n" + "\n".join(passed)

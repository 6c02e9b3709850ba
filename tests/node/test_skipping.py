"""Where a real node cannot run, its tests are skipped with the reason, and CI does not accept that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import machine
from .machine import NoRealNode, examine

ROOT = Path(__file__).parents[2]
TEST = "tests/node/test_real_node.py::test_node_is_ready"

NOT_ROOT = """
import os, sys, pytest
from tests.node import machine
machine.os = type("NotRoot", (), {**vars(os), "geteuid": staticmethod(lambda: 1000)})
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_missing_root_skips_visibly_and_fails_where_it_must_not():
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "DRA_SPAWNER_"))}
    command = [sys.executable, "-c", NOT_ROOT, "-p", "no:cacheprovider", TEST]
    skipped = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert "1 skipped" in skipped.stdout
    assert "no real node: a kubelet needs root" in skipped.stdout
    environment["DRA_SPAWNER_REQUIRE_ALL"] = "1"
    failed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert failed.returncode == 1
    assert "DRA_SPAWNER_REQUIRE_ALL is set, but these were skipped:" in failed.stdout


def test_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine.shutil, "which", lambda tool: None if tool == "runc" else f"/bin/{tool}")
    with pytest.raises(NoRealNode, match=r"runc is not installed \(Debian package runc\)"):
        examine()

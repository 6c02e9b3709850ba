"""Where a real node cannot run, its tests are skipped with the reason; CI does not accept that, see tests/cluster."""

from __future__ import annotations

import pytest

from . import machine
from .machine import NoRealNode, examine


def test_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine.shutil, "which", lambda tool: None if tool == "runc" else f"/bin/{tool}")
    with pytest.raises(NoRealNode, match=r"runc is not installed \(Debian package runc\)"):
        examine()

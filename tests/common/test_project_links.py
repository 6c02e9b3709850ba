"""Addresses that messages name."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from dra_spawner.common.project_links import project_links, where


def test_a_checkout_has_paths() -> None:
    assert project_links() == {}
    assert where("docs/reference/check.md") == "docs/reference/check.md"


def test_an_installed_package_has_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "dra_spawner-1.2.0.dist-info"
    directory.mkdir()
    text = "Metadata-Version: 2.4\nName: dra-spawner\nVersion: 1.2.0\nProject-URL: Files, https://git.example.org/x/blob/v1.2.0\n"
    (directory / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert where("docs/reference/check.md") == "https://git.example.org/x/blob/v1.2.0/docs/reference/check.md"

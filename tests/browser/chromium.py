"""The browser of the tests: Debian's Chromium, and pictures of its pages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Where to put pictures of the pages, if anywhere (they illustrate the README, and CI stores them).
_PICTURES: Final = os.environ.get("DRA_SPAWNER_PICTURES")


def chromium() -> tuple[str, list[str]]:
    """Path and flags; skips the test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    return path, [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]


def picture_path(name: str) -> Path | None:
    """File for a picture of a page; None if none is wanted."""
    return Path(_PICTURES) / f"{name}.png" if _PICTURES else None

"""A service that is imported only when a test says so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.polling import PATIENCE_SECONDS

_PROGRAM: Final = f"""
import importlib.abc, pathlib, runpy, sys, time

file, end = pathlib.Path(sys.argv.pop()), time.monotonic() + {PATIENCE_SECONDS}

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        while name == "dra_spawner.service.application" and not file.exists() and time.monotonic() < end:
            time.sleep(0.02)  # in a process of its own, which a test releases by a file

sys.meta_path.insert(0, Slow())
runpy.run_module("dra_spawner.service", run_name="__main__")
"""


def slow_service(may_import: Path) -> list[str]:
    """As ``python -m dra_spawner.service``, but the import of its modules waits until a file exists."""
    return [sys.executable, "-c", _PROGRAM, str(may_import)]

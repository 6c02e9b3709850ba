"""`dra_spawner.dra` needs nothing else of this project: it could be published alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import dra_spawner.dra

CODE = """
import importlib, pkgutil, dra_spawner.dra as dra
print(*(importlib.import_module(each.name).__file__ for each in pkgutil.walk_packages(dra.__path__, "dra_spawner.dra.")), sep="\\n")
"""


def test_every_module_is_imported_where_nothing_else_is(tmp_path: Path) -> None:
    copy = tmp_path / "dra_spawner" / "dra"
    source = Path(dra_spawner.dra.__path__[0])
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "dra_spawner" / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {Path(line) for line in done.stdout.split()}
    assert len(found) == len(list(source.rglob("*.py"))) - 1
    assert all(path.is_relative_to(copy) for path in found)

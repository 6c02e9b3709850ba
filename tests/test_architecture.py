"""docs/explanation/architecture.md names modules that exist."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

DOCUMENT = (Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md").read_text()


def test_the_modules_exist() -> None:
    modules = sorted(set(re.findall(r"\bdra_spawner(?:\.\w+)+", DOCUMENT)))
    assert len(modules) > 25
    missing = [name for name in modules if find_spec(name) is None]
    assert not missing, f"there is no {', '.join(missing)}"

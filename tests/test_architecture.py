"""docs/explanation/architecture.md names modules that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md").read_text()
MODULES = sorted(set(re.findall(r"\bdra_spawner(?:\.\w+)+", DOCUMENT)))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exists(name: str) -> None:
    assert importlib.util.find_spec(name) is not None


def test_the_document_names_many_modules() -> None:
    assert len(MODULES) > 25

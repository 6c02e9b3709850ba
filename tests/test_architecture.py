"""docs/explanation/architecture.md and CONTRIBUTING.md show the packages as they are, and no package has more modules than one sees."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from tests.structure import levels

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "explanation" / "architecture.md").read_text()


def test_the_modules_exist() -> None:
    modules = sorted(set(re.findall(r"\bdra_spawner(?:\.\w+)+", DOCUMENT)))
    assert len(modules) > 25
    missing = [name for name in modules if find_spec(name) is None]
    assert not missing, f"there is no {', '.join(missing)}"


def test_the_tree_and_the_table_have_every_package() -> None:
    there = {
        each.name
        for each in (ROOT / "dra_spawner").iterdir()
        if each.suffix == ".py" or (each / "__init__.py").exists()
    }
    there.remove("__init__.py")
    tree = DOCUMENT.partition("```text\ndra_spawner/\n")[2].partition("```")[0]
    named = {each for line in tree.splitlines() for each in re.findall(r"(?<!\S)(\w+(?:/|\.py))", line[:33])}
    assert {each.rstrip("/") for each in named} == there
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Packages")[2].partition("\n## ")[0]
    assert [each for each in sorted(there) if f"/{each}/`" not in table and f"{each}`" not in table] == []


def test_no_level_has_more_modules_than_one_sees() -> None:
    crowded = [name for name, (modules, _) in levels().items() if modules > 15]
    assert crowded == [], "give some of them a package of their own"

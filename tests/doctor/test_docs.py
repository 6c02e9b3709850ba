"""docs/reference/doctor.md agrees with the code."""

import re
from pathlib import Path

from dra_spawner.doctor.examination import ALL_RULES

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "doctor.md").read_text()


def test_the_table_has_every_rule() -> None:
    """Add the row of a new rule."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \| (.*) \| (.*) \|$", TEXT, re.MULTILINE)
    assert rows == [(rule.code, ", ".join(rule.severities), rule.meaning, rule.remedy) for rule in ALL_RULES]

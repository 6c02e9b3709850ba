"""docs/reference/check.md agrees with the code."""

import json
import re
from pathlib import Path

import jsonschema

from dra_spawner.profiles.lint import all_rules
from dra_spawner.spawner import DRASpawner
from tests.commands.checking.output_schema import OUTPUT_SCHEMA

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "check.md").read_text()


def test_the_table_has_every_rule():
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \| (yes|no) \| (.*) \|$", TEXT, re.MULTILINE)
    assert rows == [
        (rule.name, ", ".join(rule.levels), "yes" if rule.needs_cluster else "no", rule.meaning) for rule in all_rules()
    ]


def test_rules_have_names_of_their_own():
    assert len({rule.name for rule in all_rules()}) == len(all_rules())


def test_the_example_of_the_output_is_one():
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    jsonschema.validate(json.loads(example), OUTPUT_SCHEMA)


def test_traits_have_the_documented_defaults():
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| `([^`]+)` \|", TEXT, re.MULTILINE))
    traits = DRASpawner.class_traits(config=True)
    assert set(rows) == {
        "nodes_may_be_added",
        "ignored_profile_rules",
        "drivers_prepare_for",
        "kubernetes_feature_gates",
    }
    assert rows == {name: repr(traits[name].default()) for name in rows}

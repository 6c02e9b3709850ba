"""Rules about profiles: what can never work on a cluster, or hardly as meant, told before a user meets it. Pure."""

from dra_spawner.profiles.lint.fit import never_text
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.report import CheckedChoice, CheckReport, check_choice, check_choices, problem_finding
from dra_spawner.profiles.lint.rules import RULES, all_rules, unknown_rules

__all__ = [
    "RULES",
    "CheckReport",
    "CheckedChoice",
    "Inventory",
    "all_rules",
    "check_choice",
    "check_choices",
    "never_text",
    "problem_finding",
    "unknown_rules",
]

"""Every rule that a module of lint, of drivers or of doctor defines is in the table of all rules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from dra_spawner import doctor, profiles
from dra_spawner.doctor.examination import ALL_RULES
from dra_spawner.doctor.findings import DoctorRule
from dra_spawner.profiles.findings import LintRule
from dra_spawner.profiles.lint import all_rules


def test_no_rule_is_missing() -> None:
    listed = {*all_rules(), *ALL_RULES}
    missing = [
        f"{module.name}.{name}"
        for package in (doctor, profiles)
        for module in walk_packages(package.__path__, f"{package.__name__}.")
        for name, member in vars(import_module(module.name)).items()
        if isinstance(member, (DoctorRule, LintRule)) and member not in listed
    ]
    assert not missing, f"no table has {', '.join(missing)}: call rules_of below them, and add its rules to all rules"

"""docs/reference/drivers.md: its examples are sound, and every driver is there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dra_spawner.profiles.drivers import known_drivers
from dra_spawner.profiles.findings import Level
from tests.all_of_them import all_of_them
from tests.profiles.drivers.choices import found

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "drivers.md").read_text()
EXAMPLES = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.+?)^```$", TEXT, re.M | re.S)]


@all_of_them("example", EXAMPLES)
def test_an_example_is_sound(example: dict):
    findings = found(example.pop("device_claims"), **example)
    assert [each for each in findings if each.level is not Level.INFO] == []


def test_every_driver_has_an_example():
    classes = {each.name for driver in known_drivers() for each in driver.classes}
    shown = set(re.findall(r"device_class: ([a-z0-9.-]+)", TEXT))
    assert shown <= classes
    for driver in known_drivers():
        if driver.name not in ("compute-domain.nvidia.com", "qat.intel.com"):
            assert shown & set(driver.class_types), driver.name
        assert f"`{driver.name}`" in TEXT

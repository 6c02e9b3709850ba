"""The YAML of the documentation is what its pages say: values of charts, settings of the service, profiles."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import jsonschema
import pytest
import yaml
from traitlets.config import Config

from dra_spawner.devcluster import demo
from dra_spawner.profiles import profile_list_problems
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.user_server.first_kernel import first_notebook
from tests.all_of_them import all_of_them
from tests.chart.rendering import CHART, IMAGE, rendered
from tests.cluster.policy import YAML_LOADER
from tests.docs.pages import pages

SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text())
BLOCKS: Final = [
    pytest.param(yaml.load(block.text, YAML_LOADER), id=f"{page.name} {number}")
    for page in pages()
    for number, block in enumerate(block for block in page.blocks if block.language == "yaml")
]
MARKS: Final = {"image", "placeholders", "service", "history", "hub"}


def is_of_our_chart(value: Any) -> bool:
    """Whether YAML is values of the chart dra-spawner: a ``hub`` alone is of zero-to-jupyterhub."""
    return (
        isinstance(value, dict)
        and value.keys() <= SCHEMA["properties"].keys()
        and bool(value.keys() & (MARKS - {"hub"}))
    )


CHART_VALUES: Final = [each for each in BLOCKS if is_of_our_chart(each.values[0])]
PROFILES: Final = [
    each
    for each in BLOCKS
    if isinstance(each.values[0], dict) and (each.values[0].get("singleuser") or {}).get("profileList")
]


def test_there_are_some() -> None:
    assert len(CHART_VALUES) > 4
    assert len(PROFILES) > 5


@all_of_them("values", CHART_VALUES)
def test_values_fit_the_chart_and_its_service(helm: Path, values: dict[str, Any]) -> None:
    """The schema, Helm's rendering, and the service that reads the settings."""
    whole = {**IMAGE, **values}
    jsonschema.validate(whole, SCHEMA)
    assert rendered(whole)
    settings = (values.get("service") or {}).get("config") or {}
    service = DRASpawnerService(config=Config({"DRASpawnerService": settings}))
    for name, value in settings.items():
        assert getattr(service, name) == value


@pytest.mark.parametrize("values", PROFILES)
def test_profiles_are_sound(values: dict[str, Any]) -> None:
    assert profile_list_problems(values["singleuser"]["profileList"]) == []


def test_the_fast_servers_have_the_settings_of_the_demos() -> None:
    """docs/how-to/images.md: files of these values, beside the files with which figures are measured."""
    text = next(page for page in pages() if page.path.stem == "images")
    values = yaml.safe_load(next(block.text for block in text.blocks if "extraFiles" in block.text))["singleuser"]
    files = {each["mountPath"]: each["data"] for each in values["extraFiles"].values()}
    own = Path(demo.__file__).with_name("jupyter")
    assert files == {
        f"{values['extraEnv']['JUPYTER_CONFIG_PATH']}/{path.relative_to(own)}": json.loads(path.read_text())
        for path in own.rglob("*.json")
    }
    assert first_notebook(values["extraEnv"] | {"JUPYTERHUB_DEFAULT_URL": values["defaultUrl"]}) == "start.ipynb"


def test_the_class_is_on_tuesdays_at_its_time() -> None:
    """docs/how-to/class-next-tuesday.md: its values, as the service reads them, through the next weeks."""
    text = next(page for page in pages() if page.path.stem == "class-next-tuesday")
    values = yaml.safe_load(next(block.text for block in text.blocks if "calendar_entries" in block.text))
    service = DRASpawnerService(config=Config({"DRASpawnerService": values["service"]["config"]}))
    monday = datetime(2026, 11, 23, tzinfo=ZoneInfo("Europe/Berlin"))
    found = service.new_scale_ahead().calendars.occurrences(monday, timedelta(days=14))
    assert [(each.begins.astimezone(monday.tzinfo).strftime("%A %d %H:%M"), each.users) for each in found] == [
        ("Tuesday 24 17:00", 60),
        ("Tuesday 01 17:00", 60),
    ]

"""Helm values against the schema of the chart."""

import json
from pathlib import Path

import jsonschema
import pytest

from dra_spawner.common.json_types import JsonObject

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT.parent / "shared" / "data" / "z2jh-values.schema.json"


needs_schema = pytest.mark.skipif(
    not SCHEMA.exists(), reason="the schema of zero-to-jupyterhub's values is not beside this checkout"
)


def problems(values: JsonObject) -> list[str]:
    """Errors of values by the chart's schema; values of the chart's own defaults may be missing."""
    schema = json.loads(SCHEMA.read_text())
    errors = jsonschema.Draft7Validator(schema).iter_errors(values)
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors if error.validator != "required"]

"""The JSON Schema agrees with the parser, as far as JSON Schema can express its rules."""

import json
from importlib import resources

from hypothesis import given
from jsonschema import Draft202012Validator

from dra_spawner.profiles import compile_device_claims
from dra_spawner.profiles.syntax.json_schema import json_schema
from dra_spawner.profiles.syntax.keys import REQUEST_KEYS
from tests.all_of_them import all_of_them
from tests.profiles import strategies
from tests.profiles.accepted import ACCEPTED
from tests.profiles.refused import BEYOND_JSON_SCHEMA, REFUSED

VALIDATOR = Draft202012Validator(json_schema())
SAYABLE = {case: value for case, (value, *_) in REFUSED.items() if case not in BEYOND_JSON_SCHEMA}


def test_the_schema_is_a_json_schema():
    Draft202012Validator.check_schema(json_schema())


@all_of_them("value", ACCEPTED)
def test_accepted_claims_are_valid(value):
    VALIDATOR.validate(value)


@all_of_them("value", SAYABLE)
def test_refused_claims_are_not_valid(value):
    assert not VALIDATOR.is_valid(value)


@given(strategies.device_claims)
def test_any_accepted_claims_are_valid(value):
    compile_device_claims(value, admin_access=True)
    VALIDATOR.validate(value)


def test_every_key_has_a_description():
    described = json_schema()["$defs"]["request"]["anyOf"]
    properties = {name: entry for form in described for name, entry in form["properties"].items()}
    assert set(properties) == set(REQUEST_KEYS)
    assert all(entry["description"].endswith(".") for entry in properties.values())


def test_the_shipped_file_is_up_to_date():
    shipped = resources.files("dra_spawner.profiles").joinpath("device_claims.schema.json").read_text()
    assert shipped == json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", (
        "write json.dumps(json_schema(), indent=2, ensure_ascii=False) and a newline to device_claims.schema.json"
    )

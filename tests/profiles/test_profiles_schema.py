"""The JSON Schema of profiles: documented examples are valid, misspelt keys are not."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from dra_spawner.profiles.profiles_schema import profiles_schema
from tests.all_of_them import all_of_them
from tests.profiles.accepted import ACCEPTED

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(profiles_schema())
VALUES = sorted((ROOT / "helm-values").glob("*.yaml"))


def override(**traits):
    return [{"display_name": "x", "kubespawner_override": traits}]


def choice(**traits):
    options = {"size": {"choices": {"a": {"display_name": "a", "kubespawner_override": traits}}}}
    return [{"display_name": "x", "profile_options": options}]


def test_the_schema_is_a_json_schema():
    Draft202012Validator.check_schema(profiles_schema())


@pytest.mark.parametrize("path", VALUES, ids=[path.name for path in VALUES])
def test_the_shipped_values_are_valid(path):
    for document in yaml.safe_load_all(path.read_text()):
        VALIDATOR.validate(document)


def test_examples_of_the_documentation_are_valid():
    text = "".join(
        (ROOT / "docs" / name).read_text()
        for name in ("reference/profiles.md", "how-to/vlans.md", "how-to/intel-gas.md")
    )
    examples = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    used = 0
    for example in examples:
        if isinstance(example, list) or "singleuser" in example:
            VALIDATOR.validate(example)
            used += 1
        elif "device_claims" in example:
            VALIDATOR.validate(override(**example))
            used += 1
        elif "kubespawner_override" in example:
            VALIDATOR.validate([example])
            used += 1
    assert used > 20


@all_of_them("value", ACCEPTED)
def test_accepted_claims_are_valid_in_profiles(value):
    VALIDATOR.validate(override(device_claims=value))
    VALIDATOR.validate({"singleuser": {"profileList": {"a": choice(device_claims=value)[0]}}})


@pytest.mark.parametrize(
    "part",
    [
        {"device_claims": {"gpu": {"capacity": {"memory": "5Gi"}}}},
        {"device_claims": {"x": {"requests": {"gpu": {"count": 2}}}}},
        {"device_claims": {"gpu": None}},
        {"device_claims": {"gpu": {"shared": {"group": "physics"}}}},
        {"intel_gas": {"memory": "4Gi", "tiles": None}},
        {"vlans": {"range": "200-299"}},
        {"image": "x", "environment": {"A": "b"}},
    ],
)
def test_a_choice_may_be_a_part(part):
    VALIDATOR.validate(choice(**part))


@pytest.mark.parametrize(
    "traits",
    [
        {"device_claims": {"gpu": {"capcity": {"memory": "5Gi"}}}},
        {"device_claims": {"gpu": {"capacity": {"memory": "5GB"}}}},
        {"device_claims": {"GPU": {"count": 1}}},
        {"intel_gas": {"millicore": 500}},
        {"vlans": {"ranges": "1-2"}},
    ],
)
def test_misspelt_keys_are_not_valid(traits):
    assert not VALIDATOR.is_valid(override(**traits))
    assert not VALIDATOR.is_valid({"profile_list": choice(**traits)})
    assert not VALIDATOR.is_valid({"hub": {"config": {"DRASpawner": traits}}})


def test_the_shipped_file_is_up_to_date():
    shipped = resources.files("dra_spawner.profiles").joinpath("profiles.schema.json").read_text()
    assert shipped == json.dumps(profiles_schema(), indent=2, ensure_ascii=False) + "\n", (
        "dra-spawner schema > dra_spawner/profiles/profiles.schema.json"
    )

"""Selectors that look into the domain of the device's own driver see the named attributes only."""

import pytest

from dra_spawner.dra.allocation.visibility import Visibility
from dra_spawner.dra.cel.evaluation.influences import attributes_that_matter
from dra_spawner.dra.model.devices import Attribute, AttributeKind, DeviceDescription
from dra_spawner.profiles.syntax.properties import PROPERTIES

DRIVER = "gpu.example.com"


def description(**attributes):
    values = {
        name.replace("__", "/").replace("_", "."): Attribute(AttributeKind.STRING, value)
        for name, value in attributes.items()
    }
    return DeviceDescription(DRIVER, values, {}, False)


def seen(expression, **attributes):
    return Visibility(attributes_that_matter(expression)).seen(description(**attributes))


OWN = "device.attributes[device.driver]"


@pytest.mark.parametrize(
    "expression",
    [
        f'{OWN}.model == "x"',
        f'has({OWN}.model) && {OWN}["model"] == "x"',
        f'cel.bind(own, {OWN}, "model" in own && own.model == "x")',
        f'device.attributes["{DRIVER}"].model == "x"',
        PROPERTIES["product"].selector("A100*"),
    ],
)
def test_only_named_attributes_matter(expression):
    assert seen(expression, model="a", uuid="1") == seen(expression, model="a", uuid="2")
    assert seen(expression, model="a", uuid="1") != seen(expression, model="b", uuid="1")
    assert seen(expression, gpu_example_com__model="a") != seen(expression, gpu_example_com__model="b")


@pytest.mark.parametrize("expression", [f'{OWN}.exists(k, k == "uuid")', f'{OWN}[device.driver] == "x"'])
def test_attributes_that_are_not_named_matter_too(expression):
    assert seen(expression, model="a", uuid="1") != seen(expression, model="a", uuid="2")


def test_all_attributes_matter_where_names_are_computed():
    assert attributes_that_matter('device.attributes[string("x")].model == "x"') is None

"""What parsed claims are compiled to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.cel import CelDevice, compile_selector
from dra_spawner.profiles import compile_device_claims, template_manifest
from dra_spawner.profiles.claim_plan import product_selector


def device(**attributes):
    values = {name: {"string": value} for name, value in attributes.items()}
    return CelDevice.from_device("gpu.example.com", values, {}, False)


def test_compiled_claim():
    (claim,) = compile_device_claims(
        {
            "gpu": {
                "device_class": "gpu.example.com",
                "product": "A100*",
                "capacity": {"memory": "10Gi"},
                "where": "device.allowMultipleAllocations",
                "count": 2,
            }
        }
    ).claims
    assert claim.spec == {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "allocationMode": "ExactCount",
                        "count": 2,
                        "selectors": [
                            {"cel": {"expression": product_selector("A100*")}},
                            {"cel": {"expression": "device.allowMultipleAllocations"}},
                        ],
                        "capacity": {"requests": {"memory": "10Gi"}},
                    },
                }
            ]
        }
    }


def test_template_labels_reach_the_generated_claim():
    (claim,) = compile_device_claims({"gpu": {"device_class": "gpu.example.com"}}).claims
    template = template_manifest(claim, name="t", namespace="n", labels={"a": "b"}, annotations={"c": "d"})
    assert template["metadata"] == {"name": "t", "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert template["spec"]["metadata"] == {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert template["spec"]["spec"] == claim.spec


@pytest.mark.parametrize(
    ("pattern", "product", "matches"),
    [
        ("A100*", "NVIDIA A100-SXM4-40GB", True),
        ("A100*", "A100-SXM4-40GB", True),
        ("a100*", "NVIDIA A100-SXM4-40GB", True),
        ("A100", "NVIDIA A100-SXM4-40GB", False),
        ("NVIDIA A100*", "NVIDIA A100-SXM4-40GB", True),
        ("100*", "NVIDIA A100-SXM4-40GB", False),
        ("L4", "L40", False),
        ("L4?", "L40", True),
        ("L40*", "NVIDIA L40S", True),
        ("RTX A6000 (Ada)", "RTX A6000 (Ada)", True),
        (".*", "A100", False),
    ],
)
@pytest.mark.parametrize("attribute", ["productName", "model"])
def test_product(pattern, product, matches, attribute):
    selector = compile_selector(product_selector(pattern))
    assert selector.matches(device(**{attribute: product})) is matches


def test_product_is_no_error_on_a_device_without_a_product():
    selector = compile_selector(product_selector("A100*"))
    assert selector.matches(device(uuid="1")) is False
    assert selector.matches(CelDevice.from_device("nic.example.com", {}, {}, False)) is False


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=64))
def test_any_product_stays_inside_its_literal(product):
    """A pattern made of anything matches the product of that very name, and only such devices."""
    plain = product.replace("*", "").replace("?", "")
    selector = compile_selector(product_selector(plain or "x"))
    assert selector.matches(device(productName=plain or "x")) is True
    assert selector.matches(device(productName=f"{plain}!nothing that was asked for")) is False

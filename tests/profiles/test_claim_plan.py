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


def compiled(claim):
    (planned,) = compile_device_claims({"gpu": claim}).claims
    return planned.spec["devices"]


def test_compiled_alternatives():
    toleration = {"key": "example.com/fault", "operator": "Exists", "tolerationSeconds": 60}
    devices = compiled(
        {
            "first_available": {
                "share": {"device_class": "share.example.com", "capacity": {"memory": "5Gi"}, "where": "true"},
                "all": {"device_class": "gpu.example.com", "count": "all", "tolerations": [toleration]},
            }
        }
    )
    assert devices == {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {
                        "name": "share",
                        "deviceClassName": "share.example.com",
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "selectors": [{"cel": {"expression": "true"}}],
                        "capacity": {"requests": {"memory": "5Gi"}},
                    },
                    {
                        "name": "all",
                        "deviceClassName": "gpu.example.com",
                        "allocationMode": "All",
                        "tolerations": [toleration],
                    },
                ],
            }
        ]
    }


def test_compiled_constraints_and_config():
    parameters = {"kind": "GpuConfig", "list": [1, {"user": "{username}"}]}
    devices = compiled(
        {
            "requests": {"a": {"device_class": "gpu.example.com"}, "b": {"device_class": "nic.example.com"}},
            "constraints": [
                {"match_attribute": "x.example.com/root", "requests": ["a", "b"]},
                {"distinct_attribute": "y.example.com/z"},
            ],
            "config": [
                {"driver": "gpu.example.com", "parameters": parameters, "requests": ["a"]},
                {"driver": "d", "parameters": {}},
            ],
        }
    )
    assert devices["constraints"] == [
        {"requests": ["a", "b"], "matchAttribute": "x.example.com/root"},
        {"distinctAttribute": "y.example.com/z"},
    ]
    assert devices["config"] == [
        {"requests": ["a"], "opaque": {"driver": "gpu.example.com", "parameters": parameters}},
        {"opaque": {"driver": "d", "parameters": {}}},
    ]


def test_claims_from_elsewhere():
    plan = compile_device_claims(
        {
            "channel": {"template": "imex-channel"},
            "team": {"claim": "team-gpu", "containers": {"notebook": ["gpu"], "sidecar": "all", "logger": []}},
            "own": {"device_class": "gpu.example.com"},
        }
    )
    assert [claim.pod_entry("made") for claim in plan.claims] == [
        {"name": "channel", "resourceClaimTemplateName": "imex-channel"},
        {"name": "team", "resourceClaimName": "team-gpu"},
        {"name": "own", "resourceClaimTemplateName": "made"},
    ]
    assert list(plan.specs) == ["own"]
    assert plan.device_classes == ("gpu.example.com",)
    assert plan.container_claims() == {
        "notebook": [{"name": "channel"}, {"name": "team", "request": "gpu"}, {"name": "own"}],
        "sidecar": [{"name": "team"}],
    }


def test_a_spec_stays_as_it_is():
    spec = {
        "devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "c"}},
                {"name": "s", "firstAvailable": [{"name": "x", "deviceClassName": "d"}]},
            ]
        }
    }
    plan = compile_device_claims({"gpu": {"spec": spec, "containers": {"notebook": ["s"], "sidecar": ["r", "s"]}}})
    assert plan.claims[0].spec == spec
    assert plan.device_classes == ("c", "d")
    assert plan.container_claims() == {"notebook": [{"name": "gpu", "request": "s"}], "sidecar": [{"name": "gpu"}]}


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

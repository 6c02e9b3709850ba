"""Compiled objects of parsed claims."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.cel import CelDevice, compile_selector
from dra_spawner.profiles import compile_device_claims, template_manifest
from dra_spawner.profiles.compiler.claim_plan import product_selector
from dra_spawner.profiles.compiler.claims import SharedBy
from dra_spawner.profiles.compiler.shared_claims import NotInGroup, Scope, scope_of, shared_claim_manifest
from tests.all_of_them import all_of_them
from tests.presence import present


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
    return present(planned.spec)["devices"]


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


def test_a_spec_is_unchanged():
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


@all_of_them(
    "pattern, product, matches",
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
def test_product(pattern, product, matches):
    selector = compile_selector(product_selector(pattern))
    assert selector.matches(device(productName=product)) is matches
    assert selector.matches(device(model=product)) is matches


def test_product_is_no_error_on_a_device_without_a_product():
    selector = compile_selector(product_selector("A100*"))
    assert selector.matches(device(uuid="1")) is False
    assert selector.matches(CelDevice.from_device("nic.example.com", {}, {}, False)) is False


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=64))
def test_any_product_stays_inside_its_literal(product):
    """A pattern made of anything matches the product of that very name, and no other device."""
    plain = product.replace("*", "").replace("?", "")
    selector = compile_selector(product_selector(plain or "x"))
    assert selector.matches(device(productName=plain or "x")) is True
    assert selector.matches(device(productName=f"{plain}!nothing that was asked for")) is False


GPU = {"device_class": "gpu.example.com"}
NIC = {"device_class": "nic.example.com"}
ROOT = "resource.kubernetes.io/pcieRoot"


def test_a_claim_of_an_optional_device_alone_is_left_out_as_a_whole():
    plan = compile_device_claims(
        {
            "gpu": {"first_available": {"mig": GPU, "none": {}}, "companions": {"x": {"manifest": CONFIG_MAP}}},
            "nic": NIC,
        }
    )
    assert [claim.name for claim in plan.claims] == ["gpu", "nic"]
    assert [claim.name for claim in present(plan.fallback).claims] == ["nic"]
    assert [each.name for each in plan.companions] == ["gpu-x"]
    assert present(plan.fallback).companions == ()
    assert present(plan.fallback).fallback is None
    assert compile_device_claims({"gpu": GPU, "nic": NIC}).fallback is None


def test_entries_about_an_optional_device_alone_are_left_out_with_the_device():
    plan = compile_device_claims(
        {
            "a": {
                "requests": {
                    "gpu": {"first_available": {"mig": GPU, "none": {}}},
                    "nic": NIC,
                    "two": {**NIC, "count": 2},
                    "disk": NIC,
                },
                "constraints": [
                    {"match_attribute": ROOT},
                    {"match_attribute": ROOT, "requests": ["gpu", "nic"]},
                    {"match_attribute": ROOT, "requests": ["gpu/mig", "two"]},
                    {"match_attribute": ROOT, "requests": ["gpu", "nic", "disk"]},
                ],
                "config": [
                    {"driver": "d", "parameters": {}},
                    {"driver": "d", "parameters": {}, "requests": ["gpu/mig"]},
                    {"driver": "d", "parameters": {}, "requests": ["gpu", "disk"]},
                ],
                "containers": {"notebook": ["gpu", "nic"], "sidecar": "all", "logger": ["gpu"]},
            }
        }
    )
    fallback = present(plan.fallback)
    devices = present(fallback.claims[0].spec)["devices"]
    assert [request["name"] for request in devices["requests"]] == ["nic", "two", "disk"]
    assert devices["constraints"] == [
        {"matchAttribute": ROOT},
        {"requests": ["two"], "matchAttribute": ROOT},
        {"requests": ["nic", "disk"], "matchAttribute": ROOT},
    ]
    assert [config.get("requests") for config in devices["config"]] == [None, ["disk"]]
    assert fallback.container_claims() == {"notebook": [{"name": "a", "request": "nic"}], "sidecar": [{"name": "a"}]}


def test_pairs_are_sets_of_requests_with_a_constraint_each():
    plan = compile_device_claims(
        {
            "a": {
                "requests": {"disk": NIC},
                "pairs": {
                    "count": 2,
                    "match_attribute": ROOT,
                    "requests": {"gpu": {"first_available": {"mig": GPU, "whole": GPU}}, "nic": NIC},
                },
                "config": [{"driver": "d", "parameters": {}, "requests": ["gpu/mig", "nic"]}],
                "containers": {"notebook": ["gpu", "gpu-0", "disk"], "sidecar": ["nic-1"]},
            }
        }
    )
    devices = present(plan.claims[0].spec)["devices"]
    assert [request["name"] for request in devices["requests"]] == ["disk", "gpu-0", "nic-0", "gpu-1", "nic-1"]
    assert devices["constraints"] == [
        {"requests": ["gpu-0", "nic-0"], "matchAttribute": ROOT},
        {"requests": ["gpu-1", "nic-1"], "matchAttribute": ROOT},
    ]
    assert devices["config"][0]["requests"] == ["gpu-0/mig", "gpu-1/mig", "nic-0", "nic-1"]
    assert plan.container_claims() == {
        "notebook": [{"name": "a", "request": name} for name in ("gpu-0", "gpu-1", "disk")],
        "sidecar": [{"name": "a", "request": "nic-1"}],
    }


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def test_a_networks_configuration_is_text_in_the_api():
    network = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "n"}}
    entries = {
        "mapping": {"manifest": {**network, "spec": {"config": {"type": "macvlan"}}}},
        "text": {"manifest": {**network, "spec": {"config": "x"}}},
        "own": {"manifest": CONFIG_MAP},
    }
    found = compile_device_claims({"nic": {**NIC, "companions": entries}}).companions
    assert [(each.name, each.plural, each.shared) for each in found] == [
        ("nic-mapping", "network-attachment-definitions", True),
        ("nic-text", "network-attachment-definitions", True),
        ("nic-own", "configmaps", False),
    ]
    assert [each.manifest.get("spec") for each in found] == [{"config": '{"type": "macvlan"}'}, {"config": "x"}, None]


def shared(**sharing):
    (claim,) = compile_device_claims({"gpu": {**GPU, "shared": sharing}}).claims
    return claim


def shared_name(claim, scope):
    return shared_claim_manifest(claim, scope, slug="s", labels={}, annotations={})["metadata"]["name"]


def test_a_shared_claim_is_named_by_scope_name_and_shape():
    claim = shared(by="user")
    ada = Scope(SharedBy.USER, "ada")
    same = shared(by="user", keep="10m")
    (other,) = compile_device_claims({"gpu": {**GPU, "count": 2, "shared": {"by": "user"}}}).claims
    (renamed,) = compile_device_claims({"gpu2": {**GPU, "shared": {"by": "user"}}}).claims
    names = [shared_name(claim, Scope(SharedBy.GROUP, "ada")), shared_name(other, ada), shared_name(renamed, ada)]
    assert shared_name(claim, ada) == shared_name(same, ada)
    assert len({*names, shared_name(claim, ada)}) == 4
    assert claim.pod_entry("made") == {"name": "gpu", "resourceClaimName": "made"}


@pytest.mark.parametrize(
    ("sharing", "groups", "scope"),
    [
        ({"by": "user"}, ["a"], "user:ada"),
        ({"by": "everybody"}, [], "everybody"),
        ({"by": "group", "group": "a"}, ["b", "a"], "group:a"),
        ({"by": "group", "group": ["a", "b"]}, ["b", "a"], "group:a"),
        ({"by": "group", "group": ["c", "b"]}, ["b", "a"], "group:b"),
    ],
)
def test_a_shared_claim_has_a_scope(sharing, groups, scope):
    assert str(scope_of(shared(**sharing).sharing, "ada", groups)) == scope


def test_a_user_in_none_of_the_groups_is_refused():
    with pytest.raises(NotInGroup, match="a, b"):
        scope_of(shared(by="group", group=["a", "b"]).sharing, "ada", ["c"])

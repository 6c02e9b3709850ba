"""Cilium's policies as Kubernetes' own; parts without a translation are refused."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.doctor.cilium_policies import NAMESPACE_LABEL, NotTranslated, network_policies_of
from dra_spawner.doctor.network_policies import Peer, closing_policies
from tests.all_of_them import all_of_them
from tests.doctor.objects import HUB_LABELS, NAMESPACE, SERVICE_LABELS, cilium

KIND = "CiliumNetworkPolicy"
HUB = Peer({**HUB_LABELS, NAMESPACE_LABEL: NAMESPACE})
SERVICE = Peer({**SERVICE_LABELS, NAMESPACE_LABEL: NAMESPACE}, "10.1.0.2", 8181, "http")
TO_SERVICE = {"toEndpoints": [{"matchLabels": {f"k8s:{key}": value for key, value in SERVICE_LABELS.items()}}]}


def to(namespace: str) -> dict[str, Any]:
    return {"toEndpoints": [{"matchLabels": {f"k8s:{NAMESPACE_LABEL}": namespace}}]}


def on(port: str, **more: Any) -> dict[str, Any]:
    return {"toPorts": [{"ports": [{"port": port, **more}]}]}


@all_of_them(
    [
        pytest.param([], True, id="no section"),
        pytest.param([{}], False, id="nothing"),
        pytest.param([TO_SERVICE], True, id="labels"),
        pytest.param([{"toEndpoints": [{}]}], True, id="all pods"),
        pytest.param([{"toEndpoints": []}], False, id="no pods"),
        pytest.param([{"toEndpoints": [{"matchLabels": {"reserved:host": ""}}]}], False, id="nodes"),
        pytest.param([to(NAMESPACE)], True, id="namespace"),
        pytest.param([to("other")], False, id="another namespace"),
        pytest.param([{"toEntities": ["cluster"]}], True, id="cluster"),
        pytest.param([{"toEntities": ["world", "kube-apiserver"]}], False, id="outside"),
        pytest.param([{"toCIDR": ["10.0.0.0/8"]}], False, id="addresses"),
        pytest.param([{"toFQDNs": [{"matchPattern": "*"}], **on("443")}], False, id="names"),
        pytest.param([{**TO_SERVICE, **on("8181", protocol="TCP")}], True, id="port"),
        pytest.param([{**TO_SERVICE, **on("8888")}], False, id="another port"),
        pytest.param([{**TO_SERVICE, **on("8181", protocol="UDP")}], False, id="UDP"),
        pytest.param([on("8000", endPort=9000, protocol="ANY")], True, id="range of ports"),
        pytest.param([on("http", protocol="TCP")], True, id="name of a port"),
        pytest.param([on("0")], True, id="all ports"),
        pytest.param([{"icmps": [{"fields": []}]}], False, id="ICMP"),
    ]
)
def test_egress_of_the_hub(rules: list[dict[str, Any]], is_open: bool) -> None:
    policies = network_policies_of(cilium(egress=rules), KIND)
    assert closing_policies(policies, HUB, SERVICE) == (() if is_open else (f"{KIND} p",))


def test_ingress_and_pods_of_other_namespaces() -> None:
    from_hub = {"fromEndpoints": [{"matchLabels": HUB_LABELS}]}
    (both,) = network_policies_of({"metadata": {}, "specs": [cilium(SERVICE_LABELS, ingress=[from_hub])["spec"]]}, KIND)
    assert closing_policies([both], HUB, SERVICE) == ()
    assert closing_policies([both], SERVICE, Peer(SERVICE.labels, port=8181)) != ()
    elsewhere = cilium({f"k8s:{NAMESPACE_LABEL}": "other"}, egress=[{}])
    assert closing_policies(network_policies_of(elsewhere, KIND), HUB, SERVICE) == ()
    assert network_policies_of({"metadata": {}, "spec": {"nodeSelector": {}, "egress": [{}]}}, KIND) == ()


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"egressDeny": [{}]}, "egressDeny"),
        ({"enableDefaultDeny": {"egress": False}}, "enableDefaultDeny"),
        ({"egress": [{"toServices": [{}]}]}, "toServices"),
        ({"egress": [{"toPorts": [{"ports": [], "rules": {"http": [{}]}}]}]}, "toPorts.rules"),
        (
            {"ingress": [{"fromEndpoints": [{"matchLabels": {"k8s:io.cilium.k8s.policy.serviceaccount": "a"}}]}]},
            "label",
        ),
    ],
)
def test_parts_without_a_translation_are_named(spec: dict[str, Any], part: str) -> None:
    with pytest.raises(NotTranslated, match=part):
        network_policies_of(cilium(**spec), KIND)

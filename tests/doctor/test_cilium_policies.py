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
    "rules, is_open",
    {
        "no section": ([], True),
        "nothing": ([{}], False),
        "labels": ([TO_SERVICE], True),
        "all pods": ([{"toEndpoints": [{}]}], True),
        "no pods": ([{"toEndpoints": []}], False),
        "nodes": ([{"toEndpoints": [{"matchLabels": {"reserved:host": ""}}]}], False),
        "namespace": ([to(NAMESPACE)], True),
        "another namespace": ([to("other")], False),
        "cluster": ([{"toEntities": ["cluster"]}], True),
        "outside": ([{"toEntities": ["world", "kube-apiserver"]}], False),
        "addresses": ([{"toCIDR": ["10.0.0.0/8"]}], False),
        "names": ([{"toFQDNs": [{"matchPattern": "*"}], **on("443")}], False),
        "port": ([{**TO_SERVICE, **on("8181", protocol="TCP")}], True),
        "another port": ([{**TO_SERVICE, **on("8888")}], False),
        "UDP": ([{**TO_SERVICE, **on("8181", protocol="UDP")}], False),
        "range of ports": ([on("8000", endPort=9000, protocol="ANY")], True),
        "name of a port": ([on("http", protocol="TCP")], True),
        "all ports": ([on("0")], True),
        "ICMP": ([{"icmps": [{"fields": []}]}], False),
    },
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

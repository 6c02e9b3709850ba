"""The model of NetworkPolicies, and connections that both charts' policies let through."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.common.json_types import JsonObject
from tests.all_of_them import all_of_them
from tests.chart.network_model import Endpoint, Network
from tests.chart.rendering import IMAGE, hub_values, of_kind, rendered
from tests.chart.z2jh import VERSIONS, merged, z2jh_objects

A = Endpoint("10.42.0.1", "one", {"app": "a"})
B = Endpoint("10.42.0.2", "one", {"app": "b"}, {"http": 8080})
OTHER = Endpoint("10.42.0.3", "two", {"app": "a"}, namespace_labels={"team": "x"})
HOST = Endpoint("192.0.2.1")


def policy(namespace: str = "one", pods: JsonObject | None = None, **spec: Any) -> JsonObject:
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": pods or {}, **spec}}


TO_B = {"matchLabels": {"app": "b"}}
FROM_A = {"podSelector": {"matchLabels": {"app": "a"}}}


@all_of_them(
    "policies, source, target, passes", [
        pytest.param([], A, B, True, id="no policy"),
        pytest.param([policy()], A, B, False, id="default deny"),
        pytest.param([policy("two")], A, B, True, id="of another namespace"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [FROM_A]}])], A, B, True, id="pods of the namespace"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [FROM_A]}])], OTHER, B, False, id="not those of another"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{**FROM_A, "namespaceSelector": {}}]}])], OTHER, B, True, id="of all namespaces"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]}])], OTHER, B, True, id="a namespace"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "two"}}}]}])], A, B, False, id="another namespace"),
        pytest.param([policy(pods=TO_B), policy(pods=TO_B, ingress=[{}])], A, B, True, id="union"),
        pytest.param([policy(pods=TO_B, ingress=[{"ports": [{"port": "http"}]}])], A, B, True, id="named port"),
        pytest.param([policy(pods=TO_B, ingress=[{"ports": [{"port": "https"}]}])], A, B, False, id="another name"),
        pytest.param([policy(ingress=[{}], egress=[{"ports": [{"port": "http"}]}])], A, B, True, id="named port of the target"),
        pytest.param([policy(ingress=[{}], egress=[{"ports": [{"port": 8000, "endPort": 8080}]}])], A, B, True, id="ports"),
        pytest.param([policy(ingress=[{}], egress=[{"ports": [{"port": 8080, "protocol": "UDP"}]}])], A, B, False, id="another protocol"),
        pytest.param([policy(policyTypes=["Egress"], egress=[])], A, B, False, id="egress denied"),
        pytest.param([policy(policyTypes=["Egress"], egress=[])], OTHER, B, True, id="egress of others"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}])], HOST, B, True, id="a host"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["192.0.2.1/32"]}}]}])], HOST, B, False, id="an excepted host"),
        pytest.param([policy(pods=TO_B, ingress=[{"from": [{"podSelector": {}}]}])], HOST, B, False, id="a host is no pod"),
        pytest.param([policy(pods={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]})], A, B, False, id="expression"),
        pytest.param([policy(pods={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})], A, B, True, id="no such label"),
    ],
)  # fmt: skip
def test_semantics(policies: list[JsonObject], source: Endpoint, target: Endpoint, passes: bool) -> None:
    assert Network(policies).lets_through(source, target, 8080) is passes


def test_ip_blocks_and_pods() -> None:
    policies = [policy(pods=TO_B, ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])]
    assert Network(policies).lets_through(A, B, 1)
    assert not Network(policies, ip_blocks_have_pods=False).lets_through(A, B, 1)


PROMETHEUS = Endpoint("10.42.9.1", "monitoring", {"app.kubernetes.io/name": "prometheus"})
STRANGER = Endpoint("10.42.9.2", "monitoring-too", {"component": "hub", "app": "jupyterhub"})
OTHER_POD = Endpoint("10.42.0.8", "hub", {"app": "thief"})
API_SERVER = Endpoint("10.0.0.1")
CALENDAR = Endpoint("203.0.113.5")
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@all_of_them("version", VERSIONS)
def test_charts(version: str) -> None:
    """Open as far as needed, and no further, for each network plugin."""
    ours_values = {**IMAGE, "networkPolicy": {"metricsFrom": [MONITORING]}, "userNamespaces": True}
    ours_values["try"] = {"enabled": True}
    printed = hub_values(ours_values)
    ours = rendered(ours_values, namespace="hub", with_tests=True)
    for other_addresses in (True, False):
        rules = {"egressAllowRules": {"privateIPs": other_addresses, "nonPrivateIPs": other_addresses}}
        closed = {"hub": {"networkPolicy": rules}, "proxy": {"chp": {"networkPolicy": rules}}}
        check_connections(ours, z2jh_objects(version, merged(closed, printed)))


def check_connections(ours: list[JsonObject], theirs: list[JsonObject]) -> None:
    for obj in theirs:
        obj["metadata"].setdefault("namespace", "hub")
    policies = [each for each in [*ours, *theirs] if each["kind"] == "NetworkPolicy"]
    assert {each["metadata"]["name"] for each in policies} == {"dra-spawner", "hub", "proxy", "singleuser"}
    service, hub, proxy = (
        Endpoint.of(
            next(each for each in part if (each["kind"], each["metadata"]["name"]) == ("Deployment", name))["spec"][
                "template"
            ],
            "hub",
        )
        for part, name in ((ours, "dra-spawner"), (theirs, "hub"), (theirs, "proxy"))
    )
    helm_test = Endpoint.of(of_kind(ours, "Pod", "-test"), "hub")
    trying = Endpoint.of(of_kind(ours, "Pod", "-try"), "hub")
    labels = {"app": "jupyterhub", "release": "jupyterhub", "component": "singleuser-server"}
    server = Endpoint("10.42.0.9", "hub", {**labels, "hub.jupyter.org/network-access-hub": "true"})
    server_elsewhere = Endpoint("10.42.0.9", "hub-ada", {**labels, "hub.jupyter.org/network-access-hub": "true"})
    names_of_hosts = Endpoint("10.42.8.1", "kube-system")

    for network in (Network(policies), Network(policies, ip_blocks_have_pods=False)):
        for source, target, port, why in (
            (hub, service, 8181, "placements"),
            (proxy, service, 8181, "the page"),
            (helm_test, service, 8181, "helm test"),
            (PROMETHEUS, service, 8181, "metrics"),
            (service, hub, 8081, "who a user is"),
            (helm_test, hub, 8081, "helm test"),
            (trying, proxy, 8000, "helm test starts servers"),
            (service, API_SERVER, 443, "the API server"),
            (service, API_SERVER, 6443, "the API server behind its Service"),
            (service, CALENDAR, 443, "calendars"),
            (hub, server_elsewhere, 8888, "servers of users' namespaces"),
            (proxy, server_elsewhere, 8888, "servers of users' namespaces"),
            (server_elsewhere, hub, 8081, "servers of users' namespaces"),
        ):
            assert network.lets_through(source, target, port), why
        assert network.lets_through(service, names_of_hosts, 53, "UDP")

        for source, target, port, why in (
            (server, service, 8181, "a user asks for placements by the hub only"),
            (server_elsewhere, service, 8181, "likewise"),
            (STRANGER, service, 8181, "labels of a hub in another namespace"),
            (OTHER_POD, service, 8181, "a pod beside the hub"),
            (PROMETHEUS, service, 22, "another port"),
            (service, server, 8888, "the service visits no user"),
            (service, proxy, 8001, "the service changes no routes"),
            (service, CALENDAR, 80, "unencrypted"),
            (CALENDAR, service, 8181, "the world"),
        ):
            assert not network.lets_through(source, target, port), why

"""The ways that network policies leave open, as their text says it."""

from typing import Any

from dra_spawner.doctor.network_policies import Peer, closing_policies
from tests.all_of_them import all_of_them
from tests.doctor.objects import HUB_LABELS, SERVICE_LABELS, policy

HUB = Peer(HUB_LABELS, "10.1.0.1", 8081, "http")
SERVICE = Peer(SERVICE_LABELS, "10.1.0.2", 8181, "http")
TO_SERVICE = {"podSelector": {"matchLabels": SERVICE_LABELS}}


@all_of_them("rules, is_open", {
    "no rule": ([], False),
    "everything": ([{}], True),
    "labels": ([{"to": [TO_SERVICE]}], True),
    "other labels": ([{"to": [{"podSelector": {"matchLabels": HUB_LABELS}}]}], False),
    "port": ([{"to": [TO_SERVICE], "ports": [{"port": 8181}]}], True),
    "name of a port": ([{"to": [TO_SERVICE], "ports": [{"port": "http"}]}], True),
    "range of ports": ([{"to": [TO_SERVICE], "ports": [{"port": 8000, "endPort": 9000}]}], True),
    "another port": ([{"to": [TO_SERVICE], "ports": [{"port": 8888}]}], False),
    "UDP": ([{"to": [TO_SERVICE], "ports": [{"port": 8181, "protocol": "UDP"}]}], False),
    "private addresses": ([{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}], True),
    "but private ones": ([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}], False),
    "expression": ([{"to": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}]}], True),
    "values": ([{"to": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}}]}], False),
})  # fmt: skip
def test_egress_of_the_hub(rules: list[dict[str, Any]], is_open: bool) -> None:
    policies = [policy("hub", HUB_LABELS, egress=rules)]
    assert closing_policies(policies, HUB, SERVICE) == (() if is_open else ("hub",))


def test_each_end_is_closed_by_its_own_policies() -> None:
    from_hub = [{"from": [{"podSelector": {"matchLabels": HUB_LABELS}}], "ports": [{"port": "http"}]}]
    assert closing_policies([policy("service", SERVICE_LABELS, ingress=from_hub)], HUB, SERVICE) == ()
    policies = [policy("service", SERVICE_LABELS, ingress=[]), policy("another", {"app": "x"}, ingress=[])]
    assert closing_policies(policies, HUB, SERVICE) == ("service",)
    assert closing_policies([*policies, policy("all", SERVICE_LABELS, ingress=[{}])], HUB, SERVICE) == ()

"""The ways that network policies leave open, as their text says it."""

from typing import Any

import pytest

from dra_spawner.doctor.network_policies import Peer, closing_policies
from tests.all_of_them import all_of_them
from tests.doctor.objects import HUB_LABELS, SERVICE_LABELS, policy

HUB = Peer(HUB_LABELS, "10.1.0.1", 8081, "http")
SERVICE = Peer(SERVICE_LABELS, "10.1.0.2", 8181, "http")
TO_SERVICE = {"podSelector": {"matchLabels": SERVICE_LABELS}}


@all_of_them([
    pytest.param([], False, id="no rule"),
    pytest.param([{}], True, id="everything"),
    pytest.param([{"to": [TO_SERVICE]}], True, id="labels"),
    pytest.param([{"to": [{"podSelector": {"matchLabels": HUB_LABELS}}]}], False, id="other labels"),
    pytest.param([{"to": [TO_SERVICE], "ports": [{"port": 8181}]}], True, id="port"),
    pytest.param([{"to": [TO_SERVICE], "ports": [{"port": "http"}]}], True, id="name of a port"),
    pytest.param([{"to": [TO_SERVICE], "ports": [{"port": 8000, "endPort": 9000}]}], True, id="range of ports"),
    pytest.param([{"to": [TO_SERVICE], "ports": [{"port": 8888}]}], False, id="another port"),
    pytest.param([{"to": [TO_SERVICE], "ports": [{"port": 8181, "protocol": "UDP"}]}], False, id="UDP"),
    pytest.param([{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}], True, id="private addresses"),
    pytest.param([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}], False, id="but private ones"),
    pytest.param([{"to": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}]}], True, id="expression"),
    pytest.param([{"to": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}}]}], False, id="values"),
])  # fmt: skip
def test_egress_of_the_hub(rules: list[dict[str, Any]], is_open: bool) -> None:
    policies = [policy("hub", HUB_LABELS, egress=rules)]
    assert closing_policies(policies, HUB, SERVICE) == (() if is_open else ("hub",))


def test_each_end_is_closed_by_its_own_policies() -> None:
    from_hub = [{"from": [{"podSelector": {"matchLabels": HUB_LABELS}}], "ports": [{"port": "http"}]}]
    assert closing_policies([policy("service", SERVICE_LABELS, ingress=from_hub)], HUB, SERVICE) == ()
    policies = [policy("service", SERVICE_LABELS, ingress=[]), policy("another", {"app": "x"}, ingress=[])]
    assert closing_policies(policies, HUB, SERVICE) == ("service",)
    assert closing_policies([*policies, policy("all", SERVICE_LABELS, ingress=[{}])], HUB, SERVICE) == ()

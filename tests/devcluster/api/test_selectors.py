"""Label and field selectors; `test_fidelity` and `test_event_forms` compare most of them with a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.api.resource_types import NODES, PODS
from dra_spawner.devcluster.api.selectors import (
    SelectorError,
    object_filter,
    parse_field_selector,
    structured_label_selector,
)
from tests.all_of_them import all_of_them

LABELS = {"app": "hub", "tier": "2", "x.io/k": "v", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"app": "hub"}}, True),
        ({"matchLabels": {"app": "hub", "tier": "9"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["hub", "x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["hub"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "hub"}, "matchExpressions": [{"key": "absent", "operator": "Exists"}]}, False),
    ],
)
def test_structured_selectors(selector: dict[str, Any], matches: bool) -> None:
    assert structured_label_selector(selector).matches(LABELS) is matches


POD = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]},
}


@all_of_them(
    "resource_type, obj, text, matches",
    [
        (PODS, POD, "", True),
        (PODS, POD, "status.nominatedNodeName=", True),
        (PODS, POD, "spec.hostNetwork=false", True),
        (PODS, POD, r"status.podIPs=10.0.0.1\,::1", True),
        (NODES, {"metadata": {"name": "n"}, "spec": {}}, "spec.unschedulable=false", True),
        (NODES, {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}, "spec.unschedulable=true", True),
    ],
)
def test_field_selectors(resource_type: Any, obj: dict[str, Any], text: str, matches: bool) -> None:
    assert parse_field_selector(text, resource_type).matches(obj) is matches


def test_a_field_that_is_no_field_of_the_kind() -> None:
    with pytest.raises(SelectorError, match="field label not supported"):
        parse_field_selector("metadata.namespace=x", NODES)


def test_no_selector_needs_no_filter() -> None:
    assert object_filter(PODS) is None
    both = object_filter(PODS, "app", "spec.nodeName=n1")
    assert both is not None
    assert not both(POD)
    assert both({**POD, "metadata": {"labels": {"app": ""}}})

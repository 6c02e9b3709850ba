"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.api.resource_types import CONFIGMAPS, EVENTS, NODES, PODS
from dra_spawner.devcluster.api.selectors import (
    SelectorError,
    object_filter,
    parse_field_selector,
    parse_label_selector,
    structured_label_selector,
)
from tests.all_of_them import all_of_them

LABELS = {"app": "hub", "tier": "2", "x.io/k": "v", "empty": ""}


@all_of_them(
    "text, matches",
    [
        ("", True),
        ("app=hub", True),
        ("app==hub", True),
        ("app=proxy", False),
        ("app!=proxy", True),
        ("app!=hub", False),
        ("absent!=x", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("app in (hub, proxy)", True),
        ("app in (proxy)", False),
        ("absent in (x)", False),
        ("app notin (proxy)", True),
        ("absent notin (x)", True),
        ("empty=", True),
        ("empty in ()", True),
        ("app=", False),
        ("tier>1", True),
        ("tier>2", False),
        ("tier<3", True),
        ("app>1", False),
        ("x.io/k=v", True),
        ("app=hub,tier=2", True),
        ("app=hub,tier=3", False),
        (" app = hub , !absent ", True),
    ],
)
def test_label_selectors(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@all_of_them(
    "text", ["=a", "a b", "a=b=c", "a in b", "a in (", "a,", ",a", "a,,b", "!", "a>x", "a/b/c=d", "a=_", "_=a", "a=(b)"]
)
def test_bad_label_selectors(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


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
EVENT = {
    "metadata": {"name": "e", "namespace": "ns"},
    "involvedObject": {"kind": "Pod", "name": "p", "uid": "1"},
    "reason": "Scheduled",
    "type": "Normal",
    "source": {"component": "scheduler"},
}


@all_of_them(
    "resource_type, obj, text, matches",
    [
        (PODS, POD, "", True),
        (PODS, POD, "metadata.name=p,metadata.namespace=ns", True),
        (PODS, POD, "metadata.name!=p", False),
        (PODS, POD, "status.phase==Running", True),
        (PODS, POD, "status.phase!=Running", False),
        (PODS, POD, "spec.nodeName=n1,status.phase!=Failed", True),
        (PODS, POD, "spec.nodeName=", False),
        (PODS, POD, "status.nominatedNodeName=", True),
        (PODS, POD, "spec.hostNetwork=false", True),
        (PODS, POD, r"status.podIPs=10.0.0.1\,::1", True),
        (EVENTS, EVENT, "involvedObject.kind=Pod,involvedObject.name=p", True),
        (EVENTS, EVENT, "involvedObject.kind=Node", False),
        (EVENTS, EVENT, "reason=Scheduled,type=Normal,source=scheduler", True),
        (EVENTS, EVENT, "type=Warning", False),
        (NODES, {"metadata": {"name": "n"}, "spec": {}}, "spec.unschedulable=false", True),
        (NODES, {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}, "spec.unschedulable=true", True),
    ],
)
def test_field_selectors(resource_type: Any, obj: dict[str, Any], text: str, matches: bool) -> None:
    assert parse_field_selector(text, resource_type).matches(obj) is matches


@pytest.mark.parametrize(
    ("resource_type", "text", "message"),
    [
        (PODS, "spec.foo=1", "field label not supported: spec.foo"),
        (PODS, "metadata.name", "can't understand"),
        (PODS, "metadata.name=a=b", "unescaped character"),
        (CONFIGMAPS, "status.phase=x", '"status.phase" is not a known field selector'),
        (NODES, "metadata.namespace=x", "field label not supported"),
    ],
)
def test_bad_field_selectors(resource_type: Any, text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        parse_field_selector(text, resource_type)


def test_no_selector_needs_no_filter() -> None:
    assert object_filter(PODS) is None
    both = object_filter(PODS, "app", "spec.nodeName=n1")
    assert both is not None
    assert not both(POD)
    assert both({**POD, "metadata": {"labels": {"app": ""}}})

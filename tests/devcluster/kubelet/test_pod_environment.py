"""Environments and command lines of containers."""

from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.pod_environment import (
    EnvironmentProblem,
    command_line,
    container_environment,
    expand,
    references,
)
from tests.all_of_them import all_of_them

POD: dict[str, Any] = {
    "metadata": {
        "name": "user",
        "namespace": "hub",
        "uid": "u1",
        "labels": {"app": "x", "a/b": "y"},
        "annotations": {"note": "n"},
    },
    "spec": {"nodeName": "node-a", "serviceAccountName": "sa"},
    "status": {"podIP": "127.1.2.3", "podIPs": [{"ip": "127.1.2.3"}], "hostIP": "127.0.0.1"},
}
NODE = {"status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}
SOURCES = {
    ("configmaps", "settings"): {"data": {"one": "1", "two": "2"}},
    ("secrets", "keys"): {"data": {"token": "czNjcmV0"}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="nothing to do"),
        pytest.param("$(A)-$(A)", "1-1", id="twice"),
        pytest.param("$(MISSING)", "$(MISSING)", id="reference to nothing"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$$$(A)", "$1", id="escaped dollar before a reference"),
        pytest.param("$A ${A} $", "$A ${A} $", id="the shell's forms"),
    ],
)
def test_expand(text: str, expected: str):
    assert expand(text, {"A": "1"}) == expected


@all_of_them(
    "value_from, expected",
    {
        "name": ({"fieldRef": {"fieldPath": "metadata.name"}}, "user"),
        "namespace": ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "hub"),
        "uid": ({"fieldRef": {"fieldPath": "metadata.uid"}}, "u1"),
        "label": ({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, "y"),
        "label that is not there": ({"fieldRef": {"fieldPath": "metadata.labels['no']"}}, ""),
        "annotation": ({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "n"),
        "node": ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-a"),
        "account": ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "sa"),
        "address": ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.1.2.3"),
        "addresses": ({"fieldRef": {"fieldPath": "status.podIPs"}}, "127.1.2.3"),
        "the node's address": ({"fieldRef": {"fieldPath": "status.hostIP"}}, "127.0.0.1"),
        "config map": ({"configMapKeyRef": {"name": "settings", "key": "two"}}, "2"),
        "secret": ({"secretKeyRef": {"name": "keys", "key": "token"}}, "s3cret"),
        "optional, no object": ({"secretKeyRef": {"name": "no", "key": "k", "optional": True}}, None),
        "optional, no key": ({"secretKeyRef": {"name": "keys", "key": "k", "optional": True}}, None),
        "limit": ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "1024"),
        "request, rounded up": ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
        "milli": ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "500"),
        "no limit: the node's": ({"resourceFieldRef": {"resource": "limits.cpu"}}, "8"),
    },
)
def test_sources(value_from: dict[str, Any], expected: str | None):
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m"}}
    container = {"name": "main", "resources": resources, "env": [{"name": "X", "valueFrom": value_from}]}
    assert container_environment(container, POD, NODE, SOURCES).get("X") == expected


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k"}}}]},
            'configmap "no" not found',
            id="config map",
        ),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]},
            "couldn't find key k in Secret hub/keys",
            id="key",
        ),
        pytest.param({"envFrom": [{"secretRef": {"name": "no"}}]}, 'secret "no" not found', id="envFrom"),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}]},
            "unsupported fieldPath: spec.containers",
            id="field",
        ),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"fileKeyRef": {}}}]},
            "unsupported source of a variable: fileKeyRef",
            id="unknown source",
        ),
    ],
)
def test_problems_are_worded_for_the_event(container: dict[str, Any], message: str):
    with pytest.raises(EnvironmentProblem) as raised:
        container_environment({"name": "main", **container}, POD, NODE, SOURCES)
    assert str(raised.value) == message


def test_env_comes_after_env_from_and_may_refer_to_its_variables():
    container = {
        "name": "main",
        "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "S_one", "value": "own"},
            {"name": "BOTH", "value": "$(S_one) $(S_two) $(LATER)"},
            {"name": "LATER"},
        ],
    }
    environment = container_environment(container, POD, NODE, SOURCES)
    assert environment == {"S_one": "own", "S_two": "2", "BOTH": "own 2 $(LATER)", "LATER": ""}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({}, ["entry"], id="the image's"),
        pytest.param({"args": ["$(A)"]}, ["entry", "1"], id="arguments"),
        pytest.param({"command": ["run", "$(A)"], "args": ["x"]}, ["run", "1", "x"], id="both"),
    ],
)
def test_command_line(container: dict[str, Any], expected: list[str]):
    assert command_line(container, ["entry"], {"A": "1"}) == expected


def test_references_names_all_that_has_to_be_read():
    container = {
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "envFrom": [{"secretRef": {"name": "s"}}],
    }
    assert references([container, {}]) == {("configmaps", "c"), ("secrets", "s")}

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
    [
        pytest.param({"fieldRef": {"fieldPath": "metadata.name"}}, "user", id="name"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.namespace"}}, "hub", id="namespace"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.uid"}}, "u1", id="uid"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, "y", id="label"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['no']"}}, "", id="label that is not there"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "n", id="annotation"),
        pytest.param({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-a", id="node"),
        pytest.param({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "sa", id="account"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIP"}}, "127.1.2.3", id="address"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIPs"}}, "127.1.2.3", id="addresses"),
        pytest.param({"fieldRef": {"fieldPath": "status.hostIP"}}, "127.0.0.1", id="the node's address"),
        pytest.param({"configMapKeyRef": {"name": "settings", "key": "two"}}, "2", id="config map"),
        pytest.param({"secretKeyRef": {"name": "keys", "key": "token"}}, "s3cret", id="secret"),
        pytest.param({"secretKeyRef": {"name": "no", "key": "k", "optional": True}}, None, id="optional, no object"),
        pytest.param({"secretKeyRef": {"name": "keys", "key": "k", "optional": True}}, None, id="optional, no key"),
        pytest.param({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "1024", id="limit"),
        pytest.param({"resourceFieldRef": {"resource": "requests.cpu"}}, "1", id="request, rounded up"),
        pytest.param({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "500", id="milli"),
        pytest.param({"resourceFieldRef": {"resource": "limits.cpu"}}, "8", id="no limit: the node's"),
    ]
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

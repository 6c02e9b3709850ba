"""Values that cannot be meant are refused: typos at each level, and values that exclude each other."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from dra_spawner.common.json_types import JsonObject
from tests.all_of_them import all_of_them
from tests.chart.rendering import CHART, EVERYTHING, IMAGE, RenderingFailed, rendered, run_helm

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
#: Values for settings that the defaults leave empty.
FILLED: JsonObject = {
    "image": {"pullSecrets": [{"name": "registry"}]},
    "placeholders": {"targets": {"gpu-slice": {"min": 1}}},
    "history": {"passwordSecret": {"name": "database", "key": "password"}},
    "networkPolicy": {
        "metricsFrom": [{"podSelector": {}}],
        "extraIngress": [{"from": [], "ports": []}],
        "extraEgress": [{"to": [], "ports": []}],
    },
    "service": {
        "affinity": {"nodeAffinity": {}},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "resources": {"claims": [{"name": "gpu"}]},
        "tolerations": [{"key": "core", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    },
}
#: Any key may stand there: labels, annotations, amounts, and the values of other charts.
FREE = {
    "global",
    "hub/podLabels",
    "hub/proxyPodLabels",
    "service/nodeSelector",
    "service/podAnnotations",
    "service/podLabels",
    "service/resources/limits",
    "service/resources/requests",
    "serviceAccount/annotations",
    "serviceMonitor/labels",
    "prometheusRule/labels",
    "dashboard/labels",
}
#: The API server knows it better.
KUBERNETES = {"networkPolicy/metricsFrom/0/podSelector", "service/affinity/nodeAffinity"}


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where objects are in values."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            yield from objects(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from objects(each, (*path, number))


def filled(defaults: JsonObject, more: JsonObject) -> JsonObject:
    both = {
        key: filled(defaults[key], value) if isinstance(value, dict) and key in defaults else value
        for key, value in more.items()
    }
    return {**defaults, **both}


@all_of_them("values", {"defaults": DEFAULTS, "filled": filled(DEFAULTS, FILLED)})
def test_a_typo_is_refused_at_each_level(values: JsonObject) -> None:
    validator = jsonschema.Draft7Validator(SCHEMA)
    assert list(validator.iter_errors(values)) == []
    accepted = set()
    for path in objects(values):
        wrong = copy.deepcopy(values)
        part: Any = wrong
        for key in path:
            part = part[key]
        part["typo"] = "1"
        if not list(validator.iter_errors(wrong)):
            accepted.add("/".join(map(str, path)))
    assert accepted - KUBERNETES == FREE


@all_of_them(
    "values, message",
    [
        pytest.param(
            {"placeholders": {"targets": {"gpu": {"min": 1}}}}, "placeholders.targets .* placeholders.enabled", id="off"
        ),
        pytest.param(
            {"placeholders": {"enabled": True}, "priorityClass": {"create": False}}, "priorityClass.name", id="priority"
        ),
        pytest.param({"rbac": {"hub": {"userSecrets": True}}}, "userSecrets .* userNamespaces", id="secrets"),
        pytest.param(
            {"rbac": {"create": False, "hub": {"webhooks": True}}}, "rbac.hub.* rbac.create", id="rights-of-no-role"
        ),
        pytest.param(
            {"history": {"passwordSecret": {"name": "a", "key": "b"}}}, "passwordSecret .* history.url", id="password"
        ),
        pytest.param(
            {
                "service": {"replicas": 1},
                "history": {"url": "postgresql://db/h", "persistence": {"enabled": True}},
            },
            "history.url .* history.persistence",
            id="url-and-volume-of-the-history",
        ),
        *(
            pytest.param({"history": {"url": url}}, "history.url has a password.* history.passwordSecret$", id=url)
            for url in (
                "postgresql://dra:s3c/ret@db/h",
                "postgresql+psycopg://:s3cret@db",
                "postgresql://db/h?password=s3cret",
            )
        ),
        *(
            pytest.param(
                {"service": {"config": {key: value}}},
                f"service.config.{key} has .*Secret, .*service.extraConfig$",
                id=key,
            )
            for key, value in {
                "calendars": {"a": {"location": "https://ada:s3cret@example.org/a.ics"}, "b": "/b.ics"},
                "class_webhook": {"url": "https://:s3cret@example.org/hook"},
                "demand_policies": {"night": {"url": "http://ada:s3cret@[::1]:80/"}},
            }.items()
        ),
        pytest.param(
            {"serviceMonitor": {"enabled": True, "hubServiceName": "dra-spawner"}}, "hubServiceName", id="one-token"
        ),
        pytest.param({"serviceAccount": {"create": False}}, "serviceAccount.name is required", id="no-account"),
        pytest.param(
            {"serviceAccount": {"create": False, "name": "hub"}}, "serviceAccount.name is the hub's", id="hubs-account"
        ),
        pytest.param(
            {"image": {**IMAGE["image"], "tag": "1", "digest": f"sha256:{'0' * 64}"}},
            "image.tag .* image.digest",
            id="two-images",
        ),
        pytest.param({"admissionPolicy": {"podSecurityLevels": []}}, "podSecurityLevels", id="no-level"),
        pytest.param({"admissionPolicy": {"podSecurityLevels": ["none"]}}, "podSecurityLevels", id="another-level"),
        pytest.param(
            {"admissionPolicy": {"placeholderAnnotations": ["a'] || ['"]}}, "placeholderAnnotations", id="cel"
        ),
    ],
)
def test_values_that_exclude_each_other(values: JsonObject, message: str) -> None:
    with pytest.raises(RenderingFailed, match=re.compile(message, re.MULTILINE)) as refusal:
        rendered({**IMAGE, **values})
    assert "s3c" not in str(refusal.value)


def test_an_old_kubernetes_is_named() -> None:
    with pytest.raises(RenderingFailed, match=r"requires kubeVersion: >=1\.34\.0-0 which is incompatible .* v1\.33\.9"):
        run_helm("template", "dra-spawner", str(CHART), "--kube-version", "1.33.9", values=IMAGE)


def test_everything_at_once_is_no_contradiction() -> None:
    plain = {
        "calendars": {"a": "https://ada@example.org:8443/a@b:c.ics"},
        "class_webhook": {"url": "http://[::1]:80/@"},
    }
    history = {"url": "postgresql://dra@db:5432/history"}
    assert rendered({**EVERYTHING, "service": {"config": plain}, "history": history})

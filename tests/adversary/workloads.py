"""Objects that only `dra-spawner doctor` reads: other installations beside a hub."""

from __future__ import annotations

from dra_spawner import names
from tests.adversary.example_parts import TOLERATION, Json

_PROBE: Json = {"httpGet": {"path": "/jupyter/hub/health", "port": "http"}}


def _workload(name: str, labels: Json) -> Json:
    container = {
        "name": "c",
        "image": "registry.example.org/kube-scheduler:v1.30.8",
        "command": ["c", "--config=x"],
        "args": ["--kube-api-qps=5"],
        "env": [
            {"name": "JUPYTERHUB_BASE_URL", "value": "/"},
            {"name": "JUPYTERHUB_API_URL", "value": "http://h/hub/api"},
        ],
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
    }
    spec = {"containers": [container], "tolerations": [TOLERATION], "serviceAccountName": "a"}
    return {"metadata": {"name": name, "namespace": "hub", "labels": labels}, "spec": {"template": {"spec": spec}}}


def deployments() -> list[Json]:
    """Hub, user-scheduler and service."""
    return [
        _workload("hub", {"component": "hub", "helm.sh/chart": "jupyterhub-3.0.0"}),
        _workload("user-scheduler", {"component": "user-scheduler"}),
        _workload("dra-spawner", {names.APPLICATION: names.SERVICE}),
    ]


def daemon_sets() -> list[Json]:
    """The chart's image puller."""
    return [_workload("continuous-image-puller", {"component": "continuous-image-puller"})]


def services() -> list[Json]:
    """The service's."""
    return [{"metadata": {"name": "dra-spawner", "namespace": "hub", "labels": {names.APPLICATION: names.SERVICE}}}]


def network_policies() -> list[Json]:
    """A policy with each kind of peer and port."""
    expressions = [
        {"key": "k", "operator": each, "values": ["v"]} for each in ("In", "NotIn", "Exists", "DoesNotExist")
    ]
    selector = {"matchLabels": {"component": "hub"}, "matchExpressions": expressions}
    peers = [{"podSelector": selector}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]
    ports = [{"port": 8000, "endPort": 9000, "protocol": "TCP"}]
    spec = {
        "podSelector": {"matchLabels": {}, "matchExpressions": []},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": peers, "ports": ports}],
        "egress": [{"to": peers, "ports": ports}],
    }
    return [{"metadata": {"name": "p", "namespace": "hub", "labels": {}}, "spec": spec}]


def priority_classes() -> list[Json]:
    """The placeholders'."""
    return [{"metadata": {"name": "placeholder", "labels": {}}}]


def admin_policies() -> list[Json]:
    """A policy of an administrator for all namespaces, or of Cilium."""
    return [{"metadata": {"name": "a", "labels": {}}}]

"""helm-values/placeholders.yaml is valid, fits the service and grants what is used (tests/service/test_service_rights.py)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import ApiClient
from prometheus_client import CollectorRegistry
from traitlets.config import Config

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.settings import DEFAULT_DIRECTORY
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.reconciler import KINDS_OF_DECISIONS
from dra_spawner.placeholders.controller.settings import ControllerSettings
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.limited_targets import DenialCause
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.metrics.placeholder_metrics import register_placeholders

ROOT = Path(__file__).parents[2]
VALUES = ROOT / "helm-values"


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((VALUES / name).read_text()) if each]


def of_kind(kind: str, name: str = "placeholders.yaml") -> dict[str, Any]:
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


def rules_of(name: str) -> set[tuple[str, ...]]:
    return {
        (document["kind"], group, resource, verb, *rule.get("resourceNames", ()))
        for document in documents(name)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_rules_are_the_ones_that_are_used() -> None:
    dra = "resource.k8s.io"
    assert rules_of("placeholders.yaml") == {
        ("ClusterRole", "", "nodes", "patch"),
        ("ClusterRole", dra, "resourceclaims/binding", "patch"),
        *(("Role", "", "configmaps", verb, names.SHAPES_CONFIG_MAP) for verb in ("list", "watch")),
        *(("Role", "", "pods", verb) for verb in ("create", "delete", "patch")),
        *(("Role", dra, "resourceclaims", verb) for verb in ("create", "delete", "get", "patch")),
        ("Role", dra, "resourceclaims/status", "patch"),
        ("Role", "", "resourcequotas", "list"),
        ("Role", "", "resourcequotas", "watch"),
        ("Role", "", "events", "list"),
        *(("Role", names.EVENTS_GROUP, "events", verb) for verb in ("create", "patch")),
    }


def test_rules_of_user_namespaces_are_the_ones_that_are_used() -> None:
    """Besides those of placeholders.yaml, as tests/service/test_user_namespaces.py uses them."""
    assert rules_of("placeholders-user-namespaces.yaml") == {("ClusterRole", "", "pods", "patch")}


def test_rules_of_capacity_buffers_are_the_ones_that_are_used() -> None:
    """As tests/placeholders/controller/test_capacity_buffers.py uses them."""
    verbs = ("create", "delete", "list", "patch")
    assert rules_of("placeholders-capacity-buffers.yaml") == {
        *(("Role", names.AUTOSCALING_GROUP, "capacitybuffers", verb) for verb in verbs),
        *(("Role", "", "podtemplates", verb) for verb in verbs),
    }


def test_roles_are_bound_to_the_account_of_the_service() -> None:
    account = of_kind("ServiceAccount", "service-rbac.yaml")["metadata"]["name"]
    for kind, role, name in (
        ("RoleBinding", "Role", "placeholders.yaml"),
        ("ClusterRoleBinding", "ClusterRole", "placeholders.yaml"),
        ("ClusterRoleBinding", "ClusterRole", "placeholders-user-namespaces.yaml"),
        ("RoleBinding", "Role", "placeholders-capacity-buffers.yaml"),
    ):
        binding = of_kind(kind, name)
        assert binding["roleRef"]["name"] == of_kind(role, name)["metadata"]["name"]
        assert [subject["name"] for subject in binding["subjects"]] == [account]


def test_the_policy_knows_the_defaults_of_the_service() -> None:
    """Its account, labels, image, priority and Lease; each policy is bound, and refuses."""
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in documents("service-policy.yaml")
        if "Binding" not in each["kind"]
    }
    bindings = [each["spec"] for each in documents("service-policy.yaml") if "Binding" in each["kind"]]
    assert sorted(each["policyName"] for each in bindings) == sorted(policies)
    assert all(each["validationActions"] == ["Deny"] for each in bindings)
    account = of_kind("ServiceAccount", "service-rbac.yaml")["metadata"]["name"]
    for spec in policies.values():
        (condition,) = spec["matchConditions"]
        assert f"endsWith(':{account}')" in condition["expression"]
        assert spec["failurePolicy"] == "Fail"
        # 422, the default, the service takes for a change that came too late.
        assert {each["reason"] for each in spec["validations"]} == {"Forbidden"}
        assert all(len(each["message"]) > 20 for each in spec["validations"])
    service = DRASpawnerService()
    variables = {each["name"]: each["expression"] for each in policies["dra-spawner-service-makes-pods"]["variables"]}
    assert variables["images"] == f"['{service.placeholder_image}']"
    assert variables["priorityClasses"] == f"['{service.placeholder_priority_class}']"
    assert f"['{service.lease_name}']" in str(policies["dra-spawner-service-makes-leases"])
    text = str(policies)
    ours = (names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.PREEMPTED_AT, names.SHAPE)
    kept = (names.RESERVED_FOR, names.RESERVED_SINCE, names.RESERVED_UNTIL)
    for word in (*ours, *kept, names.PLACEHOLDER, names.MANAGER, names.MANAGED_BY):
        assert f"'{word}'" in text, word


def test_priority_is_the_one_that_placeholders_have() -> None:
    priority = of_kind("PriorityClass")
    assert priority["metadata"]["name"] == DRASpawnerService().placeholder_priority_class
    assert (priority["value"], priority["globalDefault"], priority["preemptionPolicy"]) == (-10, False, "Never")


def test_configuration_of_the_map_is_read_by_the_deployment(tmp_path: Path, monkeypatch: Any) -> None:
    config = of_kind("ConfigMap")
    pod = of_kind("Deployment", "service-deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volume, history = pod["volumes"]
    assert volume["configMap"] == {"name": config["metadata"]["name"], "optional": True}
    assert container["volumeMounts"] == [
        {"name": volume["name"], "mountPath": container["workingDir"]},
        {"name": history["name"], "mountPath": str(DEFAULT_DIRECTORY)},
    ]
    assert history["emptyDir"]
    for name, text in config["data"].items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    service = DRASpawnerService()
    service.initialize([])
    profiles = yaml.safe_load((VALUES / "minimal.yaml").read_text())["singleuser"]["profileList"]
    assert set(service.placeholders) == {profile["slug"] for profile in profiles}


def test_ten_lines_turn_it_on() -> None:
    (text,) = of_kind("ConfigMap")["data"].values()
    config = Config()
    exec(text, {"c": config})
    assert len(text.splitlines()) <= 10
    assert config.DRASpawnerService.placeholders["gpu-slice"] == {"min": 2, "max": 20}


def test_every_word_is_documented() -> None:
    """Labels, kinds, causes, rules, states and metrics, by which people find out what was done."""
    text = (ROOT / "docs" / "placeholders.md").read_text()
    words = {
        str(each) for vocabulary in (Cause, DenialCause, Hold, PlacementKind, PlaceholderState) for each in vocabulary
    }
    words |= {names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.SHAPE, names.PREEMPTED_AT, names.REASON}
    words |= {
        names.RESERVED_FOR,
        "reserved-until",
        names.SHAPES_CONFIG_MAP,
        names.LATE,
        *KINDS_OF_DECISIONS,
    }
    assert sorted(word for word in words if f"`{word}`" not in text) == []
    api = KubernetesApi(ApiClient.__new__(ApiClient))  # nothing is asked of it
    registry = CollectorRegistry()
    register_placeholders(
        registry, PlaceholderController(api, ClusterWatch(api), DecisionLog(), ControllerSettings("hub"))
    )
    for family in registry.collect():
        assert family.name in text, family.name


def test_settings_that_are_documented_are_there() -> None:
    text = (ROOT / "docs" / "placeholders.md").read_text()
    known = set(DRASpawnerService.class_trait_names())
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    others = {
        "holds_everything",
        "in_use",
        "is_known",
        "device_class",
        "enable_user_namespaces",
        "scheduled_because",
        "intel_gas",
        "skipped_because",
        "on_hold",
        "node_selector",
        "wait_estimates",
        "max_nodes",
    }
    assert {name for name in named - others if not name.startswith("dra_spawner_")} <= known

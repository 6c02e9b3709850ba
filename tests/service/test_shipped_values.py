"""Shipped objects fit the service. Its rights: tests/chart/test_rights_table.py, and test_service_rights.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.reconciler import KINDS_OF_DECISIONS
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.metrics.placeholder_metrics import register_placeholders
from tests.cluster.access import (
    manifests,
)
from tests.service.unstarted_watch import unstarted_controller

ROOT = Path(__file__).parents[2]


def of_kind(kind: str) -> dict[str, Any]:
    """The object of a kind; of the ConfigMaps the one with data."""
    of_it = [each for each in manifests("jupyterhub") if each["kind"] == kind]
    (found,) = [each for each in of_it if kind != "ConfigMap" or "data" in each]
    return found


def test_roles_are_bound_to_their_accounts() -> None:
    objects = manifests("jupyterhub")
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects if each["kind"].endswith("Role")}
    bindings = [each for each in objects if each["kind"].endswith("Binding") and "roleRef" in each]
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == roles
    account = of_kind("ServiceAccount")["metadata"]["name"]
    for each in bindings:
        (subject,) = each["subjects"]
        is_of_hub = "-hub" in each["metadata"]["name"].partition(".")[2] or each["metadata"]["name"].endswith("-hub")
        assert subject == {
            "kind": "ServiceAccount",
            "name": "hub" if is_of_hub else account,
            "namespace": "jupyterhub",
        }


def test_the_policy_knows_the_defaults_of_the_service() -> None:
    """Its account, labels, image and Lease; each policy is bound, and refuses."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    found = [
        each
        for each in manifests("jupyterhub")
        if "-dra-spawner-service-" in each["metadata"]["name"].replace(".", "-")
    ]
    policies = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == kinds[0]}
    bindings = [each["spec"] for each in found if each["kind"] == kinds[1]]
    assert len(policies) == 9
    assert sorted(each["policyName"] for each in bindings) == sorted(policies)
    assert all(each["validationActions"] == ["Deny"] for each in bindings)
    account = of_kind("ServiceAccount")["metadata"]["name"]
    for spec in policies.values():
        (condition,) = spec["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == 'system:serviceaccount:jupyterhub:{account}'"
        assert spec["failurePolicy"] == "Fail"
        # The default, 422, means to the service that a change came too late.
        assert {each["reason"] for each in spec["validations"]} == {"Forbidden"}
        assert all(len(each["message"]) > 20 for each in spec["validations"])
    text = str(policies)
    assert f"['{DRASpawnerService().placeholder_image}']" in text
    ours = (names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.PREEMPTED_AT, names.SHAPE)
    rules = (names.DRAINED_DEVICE, names.DRAINED_UNTIL, names.EVICTS_AT, names.HUB_NAMESPACE)
    reserved = (names.RESERVED_FOR, names.RESERVED_SINCE, names.RESERVED_UNTIL, names.TICKET)
    for word in (*ours, *reserved, *rules, names.PLACEHOLDER, names.MANAGER, names.MANAGED_BY):
        assert f"'{word}'" in text, word


def test_priority_is_the_one_that_placeholders_have() -> None:
    priority = of_kind("PriorityClass")
    assert (priority["value"], priority["globalDefault"], priority["preemptionPolicy"]) == (-10, False, "Never")


def text_about_placeholders() -> str:
    """The pages of the reference about placeholders."""
    return "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("placeholder*.md"))


def test_every_word_is_documented() -> None:
    """Labels, kinds, causes, rules, states and metrics, by which people learn about actions of the service."""
    text = text_about_placeholders()
    words = {
        str(each)
        for vocabulary in (Cause, DenialCause, Hold, AvailabilityState, PlaceholderState)
        for each in vocabulary
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
    registry = CollectorRegistry()
    register_placeholders(registry, unstarted_controller())
    for family in registry.collect():
        assert family.name in text, family.name


def test_settings_that_are_documented_are_there() -> None:
    text = text_about_placeholders()
    known = set(DRASpawnerService.class_trait_names())
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    others = {
        "all_hubs",
        "holds_everything",
        "internal_ssl",
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

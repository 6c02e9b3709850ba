"""DeviceTaintRules of a thief with the service's token: only this service's rules, each about one named device."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.kube.taint_rules import PLURAL, served_rules_api
from dra_spawner.placeholders.planner.targets.device_drains import rules_of
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from tests.adversary.stolen_account import DRY, HUB, Attempt, Json, Thief, refused_by_the_policy_alone
from tests.polling import eventually

#: The policy of tests is that of a hub in this namespace.
OWNER = ("any", "dra-spawner")
MINE = "metadata: only rules of this service are made, changed and deleted"
BARE = "metadata: a rule of this service has neither owners nor finalizers"
ONE = "spec.deviceSelector: a rule of this service names one device"
TAINT = "spec.taint: a rule of this service has the key"


def own_rule(version: str, owner: tuple[str, str] = OWNER, device: str = "gpu-0") -> Json:
    """As the service writes it."""
    now = datetime(2027, 1, 31, 12, tzinfo=UTC)
    setting = Override(OverrideKind.DEVICES, f"gpu.example.com/node-a/{device}", "user ada", now, reason="fan")
    (rule,) = rules_of({setting.name: setting}, now, *owner).values()
    return {"apiVersion": version, **copy.deepcopy(rule)}


async def test_rules_that_are_not_of_the_service(thief: Thief) -> None:
    admin, version = thief.cluster.admin, await served_rules_api(thief.cluster.admin)
    if version is None:
        return  # Kubernetes 1.36 serves no rules by default
    path = resource_path(version, PLURAL)
    device = {"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}

    def made(metadata: Json | None = None, **spec: Any) -> Attempt:
        rule = own_rule(version)
        for key, value in (metadata or {}).items():
            rule["metadata"][key] = {**rule["metadata"][key], **value} if isinstance(value, dict) else value
        rule["spec"] |= spec
        return lambda t: t.make(path, {**rule, "spec": {k: v for k, v in rule["spec"].items() if v is not None}})

    without_labels = own_rule(version)
    del without_labels["metadata"]["labels"]
    generated = own_rule(version)
    del generated["metadata"]["name"]
    generated["metadata"]["generateName"] = "maintenance-"
    closed = {"key": names.DRAINED_DEVICE, "effect": "NoSchedule"}
    attempts: dict[str, tuple[Attempt, str]] = {
        "a rule of another name": (made({"name": "closed-by-a-thief"}), MINE),
        "a rule of a generated name": (lambda t: t.make(path, generated), MINE),
        "no labels": (lambda t: t.make(path, without_labels), MINE),
        "one label more": (made({"labels": {"a": "b"}}), MINE),
        "another hub's": (made({"labels": {names.HUB_NAMESPACE: "theirs"}}), MINE),
        "another service's of the hub": (made({"labels": {names.INSTALLATION: "theirs"}}), MINE),
        "another manager's": (made({"labels": {names.MANAGED_BY: "argocd"}}), MINE),
        "an owner": (made({"ownerReferences": [HUB]}), BARE),
        "a finalizer": (made({"finalizers": ["example.com/forever"]}), BARE),
        "an annotation": (made({"annotations": {"a": "b"}}), BARE),
        "no selector": (made(deviceSelector=None), ONE),
        "all devices": (made(deviceSelector={}), ONE),
        "all devices of a driver": (made(deviceSelector={"driver": device["driver"]}), ONE),
        "all devices of a node": (made(deviceSelector={k: device[k] for k in ("driver", "pool")}), ONE),
        "devices of one name on all nodes": (made(deviceSelector={"device": "gpu-0"}), ONE),
        "devices of one name of all drivers": (made(deviceSelector={k: device[k] for k in ("pool", "device")}), ONE),
        "another key": (made(taint={**closed, "key": "example.com/broken"}), TAINT),
        "a value": (made(taint={**closed, "value": "thief"}), TAINT),
        "another effect": (made(taint={**closed, "effect": "None"}), TAINT),
    }
    ours, theirs = own_rule(version, device="gpu-1"), own_rule(version, ("theirs", "dra-spawner"))
    administrator = copy.deepcopy(ours)
    administrator["metadata"] = {"name": "maintenance"}
    for rule in (ours, theirs, administrator):
        await admin.create(path, rule)
    own, other, maintenance = (f"{path}/{rule['metadata']['name']}" for rule in (ours, theirs, administrator))
    evict = {"spec": {"taint": {"effect": "NoExecute"}}}

    def changed(target: str, **parts: Any) -> Attempt:
        """Replaced, as the service may not patch."""

        async def attempt(t: Thief) -> None:
            found = await admin.get(target)
            for part, change in parts.items():
                found[part] = {**found[part], **change}
            await t.api.replace(target, found, params=DRY)

        return attempt

    taint = {**closed, "effect": "NoExecute"}
    attempts |= {
        "an administrator's rule that evicts": (changed(maintenance, spec={"taint": taint}), MINE),
        "an administrator's rule as its own": (
            changed(maintenance, metadata={"labels": ours["metadata"]["labels"]}),
            MINE,
        ),
        "another hub's rule that evicts": (changed(other, spec={"taint": taint}), MINE),
        "its rule as another hub's": (changed(own, metadata={"labels": theirs["metadata"]["labels"]}), MINE),
        "its rule that nobody can delete": (changed(own, metadata={"finalizers": ["example.com/forever"]}), BARE),
        "its rule with another key": (changed(own, spec={"taint": {**taint, "key": "example.com/broken"}}), TAINT),
        "the end of an administrator's rule": (lambda t: t.delete(maintenance), MINE),
        "the end of another hub's rule": (lambda t: t.delete(other), MINE),
    }
    try:
        await refused_by_the_policy_alone(thief, "drains-devices", attempts)
        # Its roles give no more than that: no patch, no status, and not all at once.
        for attempt in (lambda t: t.merge(own, evict), lambda t: t.delete(path)):
            with_status = await refusal(thief, attempt)
            assert with_status == 403
        # Actions of the service are allowed.
        await thief.make(path, own_rule(version))
        await changed(own, spec={"taint": taint}, metadata={"annotations": {names.REASON: "power"}})(thief)
        await thief.delete(own)
    finally:
        for target in (own, other, maintenance):
            await admin.delete(target, missing_ok=True)

    async def are_gone() -> bool:
        return not (await admin.list(path))["items"]

    await eventually(are_gone, "the rules are gone")


async def refusal(thief: Thief, attempt: Attempt) -> int | None:
    """The status of a refusal; None if it was allowed."""
    try:
        await attempt(thief)
    except KubernetesError as error:
        return error.status
    return None

"""What is known of a cluster when profiles are checked against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import PoolId
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.dra.model.taint_rules import DeviceTaintRule, applied, with_rules
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.dra.scheduler_rules import SchedulerRules, rules_of

#: The gate without which an API server drops a field of claims.
GATE_OF_FIELD: Final[Mapping[str, str]] = {
    "capacity": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity",
    "tolerations": "DRADeviceTaints",
    "firstAvailable": "DRAPrioritizedList",
    "adminAccess": "DRAAdminAccess",
}
#: Age from which on a node that publishes no device is taken to have none.
_YOUNG: Final = timedelta(minutes=10)
#: Schemes of ``spec.providerID`` of nodes that no cloud adds.
_NO_CLOUD: Final = frozenset({"", "k0s", "k3s", "kind", "rke2"})
_CLAIM_RESOURCES = frozenset({"*", "*/*", "resourceclaims", "resourceclaimtemplates"})


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The devices and settings of a cluster that decide whether a choice can work there.

    ``None`` marks facts that are unknown (not readable, or not requested); rules that need them find nothing.

    Attributes
    ----------
    device_classes, slices
        ``resource.k8s.io/v1``, decoded.
    gates
        Feature gates of kube-scheduler that the administrator set otherwise than by default.
    taint_rules
        DeviceTaintRules, which close devices besides their drivers' own taints.
    nodes
        As the API has them: labels, taints, allocatable.
    namespace
        Where the servers run.
    attachment_definitions
        NetworkAttachmentDefinitions, as ``namespace/name``.
    attachment_namespaces
        The only namespaces whose definitions could be read; None if those of all could.
    webhooks
        Names of the webhooks that validate claims (``webhooks[].name`` of ValidatingWebhookConfigurations).
    gas_runs
        Whether Intel's GPU Aware Scheduling runs: whether there is a pod with its label, ``app=gas``.
    kubernetes_version, kubernetes_patch
        Major and minor, such as ``(1, 36)``, and the patch number.
    dropped_fields
        Fields of a claim that the API server drops because their feature gate is off, such as ``capacity``.
    drivers_prepare_for
        What drivers prepare claims for, by the administrator's setting.
    claims
        Specs of claims that others made, by name, in the namespace of servers; as far as they are known.
    nodes_may_be_added
        Whether nodes with other devices than the present ones may come, by an autoscaler for example: then what no
        present device can do is no error.
    unpublished
        Why present nodes may have more devices than `slices` says; empty if they have not. It has the same effect.
    """

    device_classes: Mapping[str, DeviceClass] | None = None
    slices: tuple[ResourceSlice, ...] | None = None
    nodes: tuple[JsonObject, ...] | None = None
    namespace: str = "default"
    namespace_labels: Mapping[str, str] | None = None
    attachment_definitions: frozenset[str] | None = None
    attachment_namespaces: frozenset[str] | None = None
    webhooks: frozenset[str] | None = None
    gas_runs: bool | None = None
    kubernetes_version: tuple[int, int] | None = None
    kubernetes_patch: int | None = None
    dropped_fields: frozenset[str] | None = None
    drivers_prepare_for: Mapping[str, PreparedFor] = field(default_factory=dict)
    claims: Mapping[str, JsonObject] = field(default_factory=dict)
    nodes_may_be_added: bool = False
    unpublished: str = ""
    gates: Mapping[str, bool] = field(default_factory=dict)
    taint_rules: tuple[DeviceTaintRule, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the cluster has and gets no other devices, so that what none of them can do is impossible."""
        return not (self.nodes_may_be_added or self.unpublished)

    @property
    def scheduler_rules(self) -> SchedulerRules:
        """The rules of the cluster's kube-scheduler, as far as version, gates and the API server's fields tell."""
        dropped = self.dropped_fields or frozenset()
        off = {gate: False for field, gate in GATE_OF_FIELD.items() if field in dropped}
        return rules_of(self.kubernetes_version, {**self.gates, **off})

    @property
    def tainted_slices(self) -> tuple[ResourceSlice, ...]:
        """The slices as the scheduler sees them: with the taints of rules."""
        in_force = applied({each.name: each for each in self.taint_rules}, self.scheduler_rules.quirks)
        return tuple(with_rules(each, in_force) for each in self.slices or ())

    @property
    def knows_devices(self) -> bool:
        """Whether devices and their classes are known."""
        return self.slices is not None and self.device_classes is not None

    def has_attachment_definition(self, namespace: str, name: str) -> bool | None:
        """Whether a NetworkAttachmentDefinition exists; None if that is unknown."""
        if self.attachment_definitions is None:
            return None
        if self.attachment_namespaces is not None and namespace not in self.attachment_namespaces:
            return None
        return f"{namespace}/{name}" in self.attachment_definitions


def claim_webhooks(configurations: Iterable[JsonObject]) -> frozenset[str]:
    """Names of the webhooks in ValidatingWebhookConfigurations (``webhooks[].name``) that are asked about claims."""
    return frozenset(
        webhook["name"]
        for configuration in configurations
        for webhook in configuration.get("webhooks") or ()
        if any(map(_is_about_claims, webhook.get("rules") or ()))
    )


def _is_about_claims(rule: JsonObject) -> bool:
    """Whether a rule (RuleWithOperations) matches claims or their templates."""
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    return not {"*", names.RESOURCE_GROUP}.isdisjoint(groups) and not _CLAIM_RESOURCES.isdisjoint(resources)


def has_cloud_nodes(nodes: Iterable[JsonObject]) -> bool:
    """Whether a cloud provides some of the nodes (``spec.providerID``), so that an autoscaler may add others."""
    providers = (str((node.get("spec") or {}).get("providerID") or "") for node in nodes)
    return any(provider.partition("://")[0] not in _NO_CLOUD for provider in providers)


def published_devices(slices: Iterable[ResourceSlice]) -> Mapping[tuple[str, str], int]:
    """Numbers of devices of nodes' own, by node and driver; the newest generation of each pool counts."""
    found: Counter[tuple[str, str]] = Counter()
    for pool, of_pool in _newest(slices).items():
        for each in of_pool:
            if each.node_name:
                found[each.node_name, pool.driver] += len(each.devices)
    return found


def unpublished_devices(
    nodes: Iterable[JsonObject],
    slices: Iterable[ResourceSlice],
    before: Mapping[tuple[str, str], int],
    now: datetime,
) -> str:
    """Why present nodes may have more devices than the slices say; empty if they have not.

    Parameters
    ----------
    nodes
        As the API has them, with their conditions.
    before
        The highest `published_devices` of earlier readings: a driver that restarts, or whose device is broken for a
        time, publishes them again.
    """
    slices = tuple(slices)
    published = published_devices(slices)
    having = {node for node, _ in published}
    names_of_nodes = set()
    for node in nodes:
        name = node["metadata"]["name"]
        names_of_nodes.add(name)
        if name not in having and not _is_ready(node):
            return f"node {name} is not ready, and publishes no device"
        if name not in having and now - _created(node, now) < _YOUNG:
            return f"node {name} has just been added, and publishes no device yet"
    for (name, driver), count in sorted(before.items()):
        if name in names_of_nodes and published.get((name, driver), 0) < count:
            return f"node {name} publishes fewer devices of {driver} than before"
    pools = _newest(slices).items()
    short = next((pool for pool, found in pools if len(found) < found[0].resource_slice_count), None)
    return f"pool {short} is being updated" if short is not None else ""


def _newest(slices: Iterable[ResourceSlice]) -> Mapping[PoolId, list[ResourceSlice]]:
    """Slices of the newest generation of each pool."""
    newest: dict[PoolId, list[ResourceSlice]] = {}
    for each in slices:
        of_pool = newest.setdefault(each.pool_id, [])
        if of_pool and of_pool[0].generation < each.generation:
            of_pool.clear()
        if not of_pool or of_pool[0].generation == each.generation:
            of_pool.append(each)
    return newest


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _created(node: JsonObject, otherwise: datetime) -> datetime:
    try:
        created = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
    except (KeyError, TypeError, ValueError):
        return otherwise
    return created if created.tzinfo is not None else otherwise

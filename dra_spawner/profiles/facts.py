"""What is known of a cluster when profiles are checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_spawner import names
from dra_spawner.dra.objects import DeviceClass, ResourceSlice
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.dra.scheduler_rules import SchedulerRules, rules_of
from dra_spawner.json_types import JsonObject

__all__ = ["GATE_OF_FIELD", "ClusterFacts", "claim_webhooks"]


#: The gate without which an API server drops a field of claims.
GATE_OF_FIELD: Final[Mapping[str, str]] = {
    "capacity": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity",
    "tolerations": "DRADeviceTaints",
    "firstAvailable": "DRAPrioritizedList",
    "adminAccess": "DRAAdminAccess",
}
_CLAIM_RESOURCES = frozenset({"*", "*/*", "resourceclaims", "resourceclaimtemplates"})


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The devices and settings of a cluster that decide whether a choice can work there.

    ``None`` marks facts that are unknown (not readable, or not requested); rules that need them find nothing.

    Attributes
    ----------
    device_classes, slices
        ``resource.k8s.io/v1``, decoded.
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

    @property
    def scheduler_rules(self) -> SchedulerRules:
        """The rules of the cluster's kube-scheduler, as far as its version and its API server's gates tell."""
        dropped = self.dropped_fields or frozenset()
        gates = {gate: False for field, gate in GATE_OF_FIELD.items() if field in dropped}
        return rules_of(self.kubernetes_version, gates)

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

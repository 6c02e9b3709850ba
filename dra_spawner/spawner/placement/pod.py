"""Changes a pod (a model of the Kubernetes client) for its placement, and undoes these changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes_asyncio.client import ApiClient

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.node_conditions import requiring_readiness
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of
from dra_spawner.spawner.placement.answer import PlacementAnswer

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME = "metadata.name"
#: Node labels that pods require only because of the service's answers.
_OUR_LABELS = frozenset((names.IMAGES_READY,))
_MAX_WEIGHT = 100
#: Small, as it favours every node but those that the service empties; without a preferred node it still decides.
_STAYING_WEIGHT = 20


def manifest_of(pod: Any, client: ApiClient) -> JsonObject:
    """The pod as JSON for the API server; decimal numbers as text."""
    manifest: JsonObject = json.loads(json.dumps(client.sanitize_for_serialization(pod)), parse_float=str)
    return manifest


def shape_of_pod(manifest: Mapping[str, Any], specs: Mapping[str, JsonObject]) -> Shape | None:
    """The shape of a pod; None if it has claims that are not created for it alone, as a placeholder cannot have these.

    Parameters
    ----------
    specs
        Spec of the claim by the name of the start's template.
    """
    claims = {}
    for entry in manifest["spec"].get("resourceClaims") or ():
        spec = specs.get(entry.get("resourceClaimTemplateName") or "")
        if spec is None:
            return None
        claims[entry["name"]] = spec
    return shape_of(manifest, claims, _OUR_LABELS)


@dataclass(frozen=True, slots=True)
class OriginalPod:
    """The original state of the parts of a pod that a placement changes.

    Attributes
    ----------
    claims, affinity
        ``resourceClaims`` and ``affinity`` as JSON.
    """

    claims: tuple[JsonObject, ...]
    affinity: JsonObject

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> OriginalPod:
        spec = manifest["spec"]
        return cls(tuple(spec.get("resourceClaims") or ()), spec.get("affinity") or {})

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the entries of ``resourceClaims``."""
        return tuple(each["name"] for each in self.claims)

    def restore(self, pod: Any) -> None:
        """Restore the original claims and affinity of a pod."""
        self._set(pod, list(self.claims), self.affinity)

    def place(self, pod: Any, answer: PlacementAnswer) -> None:
        """Change a pod by the service's answer: its warm claims, ready nodes only, and a preference for its node.

        Nodes that the service empties are the last choice; `refusing_drained_nodes` is about those of an order.
        The pod is not bound before the placeholder that goes first is gone.
        """
        claims = [
            {"name": each["name"], "resourceClaimName": answer.claims[each["name"]]} if answer.claims else each
            for each in self.claims
        ]
        affinity = _affinity(self.affinity, answer.node)
        self._set(pod, claims, after_placeholder(affinity, answer.after) if answer.after else affinity)

    @staticmethod
    def _set(pod: Any, claims: list[JsonObject], affinity: JsonObject) -> None:
        pod.spec.resource_claims = claims or None
        pod.spec.affinity = affinity or None


def _affinity(affinity: JsonObject, node: str) -> JsonObject:
    ready = requiring_readiness(affinity)
    nodes = ready["nodeAffinity"]
    ours = []
    if node:
        # Not by the label kubernetes.io/hostname, as its value differs from the node's name on some clouds.
        named = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}
        ours.append({"weight": _MAX_WEIGHT, "preference": named})
    # Not required: if no other node is left, one that the service empties is better than none.
    staying = {"matchExpressions": [{"key": names.DRAINING, "operator": "DoesNotExist"}]}
    ours.append({"weight": _STAYING_WEIGHT, "preference": staying})
    return {**ready, "nodeAffinity": {**nodes, _PREFERRED: [*ours, *(nodes.get(_PREFERRED) or ())]}}


def after_placeholder(affinity: JsonObject, placeholder: str) -> JsonObject:
    """The affinity with the requirement that a placeholder is gone; kube-scheduler counts it while it terminates."""
    others = affinity.get("podAntiAffinity") or {}
    selector = {"matchLabels": {names.PLACEHOLDER_NAME: placeholder}}
    term = {"labelSelector": selector, "topologyKey": names.HOSTNAME}
    return {**affinity, "podAntiAffinity": {**others, _REQUIRED: [*(others.get(_REQUIRED) or ()), term]}}


def waits_for_placeholder(manifest: Mapping[str, Any]) -> bool:
    """Whether a server's pod was bound only after the placeholder was gone whose claims it has."""
    affinity = (manifest.get("spec") or {}).get("affinity") or {}
    return any(
        names.PLACEHOLDER_NAME in ((term.get("labelSelector") or {}).get("matchLabels") or {})
        for term in (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or ()
    )


def without_node(affinity: JsonObject, node: str, *, required: bool) -> JsonObject:
    """The affinity with a term against a node. Idempotent.

    Parameters
    ----------
    required
        Whether the pod must not run on the node; else the node is only the last choice.
    """
    nodes = affinity.get("nodeAffinity") or {}
    others = {"key": _NODE_NAME, "operator": "NotIn", "values": [node]}
    if required:
        terms = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        fields = [[each for each in term.get("matchFields") or () if each != others] for term in terms]
        more = [{**term, "matchFields": [*old, others]} for term, old in zip(terms, fields, strict=True)]
        return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": more}}}
    last = {"weight": _MAX_WEIGHT, "preference": {"matchFields": [others]}}
    rest = [each for each in nodes.get(_PREFERRED) or () if each != last]
    return {**affinity, "nodeAffinity": {**nodes, _PREFERRED: [last, *rest]}}

"""Parts of a pod's spec, decoded from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dra_spawner.dra.decoding import Reader
from dra_spawner.dra.node_selector import Requirement
from dra_spawner.simulator.labels import label_requirements
from dra_spawner.simulator.resources import PodRequests

__all__ = ["Container", "SpreadConstraint"]


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """An entry of ``topologySpreadConstraints`` that must be satisfied (``DoNotSchedule``)."""

    topology_key: str
    max_skew: int
    labels: tuple[Requirement, ...] | None
    """Conditions on the labels of the pods to spread, ``matchLabelKeys`` included; None selects no pod."""
    min_domains: int = 1
    honors_node_affinity: bool = True
    """Whether only nodes count that the pod's node selector and affinity allow."""
    honors_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""

    @classmethod
    def decode(cls, reader: Reader, pod_labels: Mapping[str, str]) -> SpreadConstraint:
        selector = reader.child("labelSelector")
        labels = label_requirements(selector) if selector is not None else None
        if labels is not None:
            own = [key for key in reader.texts("matchLabelKeys") or () if key in pod_labels]
            labels = (*(Requirement(key, "In", (pod_labels[key],)) for key in own), *labels)
        return cls(
            topology_key=reader.text("topologyKey"),
            max_skew=reader.integer("maxSkew", minimum=1),
            labels=labels,
            min_domains=reader.integer("minDomains", default=1),
            honors_node_affinity=reader.text("nodeAffinityPolicy") != "Ignore",
            honors_taints=reader.text("nodeTaintsPolicy") == "Honor",
        )


@dataclass(frozen=True, slots=True)
class Container:
    """The fields of a container that matter for devices."""

    requests: PodRequests
    is_init: bool = False
    is_sidecar: bool = False
    """An init container that keeps running beside the others."""
    claims: tuple[str, ...] = ()
    """Entries of the pod's ``resourceClaims`` that it uses."""

    @classmethod
    def decode(cls, reader: Reader, *, is_init: bool) -> Container:
        resources = reader.child("resources")
        if resources is None:
            return cls({}, is_init, is_init and reader.text("restartPolicy") == "Always")
        return cls(
            requests=resources.quantity_map("requests") or {},
            is_init=is_init,
            is_sidecar=is_init and reader.text("restartPolicy") == "Always",
            claims=tuple(claim.text("name") for claim in resources.children("claims")),
        )

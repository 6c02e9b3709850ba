"""Parts of a pod's spec, decoded from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.node_selector import NodeSelector, Requirement
from dra_spawner.simulator.model.labels import label_requirements
from dra_spawner.simulator.model.resources import PodRequests

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 (the API's default, not something we listen on)
_BEING_MADE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_MAX_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """An entry of ``spec.resourceClaims``, with its entry in ``status.resourceClaimStatuses``."""

    name: str
    """Name of the entry."""
    claim: str | None
    """Name of the ResourceClaim; None before it is generated, or if the pod needs no claim."""
    template: str | None = None
    """Name of the ResourceClaimTemplate of a generated claim; None for a claim that is named directly."""
    is_needed: bool = True
    """False if the pod needs no claim for this entry, according to its status."""


@dataclass(frozen=True, slots=True)
class UnhealthyDevice:
    """A report of the kubelet that a device of a container does not work (``allocatedResourcesStatus``, KEP-4680)."""

    name: str
    """``claim:<entry of resourceClaims>``, with ``/<request>`` if the container has one request of the claim."""
    resource_id: str = ""
    """``driver/pool/device``, or a name that the driver chose."""
    message: str = ""


def unhealthy_devices(status: Reader) -> tuple[UnhealthyDevice, ...]:
    """The reports in a pod's status."""
    return tuple(
        UnhealthyDevice(resource.text("name"), device.text("resourceID"), device.text("message"))
        for container in (*status.children("initContainerStatuses"), *status.children("containerStatuses"))
        for resource in container.children("allocatedResourcesStatus")
        for device in resource.children("resources")
        if device.text("health") == "Unhealthy"
    )


def waits_because(status: Reader) -> str:
    """Why a container does not start, such as "ErrImagePull: not found"; empty while it is only being made."""
    for container in (*status.children("initContainerStatuses"), *status.children("containerStatuses")):
        state = container.child("state")
        waiting = state and state.child("waiting")
        if waiting is not None and waiting.text("reason") not in _BEING_MADE:
            texts = (" ".join(waiting.text(key).split()) for key in ("reason", "message"))
            return ": ".join(filter(None, texts))[:_MAX_REASON]
    return ""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container requests."""

    address: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Whether a node cannot have both."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """An entry of ``preferredDuringSchedulingIgnoredDuringExecution`` of a node affinity."""

    weight: int
    selector: NodeSelector


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

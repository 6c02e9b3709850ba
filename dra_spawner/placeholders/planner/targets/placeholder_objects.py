"""The objects of one placeholder: a pod and its warm claims."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.preferences import Preferences, with_preferences
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.targets.shapes import Shape, is_extended_resource
from dra_spawner.simulator.model.resources import container_sum

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: Grace period of a placeholder with claims. With one above 0, the kubelet removes the pod's object only after it has
#: ended the pod and undone the preparation of its devices: a network interface is back on the node then. With 0 the
#: object is gone at once, and a server that waited for that is prepared while the placeholder still has the interface.
_GRACE_SECONDS = 5
_UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True)
class PlaceholderSettings:
    """Settings of all placeholders.

    Attributes
    ----------
    namespace
        The users' servers' namespace: a claim can only be handed over within it.
    priority_class
        Name of a PriorityClass below that of users; empty for none.
    image
        Image of the container, which does nothing.
    labels
        Further labels of pods and claims.
    image_pull_secrets
        Names of Secrets in the namespace, to pull the image.
    """

    namespace: str = "default"
    priority_class: str = ""
    image: str = names.PAUSE_IMAGE
    labels: Mapping[str, str] = field(default_factory=dict)
    image_pull_secrets: tuple[str, ...] = ()


def claim_name(placeholder: str, entry: str) -> str:
    return f"{placeholder}-{entry}"


def placeholder_claims(
    shape: Shape,
    name: str,
    settings: PlaceholderSettings,
    preferences: Mapping[str, Preferences] = MappingProxyType({}),
) -> tuple[JsonObject, ...]:
    """The warm claims, to be created before the pod.

    Parameters
    ----------
    preferences
        Devices that they should get, by entry.
    """
    return tuple(
        {
            "apiVersion": names.RESOURCE_API,
            "kind": "ResourceClaim",
            "metadata": _metadata(claim_name(name, entry), shape, settings),
            "spec": with_preferences(spec, preferences[entry]) if entry in preferences else spec,
        }
        for entry, spec in shape.claims.items()
    )


def placeholder_pod(
    shape: Shape,
    name: str,
    settings: PlaceholderSettings,
    avoid: Collection[str] = (),
    unnamed: Collection[str] = (),
    node: str = "",
    never: Collection[str] = (),
) -> JsonObject:
    """The placeholder's pod.

    A placeholder without devices is preempted only where nothing is free. It prefers the node that attracts
    placeholders, and nodes without users, so that users' nodes keep free capacity. A placeholder with devices is handed
    over where it is. It prefers ready nodes and nodes with users, so that these become full.

    Parameters
    ----------
    avoid, unnamed, never
        See `CreatePlaceholder`. The kubelet prepares all claims that the pod names.
    node
        The node that it prefers to all others; empty for none.
    """
    metadata = _metadata(name, shape, settings)
    metadata["annotations"] = {names.SAFE_TO_EVICT: names.TRUE}
    requests = {name: str(amount) for name, amount in requests_of(shape).items()}
    resources: JsonObject = {"requests": requests}
    # The API server requires limits equal to requests for these.
    if extended := {name: amount for name, amount in requests.items() if is_extended_resource(name)}:
        resources["limits"] = extended
    if shape.claims:
        resources["claims"] = [{"name": entry} for entry in shape.claims if entry not in unnamed]
        metadata["labels"][names.PLACEHOLDER_NAME] = name
    spec: JsonObject = {
        **{key: value for key, value in shape.node_fields.items() if key != "affinity"},
        "affinity": _affinity(shape, avoid, node, never),
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "placeholder",
                "image": settings.image,
                "resources": resources,
                "securityContext": _UNPRIVILEGED,
            }
        ],
        "enableServiceLinks": False,
        "resourceClaims": [{"name": entry, "resourceClaimName": claim_name(name, entry)} for entry in shape.claims],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
    }
    if not shape.claims:
        del spec["resourceClaims"]
        spec["terminationGracePeriodSeconds"] = 0
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _metadata(name: str, shape: Shape, settings: PlaceholderSettings) -> JsonObject:
    return {
        "name": name,
        "namespace": settings.namespace,
        "labels": {
            **settings.labels,
            names.COMPONENT: names.PLACEHOLDER,
            names.MANAGED_BY: names.MANAGER,
            names.SHAPE: shape.id,
        },
    }


def requests_of(shape: Shape) -> dict[str, Quantity]:
    """The sum of the user's containers' requests, for the placeholder's one container."""
    regular = [_quantities(each) for each in shape.containers if not each.get("init")]
    init = [(_quantities(each), bool(each.get("sidecar"))) for each in shape.containers if each.get("init")]
    return dict(sorted(container_sum(regular, init).items()))


def _quantities(container: Mapping[str, Any]) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in container["requests"].items()}


def _affinity(shape: Shape, avoid: Collection[str], node: str, never: Collection[str]) -> JsonObject:
    nodes = dict(shape.node_fields.get("affinity", {}).get("nodeAffinity", {}))
    attracted = {"matchExpressions": [{"key": names.ATTRACT, "operator": "In", "values": [names.TRUE]}]}
    ready = {"matchExpressions": [{"key": names.IMAGES_READY, "operator": "Exists"}]}
    nodes[_PREFERRED] = [{"weight": 100, "preference": attracted}]
    if shape.wants_devices:
        nodes[_PREFERRED] = [{"weight": 100, "preference": ready}, {"weight": 20, "preference": attracted}]
    if node:
        there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        nodes[_PREFERRED].append({"weight": 100, "preference": there})
    if avoid:
        elsewhere = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in avoid]}
        nodes[_PREFERRED].append({"weight": 100, "preference": elsewhere})
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {"nodeSelectorTerms": [{}]}
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in never]
    not_draining = {"key": names.DRAINING, "operator": "DoesNotExist"}
    nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [
            {
                **term,
                "matchExpressions": [*term.get("matchExpressions", ()), not_draining],
                **({"matchFields": [*term.get("matchFields", ()), *others]} if others else {}),
            }
            for term in required["nodeSelectorTerms"]
        ]
    }
    near_users = {
        "labelSelector": {"matchLabels": {names.COMPONENT: names.USER_SERVER}},
        "topologyKey": names.HOSTNAME,
    }
    if shape.wants_devices:
        return {
            "nodeAffinity": nodes,
            "podAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": near_users}]},
        }
    return {
        "nodeAffinity": nodes,
        "podAntiAffinity": {_PREFERRED: [{"weight": 50, "podAffinityTerm": near_users}]},
    }

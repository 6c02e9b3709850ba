"""Connections that NetworkPolicies of networking.k8s.io/v1 let through.

A connection passes if the policies of its source let it out and those of its target let it in. The policies that select a
pod are a union; a pod that no policy of a direction selects is open in that direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject


@dataclass(frozen=True)
class Endpoint:
    """A pod, or a host outside the cluster.

    Attributes
    ----------
    namespace
        Of the pod; empty for a host.
    ports
        Numbers by name.
    """

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, template: JsonObject, namespace: str, address: str = "10.42.0.7") -> Endpoint:
        """A pod of a Deployment's template, or a Pod."""
        ports = {
            port["name"]: port["containerPort"]
            for container in template["spec"]["containers"]
            for port in container.get("ports", ())
            if "name" in port
        }
        return cls(address, namespace, template["metadata"].get("labels", {}), ports)

    def all_namespace_labels(self) -> Mapping[str, str]:
        """Labels of the namespace, with the one that every namespace has."""
        return {**self.namespace_labels, names.NAMESPACE_NAME: self.namespace}


@dataclass(frozen=True)
class Network:
    """Policies of a cluster.

    Parameters
    ----------
    ip_blocks_have_pods
        Whether an `ipBlock` is about pods, too, as most network plugins have it. Those of Cilium never are.
    """

    policies: Iterable[JsonObject]
    ip_blocks_have_pods: bool = True

    def lets_through(self, source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP") -> bool:
        """Whether the source may open a connection to the target."""
        return self._is_open("Egress", source, target, target, port, protocol) and self._is_open(
            "Ingress", target, source, target, port, protocol
        )

    def _is_open(
        self, direction: str, pod: Endpoint, peer: Endpoint, target: Endpoint, port: int, protocol: str
    ) -> bool:
        found = [each for each in self.policies if _selects(each, pod, direction)]
        key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
        return not found or any(
            _has_port(rule, target, port, protocol) and self._has_peer(rule.get(peers), pod, peer)
            for policy in found
            for rule in policy["spec"].get(key) or ()
        )

    def _has_peer(self, peers: list[JsonObject] | None, pod: Endpoint, other: Endpoint) -> bool:
        return not peers or any(self._is_peer(each, pod, other) for each in peers)

    def _is_peer(self, peer: JsonObject, pod: Endpoint, other: Endpoint) -> bool:
        if block := peer.get("ipBlock"):
            address = ip_address(other.address)
            return (
                (self.ip_blocks_have_pods or not other.namespace)
                and address in ip_network(block["cidr"])
                and not any(address in ip_network(each) for each in block.get("except") or ())
            )
        if not other.namespace:
            return False
        if (spaces := peer.get("namespaceSelector")) is None:
            in_namespace = other.namespace == pod.namespace
        else:
            in_namespace = matches(spaces, other.all_namespace_labels())
        return in_namespace and matches(peer.get("podSelector") or {}, other.labels)


def matches(selector: JsonObject, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects labels; an empty one selects all."""
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        _fulfils(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _fulfils(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    found: str | None = labels.get(expression["key"])
    values: Any = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    raise ValueError(f"unknown operator: {expression['operator']}")


def _selects(policy: JsonObject, pod: Endpoint, direction: str) -> bool:
    spec = policy["spec"]
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        direction in types
        and policy["metadata"]["namespace"] == pod.namespace
        and matches(spec.get("podSelector") or {}, pod.labels)
    )


def _has_port(rule: JsonObject, target: Endpoint, port: int, protocol: str) -> bool:
    """A port's name is one of the target's, in both directions."""
    ports: list[JsonObject] = rule.get("ports") or [{}]
    for each in ports:
        if each.get("protocol", "TCP") != protocol and each:
            continue
        wanted = each.get("port")
        number = target.ports.get(wanted) if isinstance(wanted, str) else wanted
        if wanted is None or (number is not None and number <= port <= (each.get("endPort") or number)):
            return True
    return False

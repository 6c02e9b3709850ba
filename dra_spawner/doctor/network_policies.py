"""Whether network policies of a namespace let one pod reach another, as far as their text says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.objects import name_of

_EGRESS: Final = "Egress"
_INGRESS: Final = "Ingress"


@dataclass(frozen=True, slots=True)
class Peer:
    """Pods at one end of a connection, in the policies' namespace.

    Attributes
    ----------
    address
        Of one of the pods; empty if it is not known.
    port, port_name
        Where they listen; for the end that is connected to.
    """

    labels: Mapping[str, str]
    address: str = ""
    port: int = 0
    port_name: str = ""


def closing_policies(
    policies: Iterable[JsonObject], source: Peer, target: Peer, *, blocks_cover_pods: bool = True
) -> tuple[str, ...]:
    """Names of the policies that close the way; empty if it is open.

    Parameters
    ----------
    blocks_cover_pods
        Whether rules for blocks of addresses are for pods, too; with Cilium they are not.
    """
    policies = tuple(policies)
    found: list[str] = []
    for direction, own, other in ((_EGRESS, source, target), (_INGRESS, target, source)):
        selecting = [each for each in policies if _is_for(each, direction, own.labels)]
        if selecting and not any(_opens(each, direction, other, target, blocks_cover_pods) for each in selecting):
            found += [name_of(each) for each in selecting]
    return tuple(dict.fromkeys(found))


def _is_for(policy: JsonObject, direction: str, labels: Mapping[str, str]) -> bool:
    spec = policy.get("spec") or {}
    types = spec.get("policyTypes") or [_INGRESS, *([_EGRESS] if "egress" in spec else [])]
    return direction in types and _selects(spec.get("podSelector") or {}, labels)


def _opens(policy: JsonObject, direction: str, other: Peer, target: Peer, blocks_cover_pods: bool) -> bool:
    spec = policy.get("spec") or {}
    key = "to" if direction == _EGRESS else "from"
    return any(
        _has_port(rule.get("ports"), target) and _has_peer(rule.get(key), other, blocks_cover_pods)
        for rule in spec.get(direction.lower()) or ()
    )


def _has_port(ports: Any, target: Peer) -> bool:
    return not ports or any(
        each.get("protocol") in (None, "TCP")
        and (
            each.get("port") in (None, target.port, target.port_name or None)
            or (isinstance(each.get("port"), int) and each["port"] <= target.port <= each.get("endPort", each["port"]))
        )
        for each in ports
    )


def _has_peer(peers: Any, other: Peer, blocks_cover_pods: bool) -> bool:
    return not peers or any(_is_peer(each, other, blocks_cover_pods) for each in peers)


def _is_peer(peer: JsonObject, other: Peer, blocks_cover_pods: bool) -> bool:
    if block := peer.get("ipBlock"):
        return blocks_cover_pods and (not other.address or _is_in(block, other.address))
    # Labels of namespaces are not read: a selector of namespaces is believed to select the policies' own.
    return _selects(peer.get("podSelector") or {}, other.labels)


def _is_in(block: JsonObject, address: str) -> bool:
    try:
        own = ip_address(address)
        excepted = any(own in ip_network(each, strict=False) for each in block.get("except") or ())
        return own in ip_network(block["cidr"], strict=False) and not excepted
    except (ValueError, LookupError):
        return True


def _selects(selector: JsonObject, labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _matches(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(expression.get("key", "")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case _:
            return found is None

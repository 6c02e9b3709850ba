"""Network policies of Cilium in the words of Kubernetes' own, as far as these have words for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner.doctor.objects import name_of
from dra_spawner.json_types import JsonObject

__all__ = ["NAMESPACE_LABEL", "NotTranslated", "network_policies_of"]

#: A label that each pod has for Cilium.
NAMESPACE_LABEL: Final = "io.kubernetes.pod.namespace"
#: Of labels of namespaces and of service accounts, which are not read.
_UNKNOWN_LABELS: Final = ("io.cilium.k8s.", "io.kubernetes.pod.uid")
_SOURCES: Final = ("k8s:", "any:")
#: Entities that have pods in them; the others are nodes, the API server, and machines outside of the cluster.
_PODS: Final = frozenset({"all", "cluster"})
#: Peers that are no pods.
_NO_PODS: Final = frozenset({"CIDR", "CIDRSet", "FQDNs", "Nodes"})
_WORDS: Final = {"Ingress": "from", "Egress": "to"}
_ANY_PORT: Final = 0


class NotTranslated(Exception):
    """The policy has a part without a translation; the text names it."""


def network_policies_of(policy: JsonObject, kind: str) -> tuple[JsonObject, ...]:
    """The same rules as NetworkPolicy objects, named by kind and name.

    Raises
    ------
    NotTranslated
        For what Kubernetes' policies cannot say: refusals, rules about HTTP, services as peers.
    """
    specs = [policy.get("spec"), *(policy.get("specs") or ())]
    metadata = {"name": f"{kind} {name_of(policy)}"}
    # One with a selector of nodes is about no pod.
    return tuple({"metadata": metadata, "spec": _spec(each)} for each in specs if each and "nodeSelector" not in each)


def _spec(spec: JsonObject) -> JsonObject:
    for part in ("ingressDeny", "egressDeny", "enableDefaultDeny"):
        if spec.get(part):
            raise NotTranslated(part)
    found: dict[str, Any] = {"podSelector": _selector(spec.get("endpointSelector") or {}), "policyTypes": []}
    for direction, word in _WORDS.items():
        rules = spec.get(direction.lower()) or ()
        if rules:
            found["policyTypes"].append(direction)
            found[direction.lower()] = [rule for each in rules for rule in _rules(each, word)]
    return found


def _rules(rule: JsonObject, word: str) -> Iterator[JsonObject]:
    """A rule with peers is for these only, and one without anything is for none."""
    peers: list[JsonObject] | None = None
    for key, value in rule.items():
        if key == "toPorts":
            continue
        kind = key.removeprefix(word)
        if kind == "Endpoints":
            peers = [*(peers or ()), *({"podSelector": _selector(each)} for each in value or ())]
        elif kind == "Entities":
            peers = [*(peers or ()), *({"podSelector": {}} for each in value or () if each in _PODS)]
        elif kind in _NO_PODS or key == "icmps":
            peers = peers or []
        else:
            raise NotTranslated(key)
    if peers is None and not rule.get("toPorts"):
        return
    translated: dict[str, Any] = {"ports": list(_ports(rule.get("toPorts") or ()))}
    if peers is None:
        yield translated
    elif peers:
        yield {**translated, word: peers}


def _ports(groups: Any) -> Iterator[JsonObject]:
    for group in groups:
        if unknown := sorted(group.keys() - {"ports"}):
            raise NotTranslated(f"toPorts.{unknown[0]}")
        for each in group.get("ports") or ():
            port = str(each.get("port") or _ANY_PORT)
            found: dict[str, Any] = {}
            if not port.isdecimal():
                found["port"] = port
            elif int(port) != _ANY_PORT:
                found |= {"port": int(port), "endPort": max(int(port), int(each.get("endPort") or 0))}
            protocol = each.get("protocol") or "ANY"
            yield found if protocol == "ANY" else {**found, "protocol": protocol}


def _selector(selector: Mapping[str, Any]) -> JsonObject:
    expressions = [{**each, "key": _label(each.get("key") or "")} for each in selector.get("matchExpressions") or ()]
    labels = {_label(key): value for key, value in (selector.get("matchLabels") or {}).items()}
    return {"matchLabels": labels, "matchExpressions": expressions}


def _label(key: str) -> str:
    for source in _SOURCES:
        key = key.removeprefix(source)
    if key.startswith(_UNKNOWN_LABELS):
        raise NotTranslated(f"the label {key}")
    return key

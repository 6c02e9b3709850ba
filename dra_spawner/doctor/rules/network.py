"""Network policies: whether hub, proxy and service may reach one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner.common.counted_text import listed
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.network_policies import Peer, closing_policies
from dra_spawner.doctor.objects import component_of, is_ours, labels_of, name_of

_HUB_PORT: Final = 8081
_SERVICE_PORT: Final = 8181
_CILIUM: Final = "Cilium"
_LISTED: Final = 3
_NOTES: Final = (
    "helm get notes dra-spawner prints the egress rules for the hub's values, and the labels that the service's pods "
    "need."
)
_ALLOW: Final = (
    "If hub and service do not reach each other or the API server, allow in these policies: hub and proxy to the "
    f"service's pods (port {_SERVICE_PORT}), the service to the hub's pods (port {_HUB_PORT}), both to the API server. "
    "With Cilium: egress with toEndpoints and the pods' labels, and toEntities: [kube-apiserver]."
)

NETWORK_POLICY: Final = DoctorRule(
    "network-policy",
    Subject.PATHS,
    (Severity.ERROR, Severity.WARNING),
    "network policies close the way between hub, proxy and service; a warning where this is so only with Cilium",
    "the egress rules that the notes of the chart dra-spawner print",
)
OTHER_POLICIES: Final = DoctorRule(
    "other-policies",
    Subject.PATHS,
    (Severity.INFO,),
    "policies of Cilium, or of administrators for all namespaces, are in force; they were not evaluated",
    "if hub and service do not reach each other: rules for their pods, not for addresses",
)

NETWORK_RULES: Final = rules_of(globals())


def network_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about network policies."""
    others = [f"{kind} {name_of(each)}" for kind, objects in facts.other_policies.items() for each in objects or ()]
    yield from _ways(
        facts, facts.network_policies or (), are_all=not others and None not in facts.other_policies.values()
    )
    if others:
        yield _others(others)


def _ways(facts: DoctorFacts, policies: Sequence[JsonObject], *, are_all: bool) -> Iterator[DoctorFinding]:
    pods = facts.hub_namespace_pods or ()
    service = next((each for each in pods if is_ours(each)), None)
    if service is None or not policies:
        return
    ends = {part: next((each for each in pods if component_of(each) == part), None) for part in ("hub", "proxy")}
    serving, asking = _peer(facts, service, _SERVICE_PORT), _peer(facts, service)
    ways = [(part, _peer(facts, each), "service", serving) for part, each in ends.items() if each is not None]
    if ends["hub"] is not None:
        ways.append(("service", asking, "hub", _peer(facts, ends["hub"], _HUB_PORT)))
    for source_name, source, target_name, target in ways:
        way = f"the way from the {source_name} to the {target_name} (port {target.port})"
        if closing := closing_policies(policies, source, target):
            if are_all:  # else one of another kind may open the way
                yield _closed(f"Network policies close {way}: {', '.join(closing)}.", closing, Severity.ERROR)
        elif facts.has_cilium and (closing := closing_policies(policies, source, target, blocks_cover_pods=False)):
            yield _closed(
                f"With Cilium, which this cluster knows, rules for blocks of addresses do not count for pods. Then "
                f"network policies close {way}: {', '.join(closing)}.",
                closing,
                Severity.WARNING,
            )


def _closed(sentence: str, closing: tuple[str, ...], severity: Severity) -> DoctorFinding:
    return NETWORK_POLICY.finding(sentence, _NOTES, f"NetworkPolicy {closing[0]}", severity)


def _others(found: list[str]) -> DoctorFinding:
    parts = [
        f"Network policies of other kinds are in force and were not evaluated: {listed(found, _LISTED)}.",
        "Only an attempt from the pod shows whether the way between hub, proxy and service is open.",
    ]
    if any(each.startswith(_CILIUM) for each in found):
        parts.append("With Cilium, rules for blocks of addresses, such as private ones, do not count for pods.")
    return OTHER_POLICIES.finding(" ".join(parts), _ALLOW, found[0])


def _peer(facts: DoctorFacts, pod: JsonObject, port: int = 0) -> Peer:
    address = str((pod.get("status") or {}).get("podIP") or "")
    return Peer(labels_of(pod), address, port, "http" if port else "")

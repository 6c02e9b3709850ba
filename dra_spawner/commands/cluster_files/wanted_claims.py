"""The claims that a question asks for: those without allocation, and those that pods and templates stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.simulator.model.claims import ClaimTemplate
from dra_spawner.simulator.model.pods import Pod

__all__ = ["WantedClaims", "wanted_claims"]

_DEFAULT = "default"


class WantedClaims(list[ResourceClaim]):
    """The claims in order.

    Attributes
    ----------
    problems
        A sentence for each object that a pod names and that was not given.
    pods
        Number of pods that ask for some of them.
    """

    def __init__(self, claims: Iterable[ResourceClaim]) -> None:
        super().__init__(claims)
        self.problems: list[str] = []
        self.pods = 0

    @property
    def asks_nothing(self) -> bool:
        """Whether no claim has a request."""
        return not any(claim.requests for claim in self)


def wanted_claims(
    claims: Iterable[ResourceClaim],
    templates: Iterable[ClaimTemplate],
    pods: Iterable[Pod],
) -> WantedClaims:
    """The claims to fit.

    A pod that has no node yet asks for a claim of each template that it names; a template that no pod names counts as
    one claim.
    """
    claims = tuple(claims)
    found = WantedClaims(claim for claim in claims if not claim.is_allocated)
    by_name = {(each.namespace or _DEFAULT, each.name): each for each in templates}
    known = {(each.namespace or _DEFAULT, each.name) for each in claims}
    named: set[tuple[str, str]] = set()
    for pod in pods:
        namespace = pod.namespace or _DEFAULT
        named |= {(namespace, each.template) for each in pod.claims if each.template}
        if pod.node_name or pod.is_finished or pod.is_deleted:
            continue
        found.pods += bool(pod.claims)
        _add_of_pod(pod, namespace, by_name, known, found)
    found += [
        replace(each.pattern, name=each.name, namespace=each.namespace)
        for key, each in by_name.items()
        if key not in named
    ]
    return found


def _add_of_pod(
    pod: Pod,
    namespace: str,
    templates: Mapping[tuple[str, str], ClaimTemplate],
    known: set[tuple[str, str]],
    found: WantedClaims,
) -> None:
    for each in pod.claims:
        if not each.is_needed or (each.claim and (namespace, each.claim) in known):
            continue
        template = templates.get((namespace, each.template)) if each.template else None
        if template is not None:
            found.append(replace(template.pattern, name=f"{pod.name}-{each.name}", namespace=pod.namespace))
        else:
            kind, name = ("ResourceClaim", each.claim) if each.claim else ("ResourceClaimTemplate", each.template)
            found.problems.append(f"Pod {pod} names {kind} {name}, which was not given")

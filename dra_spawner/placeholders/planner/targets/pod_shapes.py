"""The true shapes of servers' pods, where users may write their pods' labels.

With a namespace for each user, users can change labels and annotations of their pods. The placeholder for a pending pod
is outside of the user's quota, and asks the autoscaler for a node. So it must not be larger than the pod, nor allow
more nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dra_spawner import names
from dra_spawner.dra.model.claims import ClaimStatus, ResourceClaim, Toleration
from dra_spawner.dra.model.node_selector import NodeSelector, Requirement
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains, without_label
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_id
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import Amounts
from dra_spawner.simulator.snapshot import Snapshot

_Term = tuple[frozenset[Requirement], frozenset[Requirement]]
_Sources = tuple[TrackedClaim | ClaimTemplate | None, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Needs of a pod.

    Attributes
    ----------
    claims
        Specs of the claims that are made for the pod alone, by entry.
    nodes
        Terms of the required node affinity without readiness and drained nodes; None if there is none.
    """

    requests: Amounts
    claims: Mapping[str, ResourceClaim]
    selector: Mapping[str, str]
    nodes: frozenset[_Term] | None
    tolerations: frozenset[Toleration]
    scheduler: str
    runtime_class: str

    def allows(self, said: _Asked) -> bool:
        """Whether a pod with these needs may declare the others: they ask for no more, and for no other nodes.

        Admission plugins make a pod larger, more tolerant, or restrict its nodes.
        """
        return (
            all(self.requests.get(name, 0) >= amount for name, amount in said.requests.items())
            and all(self.claims.get(entry) == claim for entry, claim in said.claims.items())
            and said.selector.items() <= self.selector.items()
            and said.nodes == self.nodes
            and said.tolerations <= self.tolerations
            and (said.scheduler, said.runtime_class) == (self.scheduler, self.runtime_class)
        )


@dataclass(frozen=True, slots=True)
class _Judged:
    """A pod's shape with all inputs of that result."""

    pod: Pod
    said: Shape
    sources: _Sources
    own: Shape | None


class OwnShapes:
    """Finds the true shapes of pods, with a cache."""

    def __init__(self) -> None:
        self._judged: dict[ObjectKey, _Judged] = {}
        self._seen: dict[ObjectKey, _Judged] = {}
        self._said: dict[str, _Asked] = {}

    def of(self, pod: Pod, said: Shape, snapshot: Snapshot) -> tuple[Shape | None, bool]:
        """The true shape of a pod that declares one, and whether this call computed it.

        It is the declared shape, or that shape on fewer nodes; None if the pod asks for less or for something else.
        """
        key, sources = ObjectKey.of(pod), _sources(pod, snapshot)
        known = self._judged.get(key)
        is_new = known is None or not _is_of(known, pod, said, sources)
        if known is None or is_new:
            known = _Judged(pod, said, sources, self._judge(pod, said, sources))
        self._seen[key] = known
        return known.own, is_new

    def forget_others(self) -> None:
        """Drop cached pods that were not asked about since the last call."""
        self._judged, self._seen = self._seen, {}
        shapes = {each.said.id for each in self._judged.values()}
        self._said = {shape: each for shape, each in self._said.items() if shape in shapes}

    def _judge(self, pod: Pod, said: Shape, sources: _Sources) -> Shape | None:
        asked, claimed = _asked(pod, sources), self._said.get(said.id)
        if claimed is None:
            simulated, templates = simulated_user(said, pod.namespace)
            claimed = self._said[said.id] = _asked(simulated, templates)
        if not asked.allows(claimed):
            return None
        if asked.selector == claimed.selector:
            return said
        fields = {**said.node_fields, "nodeSelector": dict(asked.selector)}
        return Shape(shape_id(said.claims, said.containers, fields), said.claims, said.containers, fields)


def _is_of(known: _Judged, pod: Pod, said: Shape, sources: _Sources) -> bool:
    return (
        known.pod is pod
        and known.said is said
        and len(known.sources) == len(sources)
        and all(before is now for before, now in zip(known.sources, sources, strict=True))
    )


def _sources(pod: Pod, snapshot: Snapshot) -> _Sources:
    """The claim or template of each of the pod's own claims; None for foreign and for missing ones."""
    found: list[TrackedClaim | ClaimTemplate | None] = []
    for reference in pod.claims:
        claim = snapshot.claims.get(ObjectKey(pod.namespace, reference.claim or ""))
        if reference.template is None:
            found.append(None)  # a shared claim adds nothing to the pod's needs
        elif claim is not None and claim.belongs_to(pod):
            found.append(claim)
        else:
            found.append(snapshot.templates.get(ObjectKey(pod.namespace, reference.template)))
    return tuple(found)


def _asked(pod: Pod, sources: _Sources) -> _Asked:
    required = without_drains(without_label(pod, names.IMAGES_READY)).required_nodes
    return _Asked(
        requests=pod.requests,
        claims={
            reference.name: _spec(source)
            for reference, source in zip(pod.claims, sources, strict=True)
            if source is not None
        },
        selector=pod.node_selector,
        nodes=_terms(required) if required is not None else None,
        tolerations=frozenset(pod.tolerations),
        scheduler=pod.scheduler_name,
        runtime_class=pod.runtime_class,
    )


def _terms(nodes: NodeSelector) -> frozenset[_Term]:
    return frozenset((frozenset(term.match_expressions), frozenset(term.match_fields)) for term in nodes.terms)


def _spec(source: TrackedClaim | ClaimTemplate) -> ResourceClaim:
    claim = source.pattern if isinstance(source, ClaimTemplate) else source.claim
    return replace(claim, name="", namespace="", uid="", status=ClaimStatus())

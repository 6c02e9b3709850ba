"""Verdicts on all nodes of a cluster, nodes with the same one together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dra_spawner.dra.allocator import Allocation, AllocationError, DoesNotFit
from dra_spawner.dra.claims import ResourceClaim
from dra_spawner.simulator.claim_shapes import ClaimShape
from dra_spawner.simulator.class_verdicts import ClassVerdict, Fatal, Fits, Judge, Reason, no_fit
from dra_spawner.simulator.pool_views import NodeView

__all__ = ["Question", "Verdict", "VerdictGroup", "Verdicts"]

Verdict = tuple[Allocation, ...] | DoesNotFit | AllocationError
"""What the claims get on a node, why they do not fit, or why the scheduler would give up on the pod."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Claims that are to be allocated together."""

    claims: tuple[ResourceClaim, ...]
    shape: ClaimShape
    judge: Judge


@dataclass(frozen=True, slots=True, eq=False)
class VerdictGroup:
    """Nodes on which the same claims meet the same end.

    Attributes
    ----------
    nodes
        Names, in the order in which the nodes were added; at least one.
    verdict
        That of the first node. For the others it differs in names of devices and pools at most.
    """

    nodes: tuple[str, ...]
    verdict: Verdict
    _class_verdict: ClassVerdict
    _reason: Reason | None

    @property
    def fits(self) -> bool:
        return isinstance(self._class_verdict, Fits)

    def on(self, view: NodeView, question: Question) -> Verdict:
        """The verdict on one of the nodes."""
        verdict = self._class_verdict
        if view.node.name == self.nodes[0] or isinstance(verdict, Fatal):
            return self.verdict
        if isinstance(verdict, Fits):
            return question.judge.allocations(verdict, view, question.shape.prepared)
        return no_fit(verdict, self._reason, view, question.claims)


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdict on every node; stays as it is when the cluster changes.

    Attributes
    ----------
    groups
        In the order of their first nodes.
    """

    groups: tuple[VerdictGroup, ...]
    _question: Question
    _views: Mapping[str, NodeView]
    _group_of: dict[str, VerdictGroup] = field(default_factory=dict)

    def __iter__(self) -> Iterator[VerdictGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def group_of(self, node_name: str) -> VerdictGroup:
        """The group of a node. KeyError when there is no such node."""
        if not self._group_of:
            self._group_of.update((name, group) for group in self.groups for name in group.nodes)
        return self._group_of[node_name]

    def on(self, node_name: str) -> Verdict:
        """The verdict on a node, in its own devices' names; of an error, in the names of its group's first node."""
        return self.group_of(node_name).on(self._views[node_name], self._question)

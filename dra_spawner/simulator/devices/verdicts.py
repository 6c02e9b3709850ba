"""Verdicts on all nodes of a cluster; nodes with the same verdict are grouped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dra_spawner.dra.allocation.allocator import Allocation, AllocationError, DoesNotFit
from dra_spawner.dra.allocation.counters import CounterCache
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.simulator.devices.claim_shapes import ClaimShape
from dra_spawner.simulator.devices.class_verdicts import ClassVerdict, Fatal, Fits, Judge, Reason, Stopped, no_fit
from dra_spawner.simulator.devices.pool_views import NodeView

Verdict = tuple[Allocation, ...] | DoesNotFit | AllocationError | SearchStopped
"""The allocations of the claims on a node, why they do not fit, why the scheduler would give up on the pod, or that the
search was stopped before there was a verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class ShapeGroup:
    """Nodes with the same verdict on claims of one shape.

    Attributes
    ----------
    view
        View of the first node.
    reason
        Why the claims do not fit, if the caller asked for it.
    counters
        What is left of counters, if that depends on the nodes that were judged before.
    """

    nodes: tuple[str, ...]
    view: NodeView
    verdict: ClassVerdict | Stopped
    reason: Reason | None
    counters: CounterCache | None = None

    def without(self, names: set[str], views: Mapping[str, NodeView]) -> ShapeGroup | None:
        """The group without these nodes; None if nothing is left."""
        left = tuple([name for name in self.nodes if name not in names])
        if left == self.nodes:
            return self
        return replace(self, nodes=left, view=views[left[0]]) if left else None


@dataclass(frozen=True, slots=True, eq=False)
class ShapeAnswer:
    """The verdicts on claims of one shape, without their names.

    Attributes
    ----------
    groups
        Groups in the order of their first nodes.
    views
        View of each node, by its name.
    group_of
        Group of each node, by its name.
    fatal
        Groups on which the scheduler would give up on the pod.
    """

    groups: tuple[ShapeGroup, ...]
    views: Mapping[str, NodeView]
    group_of: dict[str, ShapeGroup] = field(init=False, default_factory=dict)
    fatal: list[ShapeGroup] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.group_of.update([(name, group) for group in self.groups for name in group.nodes])
        self.fatal.extend([group for group in self.groups if isinstance(group.verdict, Fatal)])


@dataclass(frozen=True, slots=True, eq=False)
class DeviceQuestion:
    """Claims to allocate together."""

    claims: tuple[ResourceClaim, ...]
    shape: ClaimShape
    judge: Judge
    errors: Mapping[ShapeGroup, AllocationError] = field(default_factory=dict)
    """Error of each group on which the scheduler would give up on the pod, with the names of its first node."""

    def verdict(self, group: ShapeGroup, view: NodeView) -> Verdict:
        """The verdict on a node of the group; an error always has the names of the group's first node."""
        verdict = group.verdict
        if isinstance(verdict, Fits):
            return self.judge.allocations(verdict, view, self.shape.prepared)
        if isinstance(verdict, Fatal):
            return self.errors[group]
        if isinstance(verdict, Stopped):
            return verdict.error
        return no_fit(verdict, group.reason, view, self.claims)


@dataclass(frozen=True, slots=True, eq=False)
class VerdictGroup:
    """Nodes with the same verdict on the claims."""

    _group: ShapeGroup
    _question: DeviceQuestion

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in the order in which the nodes were added; at least one."""
        return self._group.nodes

    @property
    def fits(self) -> bool:
        return isinstance(self._group.verdict, Fits)

    @property
    def stopped(self) -> SearchStopped | None:
        """Why there is no verdict; None if there is a verdict."""
        return self._group.verdict.error if isinstance(self._group.verdict, Stopped) else None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the first node; verdicts on the others differ only in names of devices and pools."""
        return self._question.verdict(self._group, self._group.view)


class Verdicts:
    """The verdict on every node at one moment; later changes of the cluster do not affect it."""

    __slots__ = ("_answer", "_question")

    def __init__(self, answer: ShapeAnswer, question: DeviceQuestion) -> None:
        self._answer = answer
        self._question = question

    def __len__(self) -> int:
        return len(self._answer.groups)

    def __iter__(self) -> Iterator[VerdictGroup]:
        """Groups in the order of their first nodes."""
        return (VerdictGroup(group, self._question) for group in self._answer.groups)

    def fits(self, node_name: str) -> bool:
        """Whether the claims fit on the node. Raises KeyError if the node does not exist."""
        return isinstance(self._answer.group_of[node_name].verdict, Fits)

    def on(self, node_name: str) -> Verdict:
        """The verdict on a node, with the names of its own devices; an error has the names of its group's first node.

        Raises
        ------
        KeyError
            If the node does not exist.
        """
        return self._question.verdict(self._answer.group_of[node_name], self._answer.views[node_name])

"""Nodes as the scheduler sees them: their resources, and the pods that use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from sys import intern

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.objects import Node, Taint
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import PODS, Amounts, to_amounts


@dataclass(frozen=True, slots=True, eq=False)
class SchedulableNode:
    """The fields of a Node object that decide which pods may run there."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    is_unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    images: Mapping[str, int] = field(default_factory=dict)
    """Size in bytes of each image on the node, by each of its names."""
    created: str = ""
    """``metadata.creationTimestamp``."""
    is_ready: bool = True
    """Condition ``Ready``; a node without it counts as ready."""

    @property
    def identity(self) -> Node:
        """The node as device allocation needs it."""
        return Node(self.name, self.labels)

    @classmethod
    def from_json(cls, obj: object) -> SchedulableNode:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        root = Reader.root(obj, "Node")
        metadata = root.required_child("metadata")
        spec = root.child("spec") or Reader({}, "spec", root)
        status = root.child("status") or Reader({}, "status", root)
        return cls(
            name=metadata.required_text("name"),
            # Interned: thousands of nodes share them.
            labels={intern(name): intern(value) for name, value in metadata.text_map("labels").items()},
            allocatable=to_amounts(status.quantity_map("allocatable") or {}),
            is_unschedulable=bool(spec.boolean("unschedulable")),
            taints=tuple(
                Taint(taint.text("key"), taint.text("value"), taint.text("effect")) for taint in spec.children("taints")
            ),
            images={
                intern(name): image.integer("sizeBytes")
                for image in status.children("images")
                for name in image.texts("names") or ()
            },
            created=metadata.text("creationTimestamp"),
            is_ready=all(
                condition.text("status") == "True"
                for condition in status.children("conditions")
                if condition.text("type") == "Ready"
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """A node and the pods that are bound to it; immutable."""

    node: SchedulableNode
    pods: tuple[Pod, ...] = ()
    requested: Amounts = field(default_factory=dict)
    """Sum of the pods' requests."""
    scoring_requested: Amounts = field(default_factory=dict)
    """The same for scoring: containers that request nothing count, too."""

    @classmethod
    def of(cls, node: SchedulableNode, pods: Collection[Pod]) -> NodeState:
        requested: dict[str, int] = {}
        scoring_requested: dict[str, int] = {}
        for pod in pods:
            _add(requested, pod.requests, 1)
            _add(scoring_requested, pod.scoring_requests, 1)
        return cls(node, tuple(pods), requested, scoring_requested)

    def with_node(self, node: SchedulableNode) -> NodeState:
        """The same pods on the node as it is now."""
        return NodeState(node, self.pods, self.requested, self.scoring_requested)

    def with_pods(self, pods: Collection[Pod]) -> NodeState:
        return self._changed((*self.pods, *pods), pods, 1)

    def without_pods(self, pods: Collection[Pod]) -> NodeState:
        """The state without these pods, which must be the very objects in `pods`."""
        gone = {id(pod) for pod in pods}
        return self._changed(tuple(pod for pod in self.pods if id(pod) not in gone), pods, -1)

    def allowed_pods(self) -> int:
        """Maximum number of pods on the node."""
        return self.node.allocatable.get(PODS, 0)

    def _changed(self, pods: tuple[Pod, ...], changed: Collection[Pod], sign: int) -> NodeState:
        requested, scoring_requested = dict(self.requested), dict(self.scoring_requested)
        for pod in changed:
            _add(requested, pod.requests, sign)
            _add(scoring_requested, pod.scoring_requests, sign)
        return NodeState(self.node, pods, requested, scoring_requested)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount

"""Kinds of nodes that an autoscaler can add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dra_spawner.placeholders.planner.answers.scale_up_estimate import alike_key
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.choice_names import profile_of
from dra_spawner.scale_ahead.demand.lead_times import lead_time_quantile
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNode
from dra_spawner.simulator.model.nodes import SchedulableNode

SeenLeads = Mapping[str, Sequence[timedelta]]
"""Recorded lead times, by kind of node."""


@dataclass(frozen=True, slots=True)
class NodeSupply:
    """A kind of node that an autoscaler can add, with times and limits."""

    name: str
    lead: timedelta
    """Time from the order of a node until it has its devices."""
    nodes: tuple[str, ...] = ()
    """Names of present nodes of the kind; one of them is the template of new nodes (`node_looks`)."""
    past: tuple[SeenNode, ...] = ()
    """Past nodes of the kind; one is the template if no present node has all devices of the kind."""
    image_time: timedelta = timedelta(0)
    """Further time until the node has the images."""
    max_nodes: int | None = None
    """Limit of the number of nodes; None if unknown."""
    starts_per_minute: float | None = None
    """Limit of started nodes in a minute; None for no limit."""
    slots: int | None = None
    """Servers on a node, as described; None if unknown. They count if no node of the kind proves another number."""
    lead_is_known: bool = True
    """Whether the lead time was recorded or described, not assumed."""
    unneeded: timedelta | None = None
    """Time for which a node is empty before the autoscaler removes it; None if that is not known."""
    taken: int = 0
    """Nodes that users of other entries need, and that are not present yet."""
    leaving: int = 0
    """Present nodes that the autoscaler removes before the users come."""

    @property
    def is_known(self) -> bool:
        """Whether the capacity of a node is known, from a node or from a description."""
        return bool(self.nodes or self.past) or self.slots is not None

    @property
    def max_new(self) -> int | None:
        """Limit of the number of new nodes; None if unknown."""
        return (
            max(self.max_nodes - len(self.nodes) + self.leaving - self.taken, 0) if self.max_nodes is not None else None
        )

    @property
    def usable_after(self) -> timedelta:
        """Time from the order of a node until servers start on it at once."""
        return self.lead + self.image_time


def present_kinds(view: View, kind_label: str) -> dict[str, tuple[str, ...]]:
    """Names of present nodes by kind, which is the value of a label. Equal nodes without the label are of one kind."""
    kinds: dict[str, list[str]] = {}
    unnamed: dict[object, str] = {}
    for name, state in sorted(view.snapshot.nodes.items()):
        kind = state.node.labels.get(kind_label, "")
        if not kind:
            kind = unnamed.setdefault(alike_key(view, state), _unnamed(name))
        kinds.setdefault(kind, []).append(name)
    return {kind: tuple(names) for kind, names in kinds.items()}


def supplies_of_known_kinds(
    view: View,
    kind_label: str,
    configured: timedelta,
    image_time: timedelta = timedelta(0),
    seen: SeenLeads | None = None,
    past: Sequence[SeenNode] = (),
) -> tuple[NodeSupply, ...]:
    """Supplies of all present and past kinds, without limits: the assumption without a description of nodes.

    Parameters
    ----------
    configured
        Lead time of kinds without recorded lead times.
    seen
        Recorded lead times by kind: from the order of a node until it had devices and images. Their 0.9 quantile
        counts, without further time for images. Kinds without nodes are included, with unknown capacity.
    past
        Nodes that were present earlier.
    """
    present, gone = present_kinds(view, kind_label), _past_kinds(view, kind_label, past)
    unknown = sorted(kind for kind in seen or () if kind)
    found = []
    for kind in dict.fromkeys((*present, *gone, *unknown)):
        lead = lead_time_quantile((seen or {}).get(kind, ()))
        is_seen = lead is not None
        found.append(
            NodeSupply(
                kind,
                lead if lead is not None else configured,
                present.get(kind, ()),
                gone.get(kind, ()),
                timedelta(0) if is_seen else image_time,
                lead_is_known=is_seen,
            )
        )
    return tuple(found)


def _past_kinds(view: View, kind_label: str, past: Sequence[SeenNode]) -> dict[str, tuple[SeenNode, ...]]:
    """Nodes that were there by their kind, named as `present_kinds` does."""
    unnamed: dict[object, str] = {}
    for name, state in sorted(view.snapshot.nodes.items()):
        if not state.node.labels.get(kind_label, ""):
            unnamed.setdefault(alike_key(view, state), _unnamed(name))
    found: dict[str, list[SeenNode]] = {}
    for each in past:
        found.setdefault(each.kind or unnamed.setdefault(each.key, _unnamed(each.name)), []).append(each)
    return {kind: tuple(nodes) for kind, nodes in found.items()}


def _unnamed(node: str) -> str:
    return f"the kind of {node}"


def described_supplies(
    view: View,
    kinds: Sequence[NodeKind],
    profile: str,
    kind_label: str,
    seen: SeenLeads,
    past: Sequence[SeenNode] = (),
) -> tuple[NodeSupply, ...]:
    """Supplies of described kinds, with their present nodes.

    Parameters
    ----------
    profile
        Published name of the choice. Without a node of a kind, the described number of its servers counts.
    kind_label
        Label whose value is the name of a kind without labels in the description.
    seen
        Recorded lead times, including images; they replace the described ones.
    past
        Nodes that were present earlier.
    """
    return tuple(_supply(view, each, profile, kind_label, seen, past) for each in kinds)


def _supply(
    view: View, kind: NodeKind, profile: str, kind_label: str, seen: SeenLeads, past: Sequence[SeenNode]
) -> NodeSupply:
    labels = dict(kind.labels) or {kind_label: kind.name}
    nodes = tuple(name for name, state in sorted(view.snapshot.nodes.items()) if _has_labels(state.node, labels))
    gone = tuple(each for each in past if _has_labels(each.template.node, labels))
    named = {
        labels.get(kind_label, ""),
        *(view.snapshot.nodes[name].node.labels.get(kind_label, "") for name in nodes),
        *(each.kind for each in gone),
    }
    lead = lead_time_quantile([lead for each in sorted(named - {""}) for lead in seen.get(each, ())])
    described = lead_time_quantile(kind.lead_times)
    assert described is not None
    takes_profile = not kind.profiles or not {profile, profile_of(profile)}.isdisjoint(kind.profiles)
    return NodeSupply(
        kind.name,
        lead if lead is not None else described,
        nodes,
        gone,
        kind.image_time if lead is None else timedelta(0),
        kind.max_nodes,
        kind.starts_per_minute,
        kind.slots if takes_profile else 0,
        unneeded=kind.unneeded,
    )


def _has_labels(node: SchedulableNode, labels: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items())

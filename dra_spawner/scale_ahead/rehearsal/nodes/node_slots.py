"""What a new node brings for a profile group: by kinds of nodes, not by what runs now."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.choice_names import profile_of
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains, without_label
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import NewNodeSlots
from dra_spawner.scale_ahead.demand.lead_times import lead_time_quantile
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNode, SeenNodes
from dra_spawner.simulator.devices.search_limits import CommonBudget
from dra_spawner.simulator.node_templates import NodeTemplate, add_node
from dra_spawner.simulator.snapshot_errors import SnapshotError, Undecided

#: More servers on a node are not counted.
_MAX_SERVERS: Final = 250
#: Limit of the steps of the searches for devices on one node.
_MAX_STEPS: Final = 200_000
_MAX_COUNTED: Final = 1_000


class NodeSlots:
    """Slots by group. Present and past nodes prove them; without any, the description counts.

    Attributes
    ----------
    kinds
        Kinds of nodes that an administrator has described; no others come.
    """

    def __init__(self, seen: SeenNodes, kind_label: str, namespace: str, kinds: Sequence[NodeKind] = ()) -> None:
        self.kinds = kinds
        self._seen = seen
        self._kind_label = kind_label
        self._namespace = namespace
        self._counted: dict[tuple[str, str, Hashable], int | None] = {}

    def of(self, view: View, shape: Shape, choices: Collection[str]) -> NewNodeSlots:
        """Of the kinds that take a server, the one that brings the fewest in a minute: which one comes is not known."""
        self._seen.look(view)
        found = [each for each in self._of_kinds(view, shape, choices) if each.slots]
        return min(found, key=_pace, default=NewNodeSlots())

    def _of_kinds(self, view: View, shape: Shape, choices: Collection[str]) -> Iterator[NewNodeSlots]:
        seen = self._seen.found(view.now)
        if not self.kinds:
            for each in seen:
                yield NewNodeSlots(self._count(view, shape, each))
            return
        profiles = {*choices, *map(profile_of, choices)}
        for kind in self.kinds:
            labels = dict(kind.labels) or {self._kind_label: kind.name}
            nodes = [each for each in seen if labels.items() <= each.template.node.labels.items()]
            counts = [count for each in nodes if (count := self._count(view, shape, each)) is not None]
            if not counts and (not kind.profiles or not profiles.isdisjoint(kind.profiles)):
                counts = [kind.slots]
            lead = (lead_time_quantile(kind.lead_times) or timedelta(0)) + kind.image_time
            yield from (NewNodeSlots(each, kind.starts_per_minute, lead) for each in counts)

    def _count(self, view: View, shape: Shape, seen: SeenNode) -> int | None:
        key = shape.id, seen.kind, seen.key
        if key not in self._counted:
            if len(self._counted) >= _MAX_COUNTED:
                self._counted.clear()
            self._counted[key] = servers_on_new_node(view, shape, self._namespace, seen.template)
        return self._counted[key]


def servers_on_new_node(view: View, shape: Shape, namespace: str, template: NodeTemplate) -> int | None:
    """Servers of a shape that fit on a new node like another one; None if that cannot be said."""
    pod, claim_templates = simulated_user(shape, namespace)
    pod = without_drains(without_label(pod, names.IMAGES_READY))
    snapshot = view.snapshot
    budget = SearchBudget(_MAX_STEPS)
    snapshot.limit_searches(CommonBudget(lambda: budget))
    try:
        with snapshot.trial():
            for each in claim_templates:
                snapshot.put(each)
            node = add_node(snapshot, template, "slots").name
            for number in range(_MAX_SERVERS):
                name = f"{pod.name}-{number}"
                if not snapshot.schedule(replace(pod, name=name, uid=name), node).fits:
                    return number
            return _MAX_SERVERS
    except (SearchStopped, SnapshotError, Undecided):
        return None
    finally:
        snapshot.limit_searches(view.searches)


def _pace(found: NewNodeSlots) -> tuple[float, int]:
    starts = found.starts_per_minute if found.starts_per_minute is not None else float("inf")
    return starts * (found.slots or 0), found.slots or 0

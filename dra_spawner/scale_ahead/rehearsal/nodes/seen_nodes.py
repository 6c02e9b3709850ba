"""Past nodes: templates of new nodes of a kind while no node of the kind is present."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.answers.scale_up_estimate import alike_key
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.simulator.node_templates import NodeTemplate, TemplateError, template_of

#: Time until nodes of a kind are read again.
_AGAIN: Final = timedelta(minutes=10)
#: Age at which a kind without present nodes is forgotten.
_LONGEST: Final = timedelta(days=14)
#: Limit of kinds, as a wrong label may differ on every node.
_MAX_KINDS: Final = 50
#: Limits of distinct nodes of a kind that are remembered, and of nodes of a kind that are compared for this.
_MAX_DISTINCT: Final = 5
_MAX_COMPARED: Final = 50


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A past or present node with all of its devices.

    Attributes
    ----------
    kind
        Value of the label of kinds; empty without it.
    key
        Key that equal nodes share.
    at
        Time at which the node was last seen.
    """

    template: NodeTemplate
    kind: str
    key: Hashable
    at: datetime

    @property
    def name(self) -> str:
        return self.template.node.name


class SeenNodes:
    """Remembers a few nodes of each kind; only nodes that are open to users, as they show all of their devices.

    Parameters
    ----------
    kind_label
        Nodes with the same value are of one kind.
    """

    def __init__(self, kind_label: str) -> None:
        self._kind_label = kind_label
        self._looked: dict[str, datetime] = {}
        self._kinds: dict[str, dict[Hashable, SeenNode]] = {}

    def look(self, view: View) -> None:
        """Remember present nodes; each kind is read once in ten minutes."""
        due: dict[str, list[str]] = {}
        for name, state in view.snapshot.nodes.items():
            if is_labelled(state, names.IMAGES_READY):
                kind = state.node.labels.get(self._kind_label, "")
                if self._is_due(kind, view.now):
                    due.setdefault(kind, []).append(name)
        for kind, nodes in due.items():
            seen = {each.key: each for each in self._of_kind(view, kind, _fullest(view, nodes))}
            old = [each for each in self._kinds.get(kind, {}).values() if each.key not in seen]
            newest = sorted((*seen.values(), *old), key=lambda each: each.at, reverse=True)
            self._kinds[kind] = {each.key: each for each in newest[:_MAX_DISTINCT]}
            self._looked[kind] = view.now
        while len(self._looked) > _MAX_KINDS:
            oldest = min(self._looked, key=self._looked.__getitem__)
            del self._looked[oldest], self._kinds[oldest]

    def found(self, now: datetime) -> tuple[SeenNode, ...]:
        """Nodes of the last two weeks; in each kind the nodes that were seen last come first."""
        return tuple(
            each for kind in sorted(self._kinds) for each in self._kinds[kind].values() if now - each.at <= _LONGEST
        )

    def _is_due(self, kind: str, now: datetime) -> bool:
        looked = self._looked.get(kind)
        return looked is None or not timedelta(0) <= now - looked < _AGAIN

    @staticmethod
    def _of_kind(view: View, kind: str, nodes: Iterable[str]) -> list[SeenNode]:
        found: dict[Hashable, SeenNode] = {}
        for name in nodes:
            key = alike_key(view, view.snapshot.nodes[name])
            if key in found or len(found) >= _MAX_DISTINCT:
                continue
            try:
                found[key] = SeenNode(template_of(view.snapshot, name), kind, key, view.now)
            except TemplateError:
                continue  # it is changing at this moment
        return list(found.values())


def _fullest(view: View, nodes: Iterable[str]) -> list[str]:
    """The nodes with the most devices, which show most of what their kind has."""
    slices = view.index.slices_of_node
    counts = {name: sum(len(item.devices) for item in slices.get(name, ())) for name in nodes}
    return sorted(counts, key=lambda name: (-counts[name], name))[:_MAX_COMPARED]

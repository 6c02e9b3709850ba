"""Since when nodes have no user's server any more, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dra_spawner.placeholders.planner.cluster.cluster_index import Moment
from dra_spawner.placeholders.planner.cluster.view import View

__all__ = ["FreedNodes"]


@dataclass(frozen=True, slots=True)
class FreedNodes:
    """See the module.

    Attributes
    ----------
    last_seen
        By node that had users' servers and has none now: time of the last round that saw one.
    used
        Nodes with users' servers in the last round.
    at
        Time of the last round; None before the first.
    moment
        Of the cluster index. Nodes that have not changed since are not looked at again.
    """

    last_seen: Mapping[str, datetime] = field(default_factory=dict)
    used: frozenset[str] = frozenset()
    at: datetime | None = None
    moment: Moment = field(default_factory=Moment, compare=False)

    def after(self, view: View) -> FreedNodes:
        """The value after a round."""
        touched = view.index.touched_since(self.moment)
        if touched is None:
            touched = {*view.users_of_node, *self.used, *self.last_seen}
        nodes = view.snapshot.nodes
        used = {name for name in touched if name in nodes and name in view.users_of_node}
        left = {name for name in touched if name in nodes and name not in used and name in self.used}
        stale = {name for name in touched if name in self.last_seen and (name not in nodes or name in used)}
        last_seen = self.last_seen
        if (left or stale) and self.at is not None:
            kept = {name: when for name, when in last_seen.items() if name not in stale}
            last_seen = {**kept, **dict.fromkeys(left, self.at)}
        is_same = used <= self.used and self.used.isdisjoint(touched - used)
        return FreedNodes(last_seen, self.used if is_same else self.used - touched | used, view.now, view.index.moment)

    def not_after(self, now: datetime) -> FreedNodes:
        """The same without future times."""
        last_seen = {name: min(when, now) for name, when in self.last_seen.items()}
        return replace(self, last_seen=last_seen, at=self.at and min(self.at, now))

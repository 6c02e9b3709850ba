"""What a service remembers from one decision to the next. Nothing breaks when it is lost: decisions become slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dra_spawner.placeholders.planner.cluster_index import Moment
from dra_spawner.placeholders.planner.creation_limits import Creations
from dra_spawner.placeholders.planner.preemption_backoff import PendingRecord
from dra_spawner.placeholders.planner.token_bucket import Tokens


@dataclass(frozen=True, slots=True)
class Judged:
    """What the readiness of nodes was last judged by.

    Attributes
    ----------
    rules
        The policy's part.
    moment
        Of the cluster index. Nodes that have not changed since need not be judged again.
    unsettled
        Nodes that must be judged again, though nothing changes there.
    """

    rules: object = None
    moment: Moment = field(default_factory=Moment)
    unsettled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlannerState:
    """See the module.

    Attributes
    ----------
    tokens
        What is left to be evicted.
    lost_readiness
        Node, and when it was last seen to be not ready although it is called so.
    ready_since
        Node, and since when it has been ready without interruption.
    busy
        Node, and when a user's server was last seen there.
    drivers
        Drivers that a kind of node has shown complete pools of, by kind; of a node of no kind, by its name.
    outdated
        Shape that placeholders have and no choice has, and since when that is known.
    creations
        What bears on how many placeholders may be made.
    pending_records
        What was done for users' pods that wait, by uid.
    avoided
        Node where a placeholder with devices has failed, and when.
    judged
        What readiness was last judged by, and where it must be judged again.
    drain_tried, drain_last
        When it was last looked for a node that could become empty, and which one was looked at last.
    """

    tokens: Tokens
    lost_readiness: Mapping[str, datetime] = field(default_factory=dict)
    ready_since: Mapping[str, datetime] = field(default_factory=dict)
    busy: Mapping[str, datetime] = field(default_factory=dict)
    drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outdated: Mapping[str, datetime] = field(default_factory=dict)
    creations: Creations = field(default_factory=Creations)
    pending_records: Mapping[str, PendingRecord] = field(default_factory=dict)
    avoided: Mapping[str, datetime] = field(default_factory=dict)
    judged: Judged = field(default_factory=Judged, compare=False)
    drain_tried: datetime | None = None
    drain_last: str = ""

    def not_after(self, now: datetime) -> PlannerState:
        """The same with nothing that is yet to come: when the clock was set back, everything begins now."""
        if now >= self.tokens.at:  # of the last round
            return self
        return replace(
            self,
            judged=Judged(),
            lost_readiness={name: min(when, now) for name, when in self.lost_readiness.items()},
            ready_since={name: min(when, now) for name, when in self.ready_since.items()},
            busy={name: min(when, now) for name, when in self.busy.items()},
            outdated={shape: min(when, now) for shape, when in self.outdated.items()},
            creations=self.creations.not_after(now),
            avoided={name: min(when, now) for name, when in self.avoided.items()},
            pending_records={uid: each.not_after(now) for uid, each in self.pending_records.items()},
        )

    @classmethod
    def fresh(cls, now: datetime) -> PlannerState:
        """Of a service that just started."""
        return cls(Tokens(0.0, now))

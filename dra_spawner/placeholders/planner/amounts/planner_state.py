"""State carried from round to round. If it is lost, decisions stay right and become slower."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.placeholders.planner.amounts.creations import Creations
from dra_spawner.placeholders.planner.amounts.preemption_backoff import PendingRecord, PreemptionRecord
from dra_spawner.placeholders.planner.cluster.cluster_index import Moment
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Tokens

_FIRST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class ScaleUpCap:
    """A shape that gets no more nodes.

    Attributes
    ----------
    reason
        The autoscaler's message.
    since
        When it was first seen.
    delay
        Time from the last placeholder with this message to the next try.
    until
        Time of the next try.
    """

    reason: str
    since: datetime
    delay: timedelta
    until: datetime


@dataclass(frozen=True, slots=True)
class ScaleUpCaps:
    """Shapes for which the autoscaler adds no node, as a node group or the cluster has reached its maximum.

    The maximum is known only by the autoscaler's message about pods that stay pending. While a pending placeholder has
    it, more placeholders of its shape would only be pending, too. Afterwards more are created after a time, which
    doubles if they get the message again.
    """

    of_shape: Mapping[str, ScaleUpCap] = field(default_factory=dict)

    def at(self, now: datetime) -> dict[str, ScaleUpCap]:
        """The caps that hold at a time, by shape."""
        return {shape: cap for shape, cap in self.of_shape.items() if now < cap.until}

    def after(self, view: View) -> ScaleUpCaps:
        """The value after a round."""
        return ScaleUpCaps(dict(self._after(view)))

    def without(self, shape: str) -> ScaleUpCaps:
        """The value after an administrator has resumed a shape."""
        return ScaleUpCaps({each: cap for each, cap in self.of_shape.items() if each != shape})

    def not_after(self, now: datetime) -> ScaleUpCaps:
        """The same after the clock was set back."""
        return ScaleUpCaps(
            {
                shape: replace(cap, since=min(cap.since, now), until=min(cap.until, now + cap.delay))
                for shape, cap in self.of_shape.items()
            }
        )

    def _after(self, view: View) -> Iterator[tuple[str, ScaleUpCap]]:
        said: dict[str, str] = {}
        for each in view.placeholders.values():
            if each.is_pending and each.shape not in said and (message := view.no_scale_up(each.pod)):
                said[each.shape] = message
        for shape in sorted({*self.of_shape, *said}):
            cap, now = self.of_shape.get(shape), view.now
            if shape not in said:
                # It is remembered for a time, so that the delay doubles if the next try fails.
                if cap is not None and now < cap.until + _LONGEST:
                    yield shape, cap
            elif cap is None:
                yield shape, ScaleUpCap(said[shape], now, _FIRST, now + _FIRST)
            elif now < cap.until:
                yield shape, replace(cap, reason=said[shape], until=now + cap.delay)
            else:
                delay = min(2 * cap.delay, _LONGEST)
                yield shape, ScaleUpCap(said[shape], now, delay, now + delay)


@dataclass(frozen=True, slots=True)
class JudgedReadiness:
    """The inputs of the last judgement of nodes' readiness.

    Attributes
    ----------
    moment
        Of the cluster index. Nodes that have not changed since are not judged again.
    unsettled
        Nodes that must be judged again without a change.
    """

    rules: object = None
    moment: Moment = field(default_factory=Moment)
    unsettled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FreedNodes:
    """See the module.

    Attributes
    ----------
    last_seen
        By node that had users' servers and has none now: time of the last round that saw one; by node that was
        emptied and is needed again for placeholders: since when.
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

    def needed(self, nodes: Iterable[str], now: datetime) -> FreedNodes:
        """The same after nodes are needed again that were emptied."""
        return replace(self, last_seen={**self.last_seen, **dict.fromkeys(nodes, now)})

    def not_after(self, now: datetime) -> FreedNodes:
        """The same without future times."""
        last_seen = {name: min(when, now) for name, when in self.last_seen.items()}
        return replace(self, last_seen=last_seen, at=self.at and min(self.at, now))


#: Time until watches show what a quota counts.
_SETTLED: Final = timedelta(seconds=1)
#: After so many removals that were not seen, somebody else writes a label again.
_MAX_LOST_REMOVALS: Final = 3


@dataclass(frozen=True, slots=True)
class TrackedLabel:
    """A label of a node, and whose it is: services of several hubs may share nodes.

    Attributes
    ----------
    seen, decided
        Value at the last round, and after it; None without the label.
    lost_removals
        How often in succession the label was to be removed and is still there.
    is_others
        Whether the service of another hub, or a person, has written it.
    """

    seen: str | None = None
    decided: str | None = None
    lost_removals: int = 0
    is_others: bool = False

    def now(self, value: str | None) -> TrackedLabel:
        """The label with its present value."""
        lost = self.lost_removals + 1 if value is not None and value == self.seen != self.decided else 0
        is_foreign = self.is_others or value not in (self.seen, self.decided) or lost >= _MAX_LOST_REMOVALS
        return TrackedLabel(value, value, lost, value is not None and is_foreign)

    def written(self, value: str | None) -> TrackedLabel:
        """The label once this service has written a value."""
        return replace(self, decided=value, is_others=False)


@dataclass(frozen=True, slots=True)
class EndedPlaceholder:
    """A placeholder that ends or has ended, and that a quota may still count.

    Attributes
    ----------
    has_no_claims
        Whether a server has its claims.
    gone
        Since when the pod no longer exists; None while it exists.
    """

    shape: str
    has_no_claims: bool
    gone: datetime | None = None

    def not_after(self, now: datetime) -> EndedPlaceholder:
        """The same without a future time."""
        return replace(self, gone=min(self.gone, now)) if self.gone is not None else self


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """Whether placeholders are to be preempted, and since when.

    A quota counts an object before a watch shows it, so a shortage that is over in a moment is none.
    """

    since: datetime | None = None

    def after(self, victims: Sequence[object], now: datetime) -> QuotaShortage:
        """The value of a round."""
        if not victims:
            return QuotaShortage()
        return self if self.since is not None and self.since <= now else QuotaShortage(now)

    def lasts(self, now: datetime) -> bool:
        """Whether it has lasted for long enough to act."""
        return self.since is not None and now - self.since >= _SETTLED


@dataclass(frozen=True, slots=True)
class NewPods:
    """Whether new placeholders get the configured settings: a webhook may write something else into each pod.

    Attributes
    ----------
    as_configured
        Settings that some placeholder had as configured.
    ignored
        Settings that no placeholder had, also none that was created after the first replacement.
    before
        Uids of the placeholders before the first replacement.
    """

    as_configured: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    before: frozenset[str] | None = None

    def after(self, lacks: Mapping[str, Collection[str]], settings: Collection[str]) -> NewPods:
        """The same after a look at the settings that each placeholder lacks, by its uid."""
        had = {each for each in settings if any(each not in lacking for lacking in lacks.values())}
        known = self.as_configured | had
        is_new = self.before is not None and not lacks.keys() <= self.before
        return replace(self, as_configured=known, ignored=frozenset(settings if is_new else self.ignored) - known)


@dataclass(frozen=True, slots=True)
class PlannerState:
    """See the module.

    Attributes
    ----------
    tokens
        Rest of the eviction budget.
    lost_readiness
        By node: when readiness was lost while the label was still set.
    ready_since
        By node: since when it has been ready without interruption.
    readiness_labels
        By node.
    draining_labels, attract_labels
        By node, of nodes with the label; None before the first round.
    freed
        Since when nodes have no user's server any more.
    drivers
        By kind of node (or name of a node without a kind): drivers whose complete pools were seen.
    outdated
        By outdated shape of placeholders: since when no choice has it.
    pending_records
        By uid of a pending pod: what was done for it.
    avoided
        By node: when a placeholder with devices failed there.
    scale_up_caps
        Shapes that get no more nodes.
    ended
        By uid: placeholders that a quota may still count.
    quota_shortage
        Since when a quota has no capacity for users' servers.
    judged
        Inputs of the last judgement of readiness.
    preempted_for_others
        By uid of a pending server of another hub: the last preemption for it.
    capacity_since
        By shape: since when limits of all hubs have had capacity that other hubs may use first.
    surplus_since
        By shape: since when there is one placeholder more than a target that follows demand. While there are several
        more, a time so long ago that the last of them goes with the others.
        By shape: since when there is one placeholder more than a target that follows demand.
    new_pods
        Whether new placeholders get the configured settings.
    ticket_devices_free
        By shape of tickets behind others: since when devices for it have been free.
    drain_tried, drain_last
        Time of the last search for a node to drain, and the last node that was tried.
    searches
        Costs of searches for devices so far. A round has a copy of its own.
    """

    tokens: Tokens
    lost_readiness: Mapping[str, datetime] = field(default_factory=dict)
    ready_since: Mapping[str, datetime] = field(default_factory=dict)
    readiness_labels: Mapping[str, TrackedLabel] = field(default_factory=dict, compare=False)
    draining_labels: Mapping[str, TrackedLabel] | None = field(default=None, compare=False)
    attract_labels: Mapping[str, TrackedLabel] | None = field(default=None, compare=False)
    freed: FreedNodes = field(default_factory=FreedNodes)
    drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outdated: Mapping[str, datetime] = field(default_factory=dict)
    creations: Creations = field(default_factory=Creations)
    pending_records: Mapping[str, PendingRecord] = field(default_factory=dict)
    avoided: Mapping[str, datetime] = field(default_factory=dict)
    scale_up_caps: ScaleUpCaps = field(default_factory=ScaleUpCaps)
    ended: Mapping[str, EndedPlaceholder] = field(default_factory=dict)
    quota_shortage: QuotaShortage = field(default_factory=QuotaShortage)
    judged: JudgedReadiness = field(default_factory=JudgedReadiness, compare=False)
    preempted_for_others: Mapping[str, PreemptionRecord] = field(default_factory=dict)
    capacity_since: Mapping[str, datetime] = field(default_factory=dict)
    surplus_since: Mapping[str, datetime] = field(default_factory=dict)
    new_pods: NewPods = field(default_factory=NewPods)
    ticket_devices_free: Mapping[str, datetime] = field(default_factory=dict)
    drain_tried: datetime | None = None
    drain_last: str = ""
    searches: SearchLedger = field(default_factory=SearchLedger, compare=False)

    def not_after(self, now: datetime) -> PlannerState:
        """The same without future times, after the clock was set back."""
        if now >= self.tokens.at:  # of the last round
            return self
        return replace(
            self,
            judged=JudgedReadiness(),
            lost_readiness={name: min(when, now) for name, when in self.lost_readiness.items()},
            ready_since={name: min(when, now) for name, when in self.ready_since.items()},
            freed=self.freed.not_after(now),
            outdated={shape: min(when, now) for shape, when in self.outdated.items()},
            preempted_for_others={
                uid: replace(each, at=min(each.at, now)) for uid, each in self.preempted_for_others.items()
            },
            capacity_since={shape: min(when, now) for shape, when in self.capacity_since.items()},
            surplus_since={shape: min(when, now) for shape, when in self.surplus_since.items()},
            creations=self.creations.not_after(now),
            scale_up_caps=self.scale_up_caps.not_after(now),
            avoided={name: min(when, now) for name, when in self.avoided.items()},
            ended={uid: each.not_after(now) for uid, each in self.ended.items()},
            pending_records={uid: each.not_after(now) for uid, each in self.pending_records.items()},
        )

    def with_made(self, made: Mapping[str, int]) -> PlannerState:
        """The same with the numbers of placeholders, by shape, that were created of those that were decided."""
        return replace(self, creations=replace(self.creations, lost=self.creations.lost.with_made(made)))

    def resumed(self, shape: str) -> PlannerState:
        """The same without what keeps placeholders of a shape from being created: earlier failures and caps."""
        return replace(self, creations=self.creations.resumed(shape), scale_up_caps=self.scale_up_caps.without(shape))

    @classmethod
    def fresh(cls, now: datetime, searches: SearchLedger | None = None) -> PlannerState:
        """The state of a service that just started."""
        return cls(Tokens(0.0, now), searches=searches or SearchLedger())

"""One round of decisions: what it decides on, and what it has decided so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

from dra_spawner.placeholders.planner.actions import Action, DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.undecided import Unknown
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey


@dataclass(frozen=True, slots=True)
class PendingUser:
    """A pending user's pod, and what is done about it.

    Attributes
    ----------
    reason
        Why it is pending, or what was done.
    needs_node
        Whether only another node helps.
    has_preemption
        Whether placeholders were preempted for it, so that the freed capacity must stay free for it.
    unknown
        Why it is not known whether it fits; None if that is known.
    """

    pod: ObjectKey
    reason: str
    needs_node: bool = False
    has_preemption: bool = False
    unknown: Unknown | None = None


@dataclass(frozen=True, slots=True)
class PendingServers:
    """Pending servers that may have a placeholder, by shape.

    Attributes
    ----------
    count
        Their number.
    needing_node
        Pending servers that only another node helps.
    """

    count: Mapping[str, int] = field(default_factory=dict)
    needing_node: Mapping[str, list[ObjectKey]] = field(default_factory=dict)

    def placeholders_for(self, shape: str, present: Iterable[Placeholder]) -> set[ObjectKey]:
        """Pending placeholders of a shape that stand for these servers: an autoscaler adds nodes for them."""
        pending = [each.key for each in present if each.is_pending]
        return set(pending[: len(self.needing_node.get(shape, ()))])


class DenialCause(StrEnum):
    """What keeps wanted placeholders from being created."""

    #: An administrator's limit.
    LIMIT = "limit"
    #: A ResourceQuota.
    QUOTA = "quota"
    #: The autoscaler adds no more nodes.
    AUTOSCALER = "autoscaler"
    #: Too many have failed in a row.
    FAILURES = "failures"
    #: Kubernetes would end them, for the taint of each device that they could get.
    TAINT = "taint"

    @property
    def is_resumable(self) -> bool:
        """Whether an administrator can have them created again at once."""
        return self in (DenialCause.AUTOSCALER, DenialCause.FAILURES)


@dataclass(frozen=True, slots=True)
class Denial:
    """Placeholders of a shape that are wanted and may not exist.

    Attributes
    ----------
    wanted, allowed
        Numbers of placeholders: the target, and the part of it that may exist.
    because
        What allows no more, after "allowed by" or "allowed".
    """

    shape: str
    cause: DenialCause
    wanted: int
    allowed: int
    because: str

    def sentence(self, name: str) -> str:
        """For people.

        Parameters
        ----------
        name
            Of a choice with this shape; empty if there is none.
        """
        wanted = f"{self.wanted} is wanted" if self.wanted == 1 else f"{self.wanted} are wanted"
        allowed = f"{self.allowed} is allowed" if self.allowed == 1 else f"{self.allowed} are allowed"
        return f"Placeholders of {name or f'shape {self.shape}'}: {wanted}, {allowed} {self.because}."


class Round:
    """What the decisions of one round share. A decision reads it, and returns its actions.

    Parameters
    ----------
    view
        Not changed.
    before
        Planner state of the last round.

    Attributes
    ----------
    state
        Planner state for the next round, as far as it is decided.
    searches
        Limits of searches in this round.
    busyness
        Of the view's nodes.
    pending
        Users' pending pods, each with its cause.
    denied
        Placeholders that should be evicted and may not yet, each with its rule.
    limited
        By shape: placeholders that are wanted and may not exist.
    is_short
        Whether placeholders are missing, allowed or not.
    """

    def __init__(self, view: View, policy: Policy, before: PlannerState) -> None:
        self.view: Final = view
        self.policy: Final = policy
        self.searches: Final = before.searches.copy()
        self.searches.begin(view.now)
        view.snapshot.limit_searches(self.searches)
        self.state = replace(before.not_after(view.now), searches=self.searches)
        self.busyness: Final = NodesBusyness(view)
        self.pending: tuple[PendingUser, ...] = ()
        self.denied: dict[ObjectKey, Hold] = {}
        self.limited: Mapping[str, Denial] = {}
        self.is_short = False
        self._actions: dict[Decision, tuple[Action, ...]] = {}

    def decide(self, part: Iterable[Decision]) -> None:
        """Take decisions one after the other, with a search budget for them together."""
        self.searches.begin_part()
        for decision in part:
            self._actions[decision] = tuple(decision(self))

    def decided_by(self, decision: Decision) -> tuple[Action, ...]:
        """The actions of an earlier decision."""
        return self._actions.get(decision, ())

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions so far, in the order in which they must be done."""
        return tuple(action for actions in self._actions.values() for action in actions)

    @property
    def ends(self) -> tuple[DeletePlaceholder, ...]:
        """All deletions of placeholders so far."""
        return tuple(each for each in self.actions if isinstance(each, DeletePlaceholder))

    @property
    def ending(self) -> frozenset[ObjectKey]:
        """Placeholders that end in this round, as far as it is decided."""
        return frozenset(each.key for each in self.ends)

    @property
    def has_preemption(self) -> bool:
        """Whether capacity was freed for a pending pod a short time ago, and must stay free for it."""
        now, grace = self.view.now, self.policy.grace
        of_others = self.state.preempted_for_others.values()
        return any(each.has_preemption for each in self.pending) or any(
            each.is_recent(now, grace) for each in of_others
        )

    def remember(self, **values: Any) -> None:
        """Set fields of the planner state."""
        self.state = replace(self.state, **values)

    def hold(self, keys: Iterable[ObjectKey], rule: Hold) -> None:
        """Note placeholders that should be evicted and may not yet."""
        self.denied.update(dict.fromkeys(keys, rule))

    def if_known(self, deletions: Iterable[DeletePlaceholder]) -> tuple[DeletePlaceholder, ...]:
        """The deletions; none while a kind is unknown, as a pod may be gone, or have a node by now. These are noted."""
        deletions = tuple(deletions)
        if not self.view.unknown:
            return deletions
        self.hold(sorted(each.key for each in deletions), Hold.STALE)
        return ()

    def within_budget(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions without evictions for which the eviction budget has no token; these are noted."""
        tokens, kept = self.state.tokens.refilled(self.policy.budget, self.view.now), list[Action]()
        for each in actions:
            if isinstance(each, DeletePlaceholder) and each.cause.is_eviction:
                rest = tokens.take()
                if rest is None:
                    self.denied[each.key] = Hold.BUDGET
                    continue
                tokens = rest
            kept.append(each)
        self.remember(tokens=tokens)
        return tuple(kept)

    @cached_property
    def servers(self) -> PendingServers:
        """The pending servers for which placeholders are created."""
        needing: dict[str, list[ObjectKey]] = {}
        count: Counter[str] = Counter()
        for each, shape in self._counted():
            count[shape] += 1
            if each.needs_node:
                needing.setdefault(shape, []).append(each.pod)
        return PendingServers(count, needing)

    def _counted(self) -> list[tuple[PendingUser, str]]:
        """Pending servers that may have a placeholder, with their shapes: the oldest, in turn by namespace."""
        view, policy = self.view, self.policy
        found = [
            (each, shape) for each in self.pending if (shape := view.shape_of(view.users[each.pod])) in policy.shapes
        ]
        if len(found) <= policy.max_for_pending_pods:
            return found
        before: Counter[str] = Counter()
        turns: list[int] = []
        for each, _ in found:
            turns.append(before[each.pod.namespace])
            before[each.pod.namespace] += 1
        chosen = sorted(range(len(found)), key=turns.__getitem__)[: policy.max_for_pending_pods]
        return [found[index] for index in sorted(chosen)]


Decision: TypeAlias = Callable[[Round], Iterable[Action]]
"""A decision: it returns its actions, and changes nothing but what the round remembers."""

"""How fast placeholders are created, and when those that were lost are replaced.

Creations have a bounded rate. Users' demand is not slowed: a placeholder that ended because of a user is replaced at
once.

Placeholders may end without a decision of this service, or fail on their nodes. Whatever ends them may end the next
ones, too: an eviction for a taint that is tolerated for some seconds, pressure on
the node, devices that cannot be prepared, a controller or a person that deletes pods, or the preemption for a pod of
somebody else. So a shape that loses placeholders gets a few of the next ones at once (none after failures), and the
others later and later. If those that are lost were young, or were replacements, one of them is created first, and the
others follow when it has lived for longer than the ones before it; after failures, its container must run, too. When
too many replacements have failed in a row, no more are created for the target.

What cannot go on is replaced at once: placeholders of a node that is gone, and those that kube-scheduler preempts for
users' servers; each new server excuses one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.common.counted_text import counted
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.targets.policy import Policy, Renewal
from dra_spawner.simulator.model.pods import Pod

#: Placeholders that are lost younger than this are replaced one first.
_YOUNG: Final = timedelta(minutes=5)
#: A placeholder that was lost at a greater age says nothing about how long the next one lives.
_OLD: Final = timedelta(hours=1)
#: So many of the first ones that are lost are replaced at once.
_AT_ONCE: Final = 4
#: What a replacement must live for, beyond half as long again as those before it.
_LONGER: Final = timedelta(seconds=5)
#: Longest time from a server's creation to the preemption for it.
_PREEMPTS_WITHIN: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost placeholders of one shape that are not replaced yet, or whose replacements have not proved themselves.

    Attributes
    ----------
    count
        Their number.
    since
        Time of the first loss in this row.
    delay
        Time from the loss to the replacement; doubles if replacements are lost, too.
    until
        Time of the replacement.
    life
        Age of the oldest of them, for how long they lived.
    one_first
        Whether one replacement must live for clearly longer before the others are created.
    has_failed
        Whether one of the last ones failed on its node.
    in_a_row
        Replacements that have failed, too, one after the other.
    """

    count: int
    since: datetime
    delay: timedelta
    until: datetime
    life: timedelta
    one_first: bool
    has_failed: bool = False
    in_a_row: int = 0

    def is_capped(self, renewal: Renewal) -> bool:
        """Whether creation is stopped after too many failed replacements, until resumed."""
        return self.in_a_row >= renewal.max_failed

    def held(self, now: datetime) -> int:
        """How many of the missing placeholders are not created now."""
        if now < self.until:
            return self.count
        return max(self.count - 1, 0) if self.one_first else 0


@dataclass(frozen=True, slots=True)
class LostPlaceholders:
    """The past from which losses are found, as a value.

    Attributes
    ----------
    of_shape
        By shape.
    there
        Pods of the placeholders of the last round, by uid.
    decided
        Uids of placeholders whose deletion was decided, while their pods exist.
    made
        By shape: created since the last round's view.
    excuses
        Uids of servers that have excused the loss of one placeholder.
    """

    of_shape: Mapping[str, Loss] = field(default_factory=dict)
    there: Mapping[str, Pod] = field(default_factory=dict, compare=False)
    decided: frozenset[str] = frozenset()
    made: Mapping[str, int] = field(default_factory=dict)
    excuses: frozenset[str] = frozenset()

    def held(self, shape: str, now: datetime, renewal: Renewal) -> int:
        """How many of the missing placeholders of a shape are not created now.

        With a cap, those that are created are for users' pending pods alone.
        """
        loss = self.of_shape.get(shape)
        return loss.held(now) if loss is not None and not loss.is_capped(renewal) else 0

    def with_decided(self, uids: Iterable[str]) -> LostPlaceholders:
        """The same after deletions were decided."""
        return replace(self, decided=self.decided | frozenset(uids))

    def with_made(self, made: Mapping[str, int]) -> LostPlaceholders:
        """The same after placeholders were created."""
        return replace(self, made=made)

    def resumed(self, shape: str) -> LostPlaceholders:
        """The same without losses of a shape."""
        return replace(self, of_shape={each: loss for each, loss in self.of_shape.items() if each != shape})

    def not_after(self, now: datetime) -> LostPlaceholders:
        """The same after the clock was set back."""
        found = {
            shape: replace(each, since=min(each.since, now), until=min(each.until, now + each.delay))
            for shape, each in self.of_shape.items()
        }
        return replace(self, of_shape=found)

    def after(self, view: View, policy: Policy, broken: Iterable[Pod]) -> LostPlaceholders:
        """The value of the next round.

        Parameters
        ----------
        broken
            Placeholders that are deleted in this round because they have failed, or have lost their claims.
        """
        broken = tuple(broken)
        counted = {pod.uid for pod in broken}
        present = {each.pod.uid: each.pod for each in view.placeholders.values()}
        ended = {pod.uid for pod in view.terminating}
        lost = [
            pod
            for uid, pod in self.there.items()
            if uid not in present and uid not in self.decided and uid not in counted and _has_node(view, pod)
        ]
        seen = (
            *present.values(),
            *(pod for pod in view.terminating if pod.is_finished and pod.uid not in self.decided),
        )
        arrived = Counter(_shape(pod) for pod in seen if pod.uid not in self.there)
        # What was created and is not there was ended before it was seen.
        unseen = Counter(dict(self.made)) - arrived
        missing = len(lost) + unseen.total()
        used = frozenset(_excuses(view, self.excuses)[:missing] if missing else ())
        excused = len(used)
        lost, excused = lost[excused:], max(excused - len(lost), 0)
        unseen -= Counter(list(unseen.elements())[:excused])
        lost += broken
        found = {}
        for shape in sorted({*self.of_shape, *map(_shape, lost), *unseen} & policy.shapes.keys()):
            its_own = [pod for pod in lost if _shape(pod) == shape]
            unseen_ones = [timedelta(0)] * unseen[shape]
            lives = [_life(pod, view.now) for pod in its_own] + unseen_ones
            youngest = min([age(pod.created, view.now) for pod in its_own] + unseen_ones, default=_OLD)
            before = self.of_shape.get(shape)
            if before is not None and _is_over(view, policy.renewal, shape, before):
                before = None
            is_failure = any(pod.uid in counted and has_failed(pod) for pod in its_own)
            after = _after(before, lives, view.now - youngest, view.now, policy.renewal, is_failure=is_failure)
            if after is not None:
                found[shape] = after
        return LostPlaceholders(
            of_shape=found,
            there=present,
            decided=self.decided & (present.keys() | ended),
            excuses=_of_present(view, self.excuses | used),
        )


@dataclass(frozen=True, slots=True)
class Creations:
    """The past that limits creations, as a value.

    Attributes
    ----------
    spent
        Tokens taken from the bucket. A service that just started has a full one, as the target is wanted at once.
    at
        Time at which `spent` holds.
    lost
        Placeholders that ended without a decision, or failed on their nodes.
    ended
        Uids of placeholders whose end was counted when it was decided. This is no expectation: a deletion that the API
        server refuses is decided again in each round, and must count once. This is no back-off: it delays no action.
    is_exhausted
        Whether more are wanted than may be created now.
    """

    spent: float = 0.0
    at: datetime | None = None
    lost: LostPlaceholders = field(default_factory=LostPlaceholders)
    ended: frozenset[str] = frozenset()
    is_exhausted: bool = False

    def capped(self, policy: Policy) -> dict[str, Loss]:
        """Shapes for whose target nothing is created, as too many replacements have failed in a row."""
        return {shape: each for shape, each in self.lost.of_shape.items() if each.is_capped(policy.renewal)}

    def resumed(self, shape: str) -> Creations:
        """The same without the losses of a shape."""
        return replace(self, lost=self.lost.resumed(shape))

    def not_after(self, now: datetime) -> Creations:
        """The same after the clock was set back."""
        return replace(self, at=now, lost=self.lost.not_after(now))

    def after(
        self, view: View, policy: Policy, broken: Iterable[DeletePlaceholder], ends: Iterable[DeletePlaceholder]
    ) -> Creations:
        """The value after this round's new and ending placeholders.

        Parameters
        ----------
        broken
            Deletions of broken placeholders.
        ends
            Deletions for other reasons.
        """
        there = frozenset(pod.uid for pod in (*(each.pod for each in view.placeholders.values()), *view.terminating))
        wanted = _wanted(view, policy)
        seconds = max((view.now - self.at).total_seconds(), 0.0) if self.at is not None else 0.0
        spent = max(self.spent - seconds * policy.renewal.rate(wanted), 0.0)
        new = [each for each in ends if each.uid not in self.ended]
        spent -= sum(each.cause.is_of_users for each in new)
        newly_broken = [each for each in broken if each.uid not in self.ended]
        return Creations(
            spent=min(max(spent, 0.0), policy.renewal.most(wanted)),
            at=view.now,
            lost=self.lost.after(view, policy, [view.snapshot.pods[each.key] for each in newly_broken]),
            ended=(self.ended | {each.uid for each in (*new, *newly_broken)}) & there,
        )

    def allow(self, view: View, policy: Policy, actions: Iterable[Action]) -> tuple[tuple[Action, ...], Creations]:
        """The actions with at most the allowed creations; those for pending pods come last."""
        left = int(policy.renewal.most(_wanted(view, policy)) - self.spent)
        asked: Counter[str] = Counter()
        actions = tuple(actions)
        for each in actions:
            if isinstance(each, CreatePlaceholder):
                asked[each.shape] += 1
        allowed = {shape: number - self.lost.held(shape, view.now, policy.renewal) for shape, number in asked.items()}
        kept: list[Action] = []
        is_exhausted = False
        for each in actions:
            if isinstance(each, CreatePlaceholder):
                if allowed[each.shape] <= 0:
                    continue
                if left <= 0:
                    is_exhausted = True
                    continue
                allowed[each.shape] -= 1
                left -= 1
            kept.append(each)
        made = Counter(each.shape for each in kept if isinstance(each, CreatePlaceholder))
        lost = self.lost.with_made(made)
        return tuple(kept), replace(self, spent=self.spent + made.total(), lost=lost, is_exhausted=is_exhausted)

    def decided(self, actions: Iterable[Action]) -> Creations:
        """The same after a round's decisions."""
        return replace(
            self, lost=self.lost.with_decided(each.uid for each in actions if isinstance(each, DeletePlaceholder))
        )

    def problems(self, now: datetime, name_of: Callable[[str], str], capped: Container[str] = ()) -> tuple[str, ...]:
        """Why fewer are created than are wanted, as sentences without a full stop.

        Parameters
        ----------
        name_of
            The name of a choice with this shape; empty if there is none.
        capped
            Shapes that are not replaced, and told about elsewhere.
        """
        found = [
            f"{counted(each.count, 'placeholder')} of {name_of(shape) or f'shape {shape}'} "
            + ("failed; " if each.has_failed else "ended, but not by this service; ")
            + (
                f"replacements come from {each.until:%H:%M:%S %Z} on"
                if now < each.until
                else "the others are replaced when the next one stays"
            )
            for shape, each in self.lost.of_shape.items()
            if each.held(now) and shape not in capped
        ]
        if self.is_exhausted:
            found.append("many placeholders were deleted, but not by this service; they are replaced slowly")
        return tuple(found)


def has_failed(pod: Pod) -> bool:
    """Whether a broken placeholder failed because of its node or devices, so that the next one may fail too."""
    return pod.is_finished or pod.has_unhealthy_device or (bool(pod.node_name) and not pod.is_running)


def _has_node(view: View, pod: Pod) -> bool:
    """Whether the node of a pod exists, or it had none."""
    return not pod.node_name or pod.node_name in view.snapshot.nodes


def _life(pod: Pod, now: datetime) -> timedelta:
    """How long a lost placeholder lived; one whose container has never run did not live."""
    return timedelta(0) if has_failed(pod) and not (pod.is_finished or pod.is_running) else age(pod.created, now)


def _after(
    before: Loss | None,
    lives: list[timedelta],
    newest: datetime,
    now: datetime,
    renewal: Renewal,
    *,
    is_failure: bool,
) -> Loss | None:
    """The loss after placeholders were lost.

    Parameters
    ----------
    lives
        How long each of them lived.
    newest
        When the newest of them was created.
    """
    if not lives:
        return before
    is_young = min(lives) < _YOUNG
    if before is not None and (now < before.until or before.is_capped(renewal)):
        return replace(
            before,
            count=before.count + len(lives),
            life=_longest_life([before.life, *lives]),
            one_first=before.one_first or is_young,
            has_failed=before.has_failed or is_failure,
        )
    if before is None:
        at_once = 0 if is_failure else _AT_ONCE
        count, delay = max(len(lives) - at_once, 0), renewal.first_delay
        return Loss(count, now, delay, now + delay, _longest_life(lives), is_young, is_failure)
    # A pod's stamp has whole seconds.
    is_replacement = newest >= before.since.replace(microsecond=0)
    delay = min(2 * before.delay, renewal.longest_delay) if is_replacement else before.delay
    return Loss(
        count=before.held(now) + len(lives),
        since=before.since,
        delay=delay,
        until=now + delay,
        life=_longest_life(lives),
        one_first=is_young or is_replacement,
        has_failed=is_failure,
        in_a_row=before.in_a_row + (is_failure and is_replacement),
    )


def _longest_life(lives: list[timedelta]) -> timedelta:
    """The longest life of the young ones; an old one that is lost beside them would hold the others for long."""
    return max([each for each in lives if each < _YOUNG] or lives)


def _is_over(view: View, renewal: Renewal, shape: str, loss: Loss) -> bool:
    """Whether a replacement has lived for longer than those before it, or nothing was lost for a long time."""
    if view.now < loss.until:
        return False
    since = loss.until.replace(microsecond=0)  # a pod's stamp has whole seconds
    if any(
        age(each.pod.created, since) <= timedelta(0)
        and age(each.pod.created, view.now) > 1.5 * loss.life + _LONGER
        and (each.is_proven or not loss.has_failed)
        for each in view.placeholders_of_shape.get(shape, ())
    ):
        return True
    if loss.is_capped(renewal):
        return False
    return loss.life >= _OLD or view.now >= loss.until + 1.5 * loss.life + renewal.longest_delay


def _of_present(view: View, uids: frozenset[str]) -> frozenset[str]:
    """Those of present servers."""
    return frozenset(pod.uid for pod in view.users.values() if pod.uid in uids) if uids else uids


def _excuses(view: View, used: frozenset[str]) -> list[str]:
    """Uids of servers for which kube-scheduler may just have preempted a placeholder, the oldest first."""
    young = view.users_younger_than(_PREEMPTS_WITHIN)
    found = [pod for pod in young if pod.uid not in used and age(pod.created, view.now) >= timedelta(0)]
    return [pod.uid for pod in sorted(found, key=lambda each: (each.created, each.uid))]


def _shape(pod: Pod) -> str:
    return pod.labels.get(names.SHAPE, "")


def _wanted(view: View, policy: Policy) -> int:
    """The total target."""
    return sum(each.min for each in policy.replicas.values()) + len(view.pending_users)

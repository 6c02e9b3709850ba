"""How many placeholders may be made: what fails is replaced later and later, and whatever happens, not too many.

What users need is not slowed by that: for each placeholder that ended because of a user another one is made at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.broken_placeholders import has_failed
from dra_spawner.placeholders.planner.policy import Policy, Renewal
from dra_spawner.placeholders.planner.view import View, age

__all__ = ["Creations", "Setback"]

#: Who fails later than this after being made is no sign that the next one would fail, too. More than `Grace.start`.
_SOON = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Setback:
    """Placeholders of a shape that have failed and are not replaced yet.

    Attributes
    ----------
    count
        How many.
    delay
        Since the first of them; doubles if those that replace them fail, too.
    until
        When they are replaced.
    """

    count: int
    delay: timedelta
    until: datetime


@dataclass(frozen=True, slots=True)
class Creations:
    """What of the past bears on how many may be made, as a value.

    Attributes
    ----------
    spent
        Of the bucket. Whoever just started has all of it: what is wanted at first is wanted at once.
    at
        When that was so.
    setbacks
        By shape.
    ended
        Uids of placeholders whose end was taken into account when it was decided.
    is_exhausted
        Whether more are wanted than may be made now.
    """

    spent: float = 0.0
    at: datetime | None = None
    setbacks: Mapping[str, Setback] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    is_exhausted: bool = False

    def not_after(self, now: datetime) -> Creations:
        """The same after the clock was set back."""
        setbacks = {
            shape: replace(each, until=min(each.until, now + each.delay)) for shape, each in self.setbacks.items()
        }
        return replace(self, at=now, setbacks=setbacks)

    def after(
        self, view: View, policy: Policy, broken: Iterable[DeletePlaceholder], ends: Iterable[DeletePlaceholder]
    ) -> Creations:
        """With what has come and what is to end now.

        Parameters
        ----------
        broken
            Those that keep nothing any more; of these, pods that have failed are replaced later.
        ends
            Those that end for other reasons.
        """
        there = frozenset(pod.uid for pod in (*(each.pod for each in view.placeholders.values()), *view.terminating))
        wanted = _wanted(view, policy)
        seconds = max((view.now - self.at).total_seconds(), 0.0) if self.at is not None else 0.0
        spent = max(self.spent - seconds * policy.renewal.rate(wanted), 0.0)
        new = [each for each in ends if each.uid not in self.ended]
        spent -= sum(each.cause.is_of_users for each in new)
        failed = [each for each in broken if each.uid not in self.ended]
        return Creations(
            spent=min(max(spent, 0.0), policy.renewal.most(wanted)),
            at=view.now,
            setbacks=dict(self._setbacks(view, policy.renewal, failed)),
            ended=(self.ended | {each.uid for each in (*new, *failed)}) & there,
        )

    def allow(self, view: View, policy: Policy, actions: Iterable[Action]) -> tuple[tuple[Action, ...], Creations]:
        """The actions with only so many placeholders made as may be; those beside waiting servers last."""
        left = int(policy.renewal.most(_wanted(view, policy)) - self.spent)
        asked: Counter[str] = Counter()
        actions = tuple(actions)
        for each in actions:
            if isinstance(each, CreatePlaceholder):
                asked[each.shape] += 1
        allowed = {shape: number - self._held(shape, view.now) for shape, number in asked.items()}
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
        made = sum(isinstance(each, CreatePlaceholder) for each in kept)
        return tuple(kept), replace(self, spent=self.spent + made, is_exhausted=is_exhausted)

    def problems(self, now: datetime, name_of: Callable[[str], str]) -> tuple[str, ...]:
        """Why fewer are made than are wanted, as sentences without their full stop.

        Parameters
        ----------
        name_of
            The choice by which people know a shape; empty if there is none.
        """
        found = [
            f"of {name_of(shape) or f'shape {shape}'} {each.count} failed on their nodes; "
            f"others are made at {each.until:%H:%M:%S %Z}"
            for shape, each in self.setbacks.items()
            if now < each.until
        ]
        if self.is_exhausted:
            found.append("many have gone for reasons that are not the service's; others are made one after the other")
        return tuple(found)

    def _held(self, shape: str, now: datetime) -> int:
        setback = self.setbacks.get(shape)
        return setback.count if setback is not None and now < setback.until else 0

    def _setbacks(
        self, view: View, renewal: Renewal, failed: Iterable[DeletePlaceholder]
    ) -> Iterator[tuple[str, Setback]]:
        count: Counter[str] = Counter()
        soon: set[str] = set()
        for each in failed:
            pod = view.snapshot.pods[each.key]
            if not has_failed(pod):
                continue  # only its claim is gone, which was waited for long enough
            shape = pod.labels.get(names.SHAPE, "")
            count[shape] += 1
            if age(pod.created, view.now) < _SOON:
                soon.add(shape)
        for shape in sorted({*self.setbacks, *count}):
            before = self.setbacks.get(shape)
            if before is not None and view.now >= before.until + renewal.longest_delay:
                before = None  # all has been well for long
            if not count[shape]:
                if before is not None:
                    yield shape, before
            elif before is not None and view.now < before.until:
                yield shape, replace(before, count=before.count + count[shape])
            else:
                delay = renewal.first_delay
                if before is not None and shape in soon:
                    delay = min(2 * before.delay, renewal.longest_delay)
                yield shape, Setback(count[shape], delay, view.now + delay)


def _wanted(view: View, policy: Policy) -> int:
    """About as many as there would be if all were well."""
    return sum(each.min for each in policy.replicas.values()) + len(view.pending_users)

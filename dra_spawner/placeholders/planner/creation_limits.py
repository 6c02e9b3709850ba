"""How many placeholders may be created: a bounded rate, with a back-off for shapes that fail.

Users' demand is not slowed: a placeholder that ended because of a user is replaced at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.broken_placeholders import has_failed
from dra_spawner.placeholders.planner.lost_placeholders import LostPlaceholders
from dra_spawner.placeholders.planner.policy import Policy, Renewal
from dra_spawner.placeholders.planner.view import View, age

__all__ = ["Creations", "Setback"]

#: A placeholder that fails later than this after its creation does not count as a setback. More than `Grace.start`.
_SOON = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Setback:
    """Failed placeholders of one shape that are not replaced yet.

    Attributes
    ----------
    count
        Their number.
    delay
        Time from the first failure to the replacement; doubles if the replacements fail too.
    until
        Time of the replacement.
    in_a_row
        Replacements that have failed, too, since the last one that worked.
    """

    count: int
    delay: timedelta
    until: datetime
    in_a_row: int = 0

    def is_capped(self, renewal: Renewal) -> bool:
        """Whether so many replacements have failed that no more are created until an operator says: try again."""
        return self.in_a_row >= renewal.max_failed


@dataclass(frozen=True, slots=True)
class Creations:
    """The past that limits creations, as a value.

    Attributes
    ----------
    spent
        Tokens taken from the bucket. A service that just started has a full one, as the target is wanted at once.
    at
        Time at which `spent` holds.
    setbacks
        By shape.
    lost
        Placeholders that ended without a decision.
    ended
        Uids of placeholders whose end was counted when it was decided. This is no expectation: a deletion that the API
        server refuses is decided again in each round, and must count once. This is no back-off: it delays no action.
    is_exhausted
        Whether more are wanted than may be created now.
    """

    spent: float = 0.0
    at: datetime | None = None
    setbacks: Mapping[str, Setback] = field(default_factory=dict)
    lost: LostPlaceholders = field(default_factory=LostPlaceholders)
    ended: frozenset[str] = frozenset()
    is_exhausted: bool = False

    def capped(self, policy: Policy) -> dict[str, Setback]:
        """Shapes for whose target nothing is created, as too many replacements have failed in a row."""
        return {shape: each for shape, each in self.setbacks.items() if each.is_capped(policy.renewal)}

    def resumed(self, shape: str) -> Creations:
        """The same without the setback and the losses of a shape."""
        setbacks = {each: back for each, back in self.setbacks.items() if each != shape}
        return replace(self, setbacks=setbacks, lost=self.lost.resumed(shape))

    def not_after(self, now: datetime) -> Creations:
        """The same after the clock was set back."""
        setbacks = {
            shape: replace(each, until=min(each.until, now + each.delay)) for shape, each in self.setbacks.items()
        }
        return replace(self, at=now, setbacks=setbacks, lost=self.lost.not_after(now))

    def after(
        self, view: View, policy: Policy, broken: Iterable[DeletePlaceholder], ends: Iterable[DeletePlaceholder]
    ) -> Creations:
        """The value after this round's new and ending placeholders.

        Parameters
        ----------
        broken
            Deletions of broken placeholders; those whose pods failed are replaced later.
        ends
            Deletions for other reasons.
        """
        there = frozenset(pod.uid for pod in (*(each.pod for each in view.placeholders.values()), *view.terminating))
        wanted = _wanted(view, policy)
        seconds = max((view.now - self.at).total_seconds(), 0.0) if self.at is not None else 0.0
        spent = max(self.spent - seconds * policy.renewal.rate(wanted), 0.0)
        new = [each for each in ends if each.uid not in self.ended]
        spent -= sum(each.cause.is_of_users for each in new)
        failed = [each for each in broken if each.uid not in self.ended]
        keys = [each.key for each in failed if not has_failed(view.snapshot.pods[each.key])]
        return Creations(
            spent=min(max(spent, 0.0), policy.renewal.most(wanted)),
            at=view.now,
            setbacks=dict(self._setbacks(view, policy.renewal, failed)),
            lost=self.lost.after(view, policy, [view.snapshot.pods[key] for key in keys]),
            ended=(self.ended | {each.uid for each in (*new, *failed)}) & there,
        )

    def allow(self, view: View, policy: Policy, actions: Iterable[Action]) -> tuple[tuple[Action, ...], Creations]:
        """The actions with at most the allowed creations; those for pending pods come last."""
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
        made = Counter(each.shape for each in kept if isinstance(each, CreatePlaceholder))
        lost = self.lost.with_made(made)
        return tuple(kept), replace(self, spent=self.spent + made.total(), lost=lost, is_exhausted=is_exhausted)

    def decided(self, actions: Iterable[Action]) -> Creations:
        """The same after a round's decisions."""
        return replace(self, lost=self.lost.with_decided(each.uid for each in _deletions(actions)))

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
            f"{each.count} placeholders of {name_of(shape) or f'shape {shape}'} failed on their nodes; "
            f"they are replaced at {each.until:%H:%M:%S %Z}"
            for shape, each in self.setbacks.items()
            if now < each.until and shape not in capped
        ]
        found += [
            f"{each.count} placeholders of {name_of(shape) or f'shape {shape}'} were ended, but not by this service; "
            + (
                f"they are replaced from {each.until:%H:%M:%S %Z} on"
                if now < each.until
                else "the others are replaced when the next one stays"
            )
            for shape, each in self.lost.of_shape.items()
            if each.held(now) and shape not in capped
        ]
        if self.is_exhausted:
            found.append("many placeholders were deleted, but not by this service; they are replaced slowly")
        return tuple(found)

    def _held(self, shape: str, now: datetime) -> int:
        setback = self.setbacks.get(shape)
        failed = setback.count if setback is not None and now < setback.until else 0
        return failed + self.lost.held(shape, now)

    def _setbacks(
        self, view: View, renewal: Renewal, failed: Iterable[DeletePlaceholder]
    ) -> Iterator[tuple[str, Setback]]:
        count: Counter[str] = Counter()
        soon: set[str] = set()
        for each in failed:
            pod = view.snapshot.pods[each.key]
            if not has_failed(pod):
                continue  # only its claim is gone, after its own grace
            shape = pod.labels.get(names.SHAPE, "")
            count[shape] += 1
            if age(pod.created, view.now) < _SOON:
                soon.add(shape)
        for shape in sorted({*self.setbacks, *count}):
            before = self.setbacks.get(shape)
            is_capped = before is not None and before.is_capped(renewal)
            if before is not None and not is_capped and view.now >= before.until + renewal.longest_delay:
                before = None  # no failure for a long time
            if not count[shape]:
                if before is not None:
                    yield shape, replace(before, in_a_row=0) if _has_worked(view, shape, before) else before
            elif before is not None and (is_capped or view.now < before.until):
                yield shape, replace(before, count=before.count + count[shape])
            else:
                delay, in_a_row = renewal.first_delay, 0
                if before is not None and shape in soon:
                    delay = min(2 * before.delay, renewal.longest_delay)
                    in_a_row = before.in_a_row + 1
                yield shape, Setback(count[shape], delay, view.now + delay, in_a_row)


def _deletions(actions: Iterable[Action]) -> Iterator[DeletePlaceholder]:
    return (each for each in actions if isinstance(each, DeletePlaceholder))


def _has_worked(view: View, shape: str, setback: Setback) -> bool:
    """Whether a replacement runs: the row of failures has ended."""
    since = setback.until.replace(microsecond=0)  # a pod's stamp has whole seconds
    return any(
        each.is_proven and age(each.pod.created, since) <= timedelta(0)
        for each in view.placeholders_of_shape.get(shape, ())
    )


def _wanted(view: View, policy: Policy) -> int:
    """The total target."""
    return sum(each.min for each in policy.replicas.values()) + len(view.pending_users)

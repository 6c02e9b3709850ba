"""How many placeholders may be created: a bounded rate, with a back-off for shapes that lose them.

Users' demand is not slowed: a placeholder that ended because of a user is replaced at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.amounts.lost_placeholders import Loss, LostPlaceholders
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy

__all__ = ["Creations"]


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
            f"{each.count} placeholders of {name_of(shape) or f'shape {shape}'} "
            + ("failed on their nodes; " if each.has_failed else "were ended, but not by this service; ")
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


def _deletions(actions: Iterable[Action]) -> Iterator[DeletePlaceholder]:
    return (each for each in actions if isinstance(each, DeletePlaceholder))


def _wanted(view: View, policy: Policy) -> int:
    """The total target."""
    return sum(each.min for each in policy.replicas.values()) + len(view.pending_users)

"""All decisions of one moment, in the order that makes them safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, Hold, LabelNode
from dra_spawner.placeholders.planner.broken_placeholders import decide_broken, has_failed
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.handover import decide_handovers, decide_unused_reservations, is_under_way
from dra_spawner.placeholders.planner.outdated_shapes import decide_outdated
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption import PendingUser, decide_preemptions
from dra_spawner.placeholders.planner.readiness import decide_readiness
from dra_spawner.placeholders.planner.rebalancing import (
    decide_attraction,
    decide_draining,
    decide_rebalancing,
    remember_users,
    should_rebalance,
)
from dra_spawner.placeholders.planner.replicas import decide_numbers
from dra_spawner.placeholders.planner.safeguards import safeguard_of
from dra_spawner.placeholders.planner.token_bucket import Tokens
from dra_spawner.placeholders.planner.undecided import Unknown
from dra_spawner.placeholders.planner.view import View
from dra_spawner.simulator.claims import ObjectKey


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is to be done, in this order.

    Attributes
    ----------
    actions
        Each with its reason.
    waiting
        Users' pods that wait, and what is to be said of each.
    planner_state
        To be given to the next decision.
    frozen
        Why nothing is done at present; empty if all is well.
    denied
        Placeholders that should go and may not yet, with the rule that keeps them.
    """

    actions: tuple[Action, ...]
    waiting: tuple[PendingUser, ...]
    planner_state: PlannerState
    frozen: str = ""
    denied: Mapping[ObjectKey, Hold] = field(default_factory=dict)

    @property
    def is_unfinished(self) -> bool:
        """Whether pods wait for their turn to be looked at: there is more to decide, though nothing has changed."""
        return any(each.unknown is Unknown.POSTPONED for each in self.waiting)


def decide(view: View, policy: Policy, planner_state: PlannerState) -> Decisions:
    """Decide on everything.

    Users come first: what they wait for is done at once, whatever budgets say. Then readiness, then numbers, then
    tidying up within its budget. Nothing is decided on knowledge that is too old, or while the API fails.

    Parameters
    ----------
    view
        Left as it is.
    planner_state
        Of the last decision (`PlannerState.fresh` for the first).
    """
    stop = safeguard_of(view, policy)
    if stop is not None and stop.is_frozen:
        # The bucket does not fill while nobody looks.
        unchanged = replace(planner_state, tokens=Tokens(planner_state.tokens.left, view.now))
        stay = dict.fromkeys(should_rebalance(view, policy), stop.rule)
        return Decisions((), (), unchanged, stop.reason, stay)
    planner_state = planner_state.not_after(view.now)
    busyness = NodesBusyness(view)
    hand_overs = decide_handovers(view, policy)
    broken = decide_broken(view, policy, _ended(hand_overs))
    yields, waiting, pending_records = decide_preemptions(view, policy, busyness, planner_state.pending_records)
    # However long it took to look at users' pods, what is left has its own time.
    view.searches.begin_part()
    unused_reservations = decide_unused_reservations(view, _ended((*hand_overs, *broken, *yields)))
    readiness, planner_state = decide_readiness(view, policy, planner_state)
    planner_state = replace(remember_users(view, planner_state), pending_records=pending_records)
    ending = _ended((*hand_overs, *broken, *yields, *unused_reservations))
    creations = planner_state.creations.after(view, policy, broken, _ends((*hand_overs, *yields, *unused_reservations)))
    planner_state = replace(planner_state, creations=creations)
    planner_state = replace(planner_state, avoided=_avoided(view, policy, planner_state, broken))
    numbers, planner_state, denied = _numbers(view, policy, planner_state, waiting, ending)
    numbers = tuple(_elsewhere(each, policy, planner_state) for each in numbers)
    # Without all shapes it is not known which nodes are for users.
    attraction = decide_attraction(view, policy) if policy.is_complete else ()
    draining, planner_state = decide_draining(view, policy, planner_state, busyness)
    moves: tuple[DeletePlaceholder, ...] = ()
    if not yields and not any(isinstance(each, CreatePlaceholder | LabelNode) for each in (*numbers, *attraction)):
        # Only when all else is at rest; the next round sees what came of it.
        moves, tokens, stay = decide_rebalancing(view, policy, planner_state.tokens, ending | _ended(numbers))
        planner_state, denied = replace(planner_state, tokens=tokens), {**denied, **stay}
    actions = (
        *hand_overs,
        *broken,
        *yields,
        *unused_reservations,
        *readiness,
        *numbers,
        *attraction,
        *draining,
        *moves,
    )
    return Decisions(actions, waiting, planner_state, denied=denied)


def _avoided(
    view: View, policy: Policy, planner_state: PlannerState, broken: Iterable[DeletePlaceholder]
) -> Mapping[str, datetime]:
    """Nodes where placeholders with devices have failed, and when: the others go elsewhere for a time."""
    failed = [view.snapshot.pods[each.key] for each in broken]
    found = {name: when for name, when in planner_state.avoided.items() if view.now - when < policy.grace.avoid}
    return {**found, **{pod.node_name: view.now for pod in failed if pod.claims and has_failed(pod)}}


def _elsewhere(action: Action, policy: Policy, planner_state: PlannerState) -> Action:
    if isinstance(action, CreatePlaceholder) and planner_state.avoided and policy.shapes[action.shape].wants_devices:
        return replace(action, avoid=tuple(sorted(planner_state.avoided)))
    return action


def _numbers(
    view: View,
    policy: Policy,
    planner_state: PlannerState,
    waiting: Iterable[PendingUser],
    ending: frozenset[ObjectKey],
) -> tuple[tuple[Action, ...], PlannerState, dict[ObjectKey, Hold]]:
    """Which placeholders are made and which are too many, as far as that may be now; and who must wait and why."""
    wanted = decide_numbers(view, policy, waiting, ending)
    outdated, denied, planner_state = decide_outdated(view, policy, planner_state, wanted, ending)
    allowed, creations = planner_state.creations.allow(view, policy, _not_now(view, policy, waiting, wanted))
    tokens = planner_state.tokens.refilled(policy.budget, view.now)
    numbers, tokens, over_budget = _within_budget((*allowed, *outdated), tokens)
    return numbers, replace(planner_state, tokens=tokens, creations=creations), {**denied, **over_budget}


def _not_now(
    view: View, policy: Policy, waiting: Iterable[PendingUser], numbers: tuple[Action, ...]
) -> tuple[Action, ...]:
    """The same without placeholders that would be in the way of users' servers that are about to get their places."""
    if any(each.has_preemption for each in waiting):
        # The scheduler comes to new pods before it comes back to the one that waits.
        numbers = tuple(
            each
            for each in numbers
            if not (isinstance(each, CreatePlaceholder) and policy.shapes[each.shape].wants_devices)
        )
    if is_under_way(view, policy):
        numbers = tuple(
            each for each in numbers if not isinstance(each, CreatePlaceholder) or each.for_pending_pod is not None
        )
    return numbers


def _ends(actions: Iterable[Action]) -> tuple[DeletePlaceholder, ...]:
    return tuple(each for each in actions if isinstance(each, DeletePlaceholder))


def _ended(actions: Iterable[Action]) -> frozenset[ObjectKey]:
    return frozenset(each.key for each in _ends(actions))


def _within_budget(
    actions: tuple[Action, ...], tokens: Tokens
) -> tuple[tuple[Action, ...], Tokens, dict[ObjectKey, Hold]]:
    """Evictions for which there is a token, and everything that is none; what is left of the bucket; who must wait."""
    denied: dict[ObjectKey, Hold] = {}
    kept: list[Action] = []
    for each in actions:
        if isinstance(each, DeletePlaceholder) and each.cause.is_eviction:
            rest = tokens.take()
            if rest is None:
                denied[each.key] = Hold.BUDGET
                continue
            tokens = rest
        kept.append(each)
    return tuple(kept), tokens, denied

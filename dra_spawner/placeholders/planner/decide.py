"""All decisions of one moment, in the order that makes them safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, Denial, EndPlaceholder, LabelNode
from dra_spawner.placeholders.planner.broken_placeholders import decide_broken, has_failed
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.handover import decide_forsaken, decide_hand_overs, is_under_way
from dra_spawner.placeholders.planner.outdated_shapes import decide_outdated
from dra_spawner.placeholders.planner.planner_state import Memory
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption import Waiting, decide_yields
from dra_spawner.placeholders.planner.readiness import decide_readiness
from dra_spawner.placeholders.planner.rebalancing import (
    decide_attraction,
    decide_draining,
    decide_moves,
    remember_users,
    should_move,
)
from dra_spawner.placeholders.planner.replicas import decide_numbers
from dra_spawner.placeholders.planner.safeguards import stop_of
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
    memory
        To be given to the next decision.
    frozen
        Why nothing is done at present; empty if all is well.
    denied
        Placeholders that should go and may not yet, with the rule that keeps them.
    """

    actions: tuple[Action, ...]
    waiting: tuple[Waiting, ...]
    memory: Memory
    frozen: str = ""
    denied: Mapping[ObjectKey, Denial] = field(default_factory=dict)

    @property
    def is_unfinished(self) -> bool:
        """Whether pods wait for their turn to be looked at: there is more to decide, though nothing has changed."""
        return any(each.unknown is Unknown.POSTPONED for each in self.waiting)


def decide(view: View, policy: Policy, memory: Memory) -> Decisions:
    """Decide on everything.

    Users come first: what they wait for is done at once, whatever budgets say. Then readiness, then numbers, then
    tidying up within its budget. Nothing is decided on knowledge that is too old, or while the API fails.

    Parameters
    ----------
    view
        Left as it is.
    memory
        Of the last decision (`Memory.fresh` for the first).
    """
    stop = stop_of(view, policy)
    if stop is not None and stop.is_frozen:
        # The bucket does not fill while nobody looks.
        unchanged = replace(memory, tokens=Tokens(memory.tokens.left, view.now))
        stay = dict.fromkeys(should_move(view, policy), stop.rule)
        return Decisions((), (), unchanged, stop.reason, stay)
    memory = memory.not_after(view.now)
    busyness = NodesBusyness(view)
    hand_overs = decide_hand_overs(view, policy)
    broken = decide_broken(view, policy, _ended(hand_overs))
    yields, waiting, waited = decide_yields(view, policy, busyness, memory.waited)
    # However long it took to look at users' pods, what is left has its own time.
    view.searches.begin_part()
    forsaken = decide_forsaken(view, _ended((*hand_overs, *broken, *yields)))
    readiness, memory = decide_readiness(view, policy, memory)
    memory = replace(remember_users(view, memory), waited=waited)
    ending = _ended((*hand_overs, *broken, *yields, *forsaken))
    creations = memory.creations.after(view, policy, broken, _ends((*hand_overs, *yields, *forsaken)))
    memory = replace(memory, creations=creations)
    memory = replace(memory, avoided=_avoided(view, policy, memory, broken))
    numbers, memory, denied = _numbers(view, policy, memory, waiting, ending)
    numbers = tuple(_elsewhere(each, policy, memory) for each in numbers)
    # Without all shapes it is not known which nodes are for users.
    attraction = decide_attraction(view, policy) if policy.is_complete else ()
    draining, memory = decide_draining(view, policy, memory, busyness)
    moves: tuple[EndPlaceholder, ...] = ()
    if not yields and not any(isinstance(each, CreatePlaceholder | LabelNode) for each in (*numbers, *attraction)):
        # Only when all else is at rest; the next round sees what came of it.
        moves, tokens, stay = decide_moves(view, policy, memory.tokens, ending | _ended(numbers))
        memory, denied = replace(memory, tokens=tokens), {**denied, **stay}
    actions = (*hand_overs, *broken, *yields, *forsaken, *readiness, *numbers, *attraction, *draining, *moves)
    return Decisions(actions, waiting, memory, denied=denied)


def _avoided(view: View, policy: Policy, memory: Memory, broken: Iterable[EndPlaceholder]) -> Mapping[str, datetime]:
    """Nodes where placeholders with devices have failed, and when: the others go elsewhere for a time."""
    failed = [view.snapshot.pods[each.key] for each in broken]
    found = {name: when for name, when in memory.avoided.items() if view.now - when < policy.grace.avoid}
    return {**found, **{pod.node_name: view.now for pod in failed if pod.claims and has_failed(pod)}}


def _elsewhere(action: Action, policy: Policy, memory: Memory) -> Action:
    if isinstance(action, CreatePlaceholder) and memory.avoided and policy.shapes[action.shape].wants_devices:
        return replace(action, avoid=tuple(sorted(memory.avoided)))
    return action


def _numbers(
    view: View, policy: Policy, memory: Memory, waiting: Iterable[Waiting], ending: frozenset[ObjectKey]
) -> tuple[tuple[Action, ...], Memory, dict[ObjectKey, Denial]]:
    """Which placeholders are made and which are too many, as far as that may be now; and who must wait and why."""
    wanted = decide_numbers(view, policy, waiting, ending)
    outdated, denied, memory = decide_outdated(view, policy, memory, wanted, ending)
    allowed, creations = memory.creations.allow(view, policy, _not_now(view, policy, waiting, wanted))
    tokens = memory.tokens.refilled(policy.budget, view.now)
    numbers, tokens, over_budget = _within_budget((*allowed, *outdated), tokens)
    return numbers, replace(memory, tokens=tokens, creations=creations), {**denied, **over_budget}


def _not_now(view: View, policy: Policy, waiting: Iterable[Waiting], numbers: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same without placeholders that would be in the way of users' servers that are about to get their places."""
    if any(each.has_way for each in waiting):
        # The scheduler comes to new pods before it comes back to the one that waits.
        numbers = tuple(
            each
            for each in numbers
            if not (isinstance(each, CreatePlaceholder) and policy.shapes[each.shape].wants_devices)
        )
    if is_under_way(view, policy):
        numbers = tuple(each for each in numbers if not isinstance(each, CreatePlaceholder) or each.beside is not None)
    return numbers


def _ends(actions: Iterable[Action]) -> tuple[EndPlaceholder, ...]:
    return tuple(each for each in actions if isinstance(each, EndPlaceholder))


def _ended(actions: Iterable[Action]) -> frozenset[ObjectKey]:
    return frozenset(each.key for each in _ends(actions))


def _within_budget(
    actions: tuple[Action, ...], tokens: Tokens
) -> tuple[tuple[Action, ...], Tokens, dict[ObjectKey, Denial]]:
    """Evictions for which there is a token, and everything that is none; what is left of the bucket; who must wait."""
    denied: dict[ObjectKey, Denial] = {}
    kept: list[Action] = []
    for each in actions:
        if isinstance(each, EndPlaceholder) and each.cause.is_eviction:
            rest = tokens.take()
            if rest is None:
                denied[each.key] = Denial.BUDGET
                continue
            tokens = rest
        kept.append(each)
    return tuple(kept), tokens, denied

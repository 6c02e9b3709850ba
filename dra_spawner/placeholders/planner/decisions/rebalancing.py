"""Rebalancing to a new, empty node, which attracts placeholders, and from nodes that are emptied or drained.

A placeholder is evicted only if a new, empty, ready node exists and the simulator says that the scheduler would put the
replacement there. The budget bounds all evictions; in doubt there is none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import (
    Action,
    CreatePlaceholder,
    DeletePlaceholder,
    Hold,
    LabelNode,
    delete_placeholder,
)
from dra_spawner.placeholders.planner.cluster.allowed_nodes import (
    allows,
    is_drained,
    is_labelled,
    is_open,
    is_ready_for_users,
)
from dra_spawner.placeholders.planner.cluster.busyness import DAEMONS
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, newest_first
from dra_spawner.placeholders.planner.decisions.draining import replacement, tracked_labels, with_written
from dra_spawner.placeholders.planner.decisions.safeguards import safeguard_of
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import pods_by_kind
from dra_spawner.placeholders.planner.targets.policy import Policy, Tokens
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.scheduler.node_score import best_nodes


def decide_attraction(round_: Round) -> list[LabelNode]:
    """Label the node that attracts placeholders: the newest one that users' servers can run on, while it is new.

    The service of another hub, whose servers may run on other nodes, may label another one. Without all shapes it is
    unknown which nodes are for users.
    """
    view, policy = round_.view, round_.policy
    if not policy.is_complete or view.unknown_kinds:
        return []
    labels = tracked_labels(view, names.ATTRACT, round_.state.attract_labels)
    pods = pods_by_kind(policy.shapes.values()).values()
    open_to_users = (
        state
        for state in view.nodes_younger_than(policy.newest)
        if not is_labelled(state, names.DRAINING) and any(is_open(state, pod) for pod in pods)
    )
    newest = next(open_to_users, None)
    gone = [
        LabelNode(name, names.ATTRACT, None, "no longer the newest node")
        for name, state in view.nodes_labelled(names.ATTRACT)
        if state is not newest and not labels[name].is_others
    ]
    if newest is not None and not is_labelled(newest, names.ATTRACT):
        gone.append(LabelNode(newest.node.name, names.ATTRACT, names.TRUE, "the newest node"))
    round_.remember(attract_labels=with_written(labels, gone))
    return gone


@dataclass
class _Evictions:
    """Evicts placeholders within the budget."""

    policy: Policy
    tokens: Tokens
    warm: Counter[str]
    of_node: Counter[str]

    def denial(self, placeholder: Placeholder) -> Hold | None:
        """The rule by which a placeholder must stay; None if it may be evicted."""
        if self.warm[placeholder.shape] <= self.policy.replicas_of(placeholder.shape).effective_floor:
            return Hold.FLOOR
        if self.of_node[placeholder.node] >= self.policy.budget.per_node:
            return Hold.PER_NODE
        return Hold.BUDGET if self.tokens.left < 1.0 else None

    def take(self, placeholder: Placeholder) -> None:
        tokens = self.tokens.take()
        assert tokens is not None
        self.tokens = tokens
        self.of_node[placeholder.node] += 1
        self.warm[placeholder.shape] -= 1


def decide_rebalancing(round_: Round) -> list[DeletePlaceholder]:
    """Evict placeholders whose replacements start on better nodes; and note which must stay, with the rule.

    Only when nothing else changes; the next round sees the result.
    """
    view, policy, ending = round_.view, round_.policy, round_.ending
    if any(map(_is_busy, round_.actions)):
        return []
    stop = safeguard_of(view, policy)
    if stop is not None:
        round_.hold(should_rebalance(view, policy, ending), stop.rule)
        return []
    warm = Counter(
        {shape: sum(each.key not in ending for each in view.warm(shape)) for shape in view.placeholders_of_shape}
    )
    evictions = _Evictions(policy, round_.state.tokens, warm, Counter())
    ended: list[DeletePlaceholder] = []
    with view.snapshot.trial():
        for placeholder, cause, goal in _misplaced(view, policy, ending):
            denial = evictions.denial(placeholder)
            if denial is None and not _lands(view, policy, placeholder, cause, goal, len(ended)):
                denial = Hold.LANDING
            if denial is not None:
                round_.denied[placeholder.key] = denial
                continue
            evictions.take(placeholder)
            to = f"node {goal}" if goal else "another node"
            left = "drained" if is_drained(view.snapshot.nodes.get(placeholder.node)) else "emptied"
            why = "is new and empty" if cause is Cause.REBALANCE else f"node {placeholder.node} is {left}"
            reason = f"its replacement goes to {to}, which {why}" if goal else f"its replacement fits elsewhere; {why}"
            ended.append(delete_placeholder(placeholder.pod, placeholder.state, cause, reason))
    round_.remember(tokens=evictions.tokens)
    return ended


def _is_busy(action: Action) -> bool:
    """Whether an action changes where placeholders fit."""
    match action:
        case DeletePlaceholder(cause=cause):
            return cause in (Cause.PREEMPTED, Cause.QUOTA)
        case LabelNode(label=label):
            return label == names.ATTRACT
    return isinstance(action, CreatePlaceholder)


def should_rebalance(view: View, policy: Policy, ending: frozenset[ObjectKey] = frozenset()) -> list[ObjectKey]:
    """Placeholders that should be on other nodes, whether or not they may be evicted now."""
    return [placeholder.key for placeholder, _, _ in _misplaced(view, policy, ending)]


def _misplaced(view: View, policy: Policy, ending: frozenset[ObjectKey]) -> list[tuple[Placeholder, Cause, str]]:
    """Placeholders that should be on other nodes, with the cause and, if there is one, the node."""
    found: list[tuple[Placeholder, Cause, str]] = []
    goal = _new_empty_node(view, policy)
    draining = {name for name, state in view.nodes_labelled(names.DRAINING) if is_labelled(state, names.DRAINING)}
    for placeholder in view.placeholders.values():
        if placeholder.node not in draining and (goal is None or placeholder.claims):
            continue  # with claims it is handed over in place, best on nodes with users
        if (
            not placeholder.may_end(Cause.REBALANCE)
            or placeholder.key in ending
            or placeholder.shape not in policy.shapes
        ):
            continue
        if placeholder.node in draining:
            is_ordered = is_drained(view.snapshot.nodes.get(placeholder.node))
            found.append((placeholder, Cause.DRAIN if is_ordered else Cause.EMPTYING, ""))
        elif goal is None or placeholder.node == goal.node.name:
            continue
        elif view.users_of_node.get(placeholder.node) and allows(goal, placeholder.pod):
            # Users need free capacity on their nodes most.
            found.append((placeholder, Cause.REBALANCE, goal.node.name))
    return sorted(found, key=lambda each: newest_first(each[0]))


def _new_empty_node(view: View, policy: Policy) -> NodeState | None:
    """The node that attracts placeholders, if it is ready and has no user's server."""
    for name, state in view.nodes_labelled(names.ATTRACT):
        if not is_labelled(state, names.ATTRACT) or not is_ready_for_users(state):
            continue
        if view.age_of_node(name) >= policy.newest or state.node.is_unschedulable or not state.node.is_ready:
            continue
        strangers = [
            pod for pod in state.pods if pod.controller not in DAEMONS and ObjectKey.of(pod) not in view.placeholders
        ]
        if not strangers:
            return state
    return None


def _lands(view: View, policy: Policy, placeholder: Placeholder, cause: Cause, goal: str, number: int) -> bool:
    """Whether the scheduler would put the replacement on the right node; if so, it is placed in the trial."""
    snapshot = view.snapshot
    snapshot.fork()
    try:
        lands = _lands_in_trial(view, policy, placeholder, cause, goal, number)
    except SearchStopped:
        lands = False  # as far as is known
    if lands:
        snapshot.commit()
    else:
        snapshot.revert()
    return lands


def _lands_in_trial(view: View, policy: Policy, placeholder: Placeholder, cause: Cause, goal: str, number: int) -> bool:
    snapshot = view.snapshot
    snapshot.remove_pod(placeholder.key)
    pod = replacement(view, policy, placeholder, number)
    if pod is not None:
        fitting = snapshot.fits(pod, explain=False).fitting
        states = [snapshot.nodes[name] for name in fitting]
        best = {state.node.name for state in best_nodes(pod, list(snapshot.nodes.values()), states, {})}
        where = goal if best == {goal} else ""
        if cause is not Cause.REBALANCE and best and placeholder.node not in best:
            where = min(best)
        return bool(where) and snapshot.schedule(pod, where).fits
    return False

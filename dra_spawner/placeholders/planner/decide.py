"""All decisions of one round, in the order that makes them safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Final

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, Hold, LabelNode
from dra_spawner.placeholders.planner.broken_placeholders import decide_broken, has_failed
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.draining import decide_draining, evict_from_drained
from dra_spawner.placeholders.planner.handover import decide_handovers, decide_unused_reservations, is_under_way
from dra_spawner.placeholders.planner.limited_targets import Denial, limit_targets
from dra_spawner.placeholders.planner.orders import decide_orders
from dra_spawner.placeholders.planner.outdated_shapes import decide_outdated
from dra_spawner.placeholders.planner.passing_devices import nodes_to_avoid
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption import PendingUser, decide_preemptions
from dra_spawner.placeholders.planner.preemption_for_others import (
    decide_preemptions_for_others,
    has_preemption_for_others,
)
from dra_spawner.placeholders.planner.prepared_claims import unnamed_claims
from dra_spawner.placeholders.planner.quota_preemption import decide_quota_preemption, ended_placeholders
from dra_spawner.placeholders.planner.readiness import decide_readiness
from dra_spawner.placeholders.planner.rebalancing import (
    decide_attraction,
    decide_rebalancing,
    remember_users,
    should_rebalance,
)
from dra_spawner.placeholders.planner.replicas import PendingServers, decide_numbers, pending_servers_of
from dra_spawner.placeholders.planner.safeguards import safeguard_of
from dra_spawner.placeholders.planner.token_bucket import Tokens
from dra_spawner.placeholders.planner.undecided import Unknown
from dra_spawner.placeholders.planner.view import View
from dra_spawner.simulator.claims import ObjectKey

#: Limit of nodes with doubtful devices that a new placeholder names.
_MAX_AVOIDED: Final = 50


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of one round.

    Attributes
    ----------
    actions
        In the order in which they must be done.
    pending
        Users' pending pods, each with its cause.
    planner_state
        For the next round.
    on_hold
        Why nothing may be done; empty if actions may be done.
    denied
        Placeholders that should be evicted and may not yet, each with its rule.
    limited
        By shape: placeholders that are wanted and may not exist.
    """

    actions: tuple[Action, ...]
    pending: tuple[PendingUser, ...]
    planner_state: PlannerState
    on_hold: str = ""
    denied: Mapping[ObjectKey, Hold] = field(default_factory=dict)
    limited: Mapping[str, Denial] = field(default_factory=dict)

    @property
    def is_soon_again(self) -> bool:
        """Whether the next round should come in a second, although nothing changes."""
        return self.planner_state.quota_shortage.since is not None or bool(self.planner_state.capacity_since)

    @property
    def is_unfinished(self) -> bool:
        """Whether pods were postponed, so that the next round has work even without a change."""
        return any(each.unknown is Unknown.POSTPONED for each in self.pending)


def decide(view: View, policy: Policy, planner_state: PlannerState) -> Decisions:
    """Decide one round.

    Users come first, without regard to budgets. Readiness, numbers and then rebalancing follow, within their budgets.
    Nothing is decided on a view that is too old, or while the API fails. While a kind is unknown a placeholder ends
    only after its handover, or if it has failed; creations for the target are safe, as expectations count them.

    Parameters
    ----------
    view
        Not changed.
    planner_state
        Of the last round (`PlannerState.fresh` for the first).
    """
    safeguard = safeguard_of(view, policy)
    if safeguard is not None and safeguard.holds_everything:
        # The bucket does not fill during a hold.
        unchanged = replace(planner_state, tokens=Tokens(planner_state.tokens.left, view.now))
        stay = dict.fromkeys(should_rebalance(view, policy), safeguard.rule)
        return Decisions((), (), unchanged, safeguard.reason, stay)
    planner_state = planner_state.not_after(view.now)
    busyness = NodesBusyness(view)
    handovers = decide_handovers(view, policy)
    broken = decide_broken(view, policy, _ended(handovers))
    preemptions, pending, pending_records = decide_preemptions(view, policy, busyness, planner_state.pending_records)
    # The remaining decisions have a search budget of their own.
    view.searches.begin_part()
    unused_reservations = decide_unused_reservations(view, _ended((*handovers, *broken, *preemptions)))
    ordered = decide_orders(view, policy, _ended((*handovers, *broken, *preemptions, *unused_reservations)))
    for_others, preempted_for_others = decide_preemptions_for_others(
        view,
        policy,
        busyness,
        planner_state.preempted_for_others,
        _ended((*handovers, *broken, *preemptions, *unused_reservations, *ordered)),
    )
    planner_state = replace(planner_state, preempted_for_others=preempted_for_others)
    readiness, planner_state = decide_readiness(view, policy, planner_state)
    planner_state = replace(remember_users(view, planner_state), pending_records=pending_records)
    servers = pending_servers_of(view, policy, pending)
    ends = (*handovers, *broken, *preemptions, *unused_reservations, *ordered, *for_others)
    ended = ended_placeholders(view, planner_state.ended, ends)
    quota_victims = decide_quota_preemption(view, policy, servers.needing_node, _ended(ends), ended)
    shortage = planner_state.quota_shortage.after(quota_victims, view.now)
    planner_state = replace(planner_state, quota_shortage=shortage)
    quota_victims = quota_victims if shortage.lasts(view.now) else ()
    ending = _ended((*ends, *quota_victims))
    creations = planner_state.creations.after(
        view, policy, broken, _ends((*handovers, *preemptions, *unused_reservations, *ordered, *for_others))
    )
    planner_state = replace(planner_state, creations=creations)
    planner_state = replace(
        planner_state,
        avoided=_avoided(view, policy, planner_state, broken),
        scale_up_caps=planner_state.scale_up_caps.after(view),
    )
    keeps_free = any(each.has_preemption for each in pending) or has_preemption_for_others(
        view, policy, preempted_for_others
    )
    numbers, planner_state, denied, limited = _numbers(
        view, policy, planner_state, servers, ending, keeps_free=keeps_free
    )
    numbers = _for_devices(view, policy, planner_state, numbers)
    # Without all shapes it is unknown which nodes are for users.
    attraction: tuple[LabelNode, ...] = ()
    if policy.is_complete and not view.unknown_kinds:
        attraction, planner_state = decide_attraction(view, policy, planner_state)
    draining, planner_state = decide_draining(view, policy, planner_state, busyness)
    evictions: tuple[DeletePlaceholder, ...] = ()
    is_busy = any(isinstance(each, CreatePlaceholder | LabelNode) for each in (*numbers, *attraction))
    if not preemptions and not for_others and not quota_victims and not is_busy:
        # Only when nothing else changes; the next round sees the result.
        evictions, tokens, stay = decide_rebalancing(view, policy, planner_state.tokens, ending | _ended(numbers))
        planner_state, denied = replace(planner_state, tokens=tokens), {**denied, **stay}
    actions = (
        *handovers,
        *broken,
        *preemptions,
        *unused_reservations,
        *ordered,
        *for_others,
        *quota_victims,
        *readiness,
        *numbers,
        *attraction,
        *draining,
        *evictions,
    )
    planner_state = replace(
        planner_state,
        ended=ended_placeholders(view, planner_state.ended, actions),
        creations=planner_state.creations.decided(actions),
    )
    return Decisions(actions, pending, planner_state, denied=denied, limited=limited)


def _avoided(
    view: View, policy: Policy, planner_state: PlannerState, broken: Iterable[DeletePlaceholder]
) -> Mapping[str, datetime]:
    """Nodes where placeholders with devices have failed, and when; new placeholders avoid them for a time."""
    failed = [view.snapshot.pods[each.key] for each in broken]
    found = {name: when for name, when in planner_state.avoided.items() if view.now - when < policy.grace.avoid}
    return {**found, **{pod.node_name: view.now for pod in failed if pod.claims and has_failed(pod)}}


def _for_devices(
    view: View, policy: Policy, planner_state: PlannerState, actions: tuple[Action, ...]
) -> tuple[Action, ...]:
    """The same, with what new placeholders with devices need.

    They avoid nodes with broken or doubtful devices, or such that they would lose again, and their containers do not
    name each claim.
    """
    created = {each.shape for each in actions if isinstance(each, CreatePlaceholder)}
    shapes = [policy.shapes[each] for each in sorted(created) if policy.shapes[each].wants_devices]
    if not shapes:
        return actions
    doubtful = (name for name in view.snapshot.nodes if view.doubts_of(name).missing)
    avoided = {*planner_state.avoided, *islice(doubtful, _MAX_AVOIDED)}
    of_shape = {
        shape.id: (
            tuple(sorted({*avoided, *islice(sorted(nodes_to_avoid(view, shape)), _MAX_AVOIDED)})),
            unnamed_claims(view, policy, shape),
        )
        for shape in shapes
    }
    return tuple(
        replace(each, avoid=of_shape[each.shape][0], unnamed=of_shape[each.shape][1])
        if isinstance(each, CreatePlaceholder) and each.shape in of_shape
        else each
        for each in actions
    )


def _numbers(
    view: View,
    policy: Policy,
    planner_state: PlannerState,
    servers: PendingServers,
    ending: frozenset[ObjectKey],
    *,
    keeps_free: bool,
) -> tuple[tuple[Action, ...], PlannerState, dict[ObjectKey, Hold], Mapping[str, Denial]]:
    """Allowed creations and deletions towards the target; placeholders that must stay for now; denied creations."""
    limited = limit_targets(view, policy, planner_state, servers.needing_node, ending)
    planner_state = replace(planner_state, capacity_since=limited.capacity_since)
    numbers = decide_numbers(view, limited.policy(policy), servers, ending, limited.reason, limited.surplus)
    numbers = _unpaused(view, policy, numbers)
    wanted, denials = limited.within_quotas(numbers)
    outdated, denied, planner_state = decide_outdated(view, policy, planner_state, wanted, ending)
    drained = evict_from_drained(view, policy, ending | _ended((*wanted, *outdated)))
    if view.unknown_kinds:
        # A pod may be gone, or have a node by now.
        denied |= dict.fromkeys(sorted(_ended((*wanted, *outdated, *drained))), Hold.STALE)
        wanted = tuple(each for each in wanted if isinstance(each, CreatePlaceholder) and not each.for_pending_pod)
        outdated = drained = ()
    allowed, creations = planner_state.creations.allow(
        view, policy, _not_now(view, policy, wanted, keeps_free=keeps_free)
    )
    tokens = planner_state.tokens.refilled(policy.budget, view.now)
    numbers, tokens, over_budget = _within_budget((*allowed, *outdated, *drained), tokens)
    planner_state = replace(planner_state, tokens=tokens, creations=creations)
    return numbers, planner_state, {**denied, **over_budget}, denials


def _unpaused(view: View, policy: Policy, numbers: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same without creations and deletions for the targets of paused shapes."""
    if not policy.paused:
        return numbers
    return tuple(
        each
        for each in numbers
        if not (
            (isinstance(each, CreatePlaceholder) and each.for_pending_pod is None and each.shape in policy.paused)
            or (
                isinstance(each, DeletePlaceholder)
                and each.cause is Cause.SURPLUS
                and view.placeholders[each.key].shape in policy.paused
            )
        )
    )


def _not_now(view: View, policy: Policy, numbers: tuple[Action, ...], *, keeps_free: bool) -> tuple[Action, ...]:
    """The same without creations that would compete with users' pods that are about to be scheduled."""
    if keeps_free:
        # The scheduler tries new pods before it retries the pending one.
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
    """All actions but evictions without a token; the bucket's rest; and the denied evictions."""
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

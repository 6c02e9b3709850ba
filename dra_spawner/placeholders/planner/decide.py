"""All decisions of one round, in the order that makes them safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dra_spawner.placeholders.planner.actions import Action, DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.amounts.creations import has_failed
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.undecided import Unknown
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.broken_placeholders import decide_broken, decide_closed
from dra_spawner.placeholders.planner.decisions.draining import decide_drained, decide_draining
from dra_spawner.placeholders.planner.decisions.handover import decide_handovers, decide_unused_reservations
from dra_spawner.placeholders.planner.decisions.orders import decide_orders
from dra_spawner.placeholders.planner.decisions.outdated_shapes import (
    decide_older_settings,
    decide_outdated,
    remember_settings,
)
from dra_spawner.placeholders.planner.decisions.preemption import decide_preemptions
from dra_spawner.placeholders.planner.decisions.preemption_for_others import decide_preemptions_for_others
from dra_spawner.placeholders.planner.decisions.quota_preemption import decide_quota_preemption, remember_ended
from dra_spawner.placeholders.planner.decisions.readiness import decide_readiness
from dra_spawner.placeholders.planner.decisions.rebalancing import (
    decide_attraction,
    decide_rebalancing,
    should_rebalance,
)
from dra_spawner.placeholders.planner.decisions.replicas import decide_numbers
from dra_spawner.placeholders.planner.decisions.safeguards import safeguard_of
from dra_spawner.placeholders.planner.decisions.tickets import decide_tickets, with_ticket_targets
from dra_spawner.placeholders.planner.round import Decision, Denial, PendingUser, Round
from dra_spawner.placeholders.planner.targets.policy import Policy, Tokens
from dra_spawner.simulator.model.claims import ObjectKey


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


def remember_losses(round_: Round) -> tuple[Action, ...]:
    """Remember what ended, where placeholders with devices have failed, and which shapes get no more nodes."""
    view, policy, state = round_.view, round_.policy, round_.state
    broken = [each for each in round_.decided_by(decide_broken) if isinstance(each, DeletePlaceholder)]
    others = [each for each in round_.ends if each not in broken]
    failed = [pod for each in broken if (pod := view.snapshot.pods[each.key]).claims and has_failed(pod)]
    recent = {name: when for name, when in state.avoided.items() if view.now - when < policy.grace.avoid}
    round_.remember(
        creations=state.creations.after(view, policy, broken, others),
        avoided={**recent, **{pod.node_name: view.now for pod in failed}},
        scale_up_caps=state.scale_up_caps.after(view),
        freed=state.freed.after(view),
    )
    return ()


def remember_decisions(round_: Round) -> tuple[Action, ...]:
    """Remember what this round has decided."""
    round_.remember(creations=round_.state.creations.decided(round_.ends))
    return ()


#: The decisions in the order that makes them safe: users come first, without regard to budgets; readiness, numbers and
#: rebalancing follow, within their budgets. Each part has a search budget, so that users' pods leave one to the rest.
DECISIONS: Final[tuple[tuple[Decision, ...], ...]] = (
    (decide_handovers, decide_broken, decide_preemptions),
    (
        decide_unused_reservations,
        decide_orders,
        decide_closed,
        decide_preemptions_for_others,
        remember_losses,
        decide_quota_preemption,
        decide_readiness,
        remember_settings,
        decide_numbers,
        decide_outdated,
        decide_older_settings,
        decide_drained,
        decide_attraction,
        decide_draining,
        decide_rebalancing,
        decide_tickets,
        remember_ended,
        remember_decisions,
    ),
)


def decide(view: View, policy: Policy, planner_state: PlannerState) -> Decisions:
    """Decide one round.

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
    round_ = Round(view, with_ticket_targets(view, policy, planner_state), planner_state)
    for part in DECISIONS:
        round_.decide(part)
    view.snapshot.limit_searches(view.searches)
    return Decisions(round_.actions, round_.pending, round_.state, denied=round_.denied, limited=round_.limited)

"""What kube-scheduler does for a pod that fits nowhere: give back an idle claim, or clear a node of lesser pods.

Preemption frees CPU, memory, ports and pod capacity, and never a device: the claims of the victims count as
allocated all the while, so a node without free devices is no candidate (kube-scheduler 1.36 has no way round this).
PodDisruptionBudgets, which only change which victims are preferred, are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.dra.allocator import AllocationError
from dra_spawner.dra.objects import ResourceClaim
from dra_spawner.simulator.node_fit import Filter, FitCode, NodeVerdict
from dra_spawner.simulator.nodes import NodeState
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.scheduling import Attempt, Choose, Unschedulable, fatal_message, nodes_message

__all__ = ["Preemption", "Resolution", "best_preemptions", "preemption_candidates", "resolve"]

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
# A running pod without start time counts as just started.
_NOT_STARTED: Final = "~"


@dataclass(frozen=True, slots=True)
class Preemption:
    """A node to clear: its name is to be nominated for the pod, and the victims are to be deleted."""

    node_name: str
    victims: tuple[Pod, ...]
    """The most important first."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What to do for a pod that fits nowhere.

    Attributes
    ----------
    message
        What kube-scheduler adds to its report; empty when a node is cleared.
    deallocate
        An idle claim that holds the pod on nodes where it does not fit: to be deallocated.
    delete
        A claim for extended resources that an earlier attempt has left behind: to be deleted.
    preemption
        The node to clear.
    clears_nomination
        Whether an earlier nomination is void.
    """

    message: str
    deallocate: ResourceClaim | None = None
    preemption: Preemption | None = None
    clears_nomination: bool = False
    delete: ResourceClaim | None = None


def resolve(attempt: Attempt, refusal: Unschedulable, choose: Choose[ResourceClaim]) -> Resolution:
    """Determine what could help a pod whose attempt ended like this.

    Parameters
    ----------
    choose
        Picks one of several idle claims; the scheduler does so at random.
    """
    if refusal.no_nodes:
        return Resolution("", clears_nomination=True)
    if refusal.general and Filter.DYNAMIC_RESOURCES not in refusal.filters:
        # The scheduler stumbles over its own state here: what looks after claims has not seen the pod yet.
        return Resolution("not found")
    pod = attempt.question.pod
    idle = [
        claim
        for claim in refusal.unavailable
        if not claim.status.reserved_for or [consumer.uid for consumer in claim.status.reserved_for] == [pod.uid]
    ]
    claim = choose(idle) if idle else None
    leftover = None if claim is not None else refusal.leftover
    if claim is not None:
        about_claims = "deallocation of ResourceClaim completed"
    elif leftover is not None:
        about_claims = "deletion of ResourceClaim completed"
    else:
        about_claims = "still not schedulable" if refusal.has_claims else "no new claims to deallocate"
    resolution = _without_claims(attempt, refusal, about_claims)
    return replace(resolution, deallocate=claim, delete=leftover)


def _without_claims(attempt: Attempt, refusal: Unschedulable, about_claims: str) -> Resolution:
    """The outcome of preemption."""
    if not attempt.question.pod.preempts:
        return Resolution(f"{about_claims}, preemption: not eligible due to preemptionPolicy=Never.")
    if _waits_for_victims(attempt, refusal):
        waits = "not eligible due to a terminating pod on the nominated node."
        return Resolution(f"{about_claims}, preemption: {waits}")
    try:
        found = _preempt(attempt, refusal)
    except AllocationError as error:
        return Resolution(f"preemption: {fatal_message(error)}")
    if isinstance(found, Preemption):
        return Resolution("", preemption=found)
    return Resolution(f"{about_claims}, preemption: {found}", clears_nomination=True)


def _waits_for_victims(attempt: Attempt, refusal: Unschedulable) -> bool:
    """Whether a node is being cleared for the pod already."""
    pod = attempt.question.pod
    verdict = refusal.verdicts.get(pod.nominated_node_name)
    if not pod.nominated_node_name or (verdict is not None and verdict.code is FitCode.UNRESOLVABLE):
        return False
    return any(
        other.priority < pod.priority and other.is_deleted and other.is_preempted
        for state in attempt.view.nodes
        if state.node.name == pod.nominated_node_name
        for other in state.pods
    )


def _preempt(attempt: Attempt, refusal: Unschedulable) -> Preemption | str:
    """The best node to clear, or why none would do."""
    candidates, verdicts = preemption_candidates(attempt, refusal)
    if candidates:
        return best_preemptions(candidates)[0]
    return nodes_message(refusal.node_count, verdicts, _NOT_HELPFUL)


def preemption_candidates(attempt: Attempt, refusal: Unschedulable) -> tuple[list[Preemption], dict[str, NodeVerdict]]:
    """Each node that could be cleared; and by name, why others that lack capacity could not.

    Raises
    ------
    AllocationError
    """
    verdicts: dict[str, NodeVerdict] = {}
    candidates: list[Preemption] = []
    for state in attempt.view.nodes:
        verdict = refusal.verdicts.get(state.node.name)
        if verdict is None or verdict.code is not FitCode.UNSCHEDULABLE:
            continue
        outcome = _victims_on(attempt, state)
        if isinstance(outcome, NodeVerdict):
            verdicts[state.node.name] = outcome
        else:
            candidates.append(Preemption(state.node.name, outcome))
    return candidates, verdicts


def best_preemptions(candidates: Sequence[Preemption]) -> list[Preemption]:
    """The cheapest nodes, of which kube-scheduler picks any: the least important victims, the fewest, the newest."""
    least = min(_cost(each.victims) for each in candidates)
    cheapest = [each for each in candidates if _cost(each.victims) == least]
    latest = max(_first_start(each.victims) for each in cheapest)
    return [each for each in cheapest if _first_start(each.victims) == latest]


def _victims_on(attempt: Attempt, state: NodeState) -> tuple[Pod, ...] | NodeVerdict:
    """The fewest, least important pods that must go so that the pod fits on this node."""
    pod = attempt.question.pod
    lesser = [other for other in state.pods if other.priority < pod.priority]
    if not lesser:
        return NodeVerdict(FitCode.UNRESOLVABLE, reasons=(_NO_VICTIMS,))
    kept = state.without_pods(lesser)
    verdict = _verdict_with(attempt, state, kept)
    if not verdict.fits:
        return verdict
    victims = []
    for other in sorted(lesser, key=_importance):
        with_other = kept.with_pods((other,))
        if _verdict_with(attempt, state, with_other).fits:
            kept = with_other
        else:
            victims.append(other)
    if not victims:
        reason = f'expected at least one victim pod on node "{state.node.name}"'
        return NodeVerdict(FitCode.UNRESOLVABLE, Filter.DYNAMIC_RESOURCES, (reason,))
    return tuple(victims)


def _verdict_with(attempt: Attempt, present: NodeState, instead: NodeState) -> NodeVerdict:
    nodes = [instead if state is present else state for state in attempt.view.nodes]
    return attempt.node_verdict(instead, nodes)


def _importance(pod: Pod) -> tuple[int, str]:
    """The most important first: by priority, then those that have run the longest."""
    return -pod.priority, pod.start_time or _NOT_STARTED


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int]:
    # Shifted so that many pods of negative priority cost more than few of them.
    return victims[0].priority, sum(pod.priority + 2**31 for pod in victims), len(victims)


def _first_start(victims: Sequence[Pod]) -> str:
    highest = max(pod.priority for pod in victims)
    starts = [pod.start_time or _NOT_STARTED for pod in victims if pod.priority == highest]
    return min(starts)  # the newest victim loses least

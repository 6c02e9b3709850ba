"""What kube-scheduler does for a pod that fits nowhere: deallocate an idle claim, or preempt pods of lower priority.

Preemption frees CPU, memory, ports and pod capacity, and never a device: the claims of the victims stay allocated
meanwhile, so a node without free devices is not a candidate in kube-scheduler 1.37.
PodDisruptionBudgets, which only change which victims are preferred, are not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.dra.allocation.allocator import AllocationError
from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import Filter, FilterVerdict, FitCode
from dra_spawner.simulator.scheduler.scheduling import (
    Choose,
    SchedulingAttempt,
    Unschedulable,
    fatal_message,
    nodes_message,
)

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
# A pod without start time counts as just started.
_NOT_STARTED: Final = "~"


@dataclass(frozen=True, slots=True)
class SchedulerPreemption:
    """A node to nominate for the pod, and the victims to delete there."""

    node_name: str
    victims: tuple[Pod, ...]
    """Victims, the most important first."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What to do for a pod that fits nowhere.

    Attributes
    ----------
    message
        Text that kube-scheduler adds to its message; empty with a `preemption`.
    deallocate
        An idle claim to deallocate, as it binds the pod to nodes where it does not fit.
    delete
        A claim to delete: an earlier attempt has left it behind for extended resources.
    preemption
        The node and its victims.
    clears_nomination
        Whether to clear an earlier nomination.
    """

    message: str
    deallocate: ResourceClaim | None = None
    preemption: SchedulerPreemption | None = None
    clears_nomination: bool = False
    delete: ResourceClaim | None = None


def resolve(attempt: SchedulingAttempt, refusal: Unschedulable, choose: Choose[ResourceClaim]) -> Resolution:
    """Determine what could help a pod that fits nowhere.

    Parameters
    ----------
    choose
        Picks one of several idle claims; the scheduler does so at random.
    """
    if refusal.no_nodes:
        return Resolution("", clears_nomination=True)
    if refusal.general and Filter.DYNAMIC_RESOURCES not in refusal.filters:
        # kube-scheduler fails here with this message, as its plugin for claims has no state of the pod yet.
        return Resolution("not found")
    pod = attempt.question.pod
    idle = [
        claim
        for claim in refusal.unavailable
        if not claim.status.reserved_for or [consumer.uid for consumer in claim.status.reserved_for] == [pod.uid]
    ]
    claim = choose(idle) if idle else None
    leftover = None if claim is not None else refusal.leftover
    about_claims = ""
    if claim is not None:
        about_claims = "deallocation of ResourceClaim completed"
    elif leftover is not None:
        about_claims = "deletion of ResourceClaim completed"
    resolution = _without_claims(attempt, refusal, about_claims)
    return replace(resolution, deallocate=claim, delete=leftover)


def _without_claims(attempt: SchedulingAttempt, refusal: Unschedulable, about_claims: str) -> Resolution:
    """The result of preemption."""
    begins = f"{about_claims}, preemption:" if about_claims else "preemption:"
    if not attempt.question.pod.preempts:
        return Resolution(f"{begins} not eligible due to preemptionPolicy=Never.")
    if _waits_for_victims(attempt, refusal):
        return Resolution(f"{begins} not eligible due to a terminating pod on the nominated node.")
    try:
        found = _preempt(attempt, refusal)
    except AllocationError as error:
        return Resolution(f"preemption: {fatal_message(error)}")
    if isinstance(found, SchedulerPreemption):
        return Resolution("", preemption=found)
    return Resolution(f"{begins} {found}", clears_nomination=True)


def _waits_for_victims(attempt: SchedulingAttempt, refusal: Unschedulable) -> bool:
    """Whether victims of an earlier preemption for the pod still terminate."""
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


def _preempt(attempt: SchedulingAttempt, refusal: Unschedulable) -> SchedulerPreemption | str:
    """The best node and its victims, or why preemption does not help."""
    candidates, verdicts = preemption_candidates(attempt, refusal)
    if candidates:
        return best_preemptions(candidates)[0]
    return nodes_message(refusal.node_count, verdicts, _NOT_HELPFUL)


def preemption_candidates(
    attempt: SchedulingAttempt, refusal: Unschedulable
) -> tuple[list[SchedulerPreemption], dict[str, FilterVerdict]]:
    """Each node with its victims; and verdicts, by name, on nodes where preemption does not help.

    Raises
    ------
    AllocationError
        When the scheduler would give up on the pod.
    """
    verdicts: dict[str, FilterVerdict] = {}
    candidates: list[SchedulerPreemption] = []
    for state in attempt.view.nodes:
        verdict = refusal.verdicts.get(state.node.name)
        if verdict is None or verdict.code is not FitCode.UNSCHEDULABLE:
            continue
        outcome = _victims_on(attempt, state)
        if isinstance(outcome, FilterVerdict):
            verdicts[state.node.name] = outcome
        else:
            candidates.append(SchedulerPreemption(state.node.name, outcome))
    return candidates, verdicts


def best_preemptions(candidates: Sequence[SchedulerPreemption]) -> list[SchedulerPreemption]:
    """The cheapest nodes, of which kube-scheduler picks one: the least important victims, the fewest, the newest."""
    least = min(_cost(each.victims) for each in candidates)
    cheapest = [each for each in candidates if _cost(each.victims) == least]
    latest = max(_first_start(each.victims) for each in cheapest)
    return [each for each in cheapest if _first_start(each.victims) == latest]


def _victims_on(attempt: SchedulingAttempt, state: NodeState) -> tuple[Pod, ...] | FilterVerdict:
    """The fewest, least important victims with which the pod fits on this node; or why there are none."""
    pod = attempt.question.pod
    lower = [other for other in state.pods if other.priority < pod.priority]
    if not lower:
        return FilterVerdict(FitCode.UNRESOLVABLE, reasons=(_NO_VICTIMS,))
    kept = state.without_pods(lower)
    verdict = _verdict_with(attempt, state, kept)
    if not verdict.fits:
        return verdict
    victims = []
    for other in sorted(lower, key=_importance):
        with_other = kept.with_pods((other,))
        if _verdict_with(attempt, state, with_other).fits:
            kept = with_other
        else:
            victims.append(other)
    if not victims:
        reason = f'expected at least one victim pod on node "{state.node.name}"'
        return FilterVerdict(FitCode.UNRESOLVABLE, Filter.DYNAMIC_RESOURCES, (reason,))
    return tuple(victims)


def _verdict_with(attempt: SchedulingAttempt, present: NodeState, instead: NodeState) -> FilterVerdict:
    nodes = [instead if state is present else state for state in attempt.view.nodes]
    return attempt.node_verdict(instead, nodes)


def _importance(pod: Pod) -> tuple[int, str]:
    """Sort key, the most important first: by priority, then by age."""
    return -pod.priority, pod.start_time or _NOT_STARTED


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int]:
    # Shifted so that many pods of negative priority cost more than few of them.
    return victims[0].priority, sum(pod.priority + 2**31 for pod in victims), len(victims)


def _first_start(victims: Sequence[Pod]) -> str:
    highest = max(pod.priority for pod in victims)
    starts = [pod.start_time or _NOT_STARTED for pod in victims if pod.priority == highest]
    return min(starts)  # the newest victim loses least

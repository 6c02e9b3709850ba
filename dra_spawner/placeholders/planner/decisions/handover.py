"""Handovers: when a placeholder is deleted after its warm claim was handed over, and when a reservation ends.

A claim is reserved only once: if its pod does not come in time, the claim is deleted with its placeholder.

The placeholder stays until the containers of the user's pod run. So the devices are never free in between, and the
kubelet never undoes their preparation: a pod that joins meanwhile would not start (``unprepareResources`` in
pkg/kubelet/cm/dra, as of 1.36).

On a full node the user's pod becomes a consumer first, and the placeholder is deleted next. The scheduler binds the
pod when the placeholder is gone: by then the kubelet has undone the preparation.

A server whose devices were prepared for the placeholder alone goes the same way on each node: it requires that the
placeholder is gone (`prepared_claims`). While the placeholder terminates, it is taken out of the claims' consumers:
some drivers prepare for the first consumer, or refuse two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from dra_spawner.placeholders.lifecycle import (
    RESERVATION,
    Cause,
    ReservationEvent,
    ReservationState,
    after,
    following,
)
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    DeleteClaim,
    DeletePlaceholder,
    delete_placeholder,
)
from dra_spawner.placeholders.planner.cluster.view import Placeholder, Reservation, View, age, reservation_of
from dra_spawner.placeholders.planner.decisions.prepared_claims import goes_first, waits_for
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod

#: Longest time from the reservation to the pod, and from the pod to its node.
_UNDER_WAY = timedelta(seconds=10)
#: The clocks of two leaders differ by less.
_CLOCKS_APART = timedelta(minutes=5)


def decide_handovers(round_: Round) -> list[Action]:
    """Actions for claims that users' pods name or that are reserved for them."""
    view, policy = round_.view, round_.policy
    takers = _takers(view)
    actions: list[Action] = []
    for key, placeholder in view.placeholders.items():
        pod = takers.get(key)
        if pod is not None:
            actions += _handover(view, policy, placeholder, pod)
        elif any(claim.is_deleted for claim in _claims(view, placeholder)):
            # The hub deletes it after a failed start; the device is free when the placeholder is gone.
            reason = "its claim is being deleted"
            actions.append(delete_placeholder(placeholder.pod, placeholder.state, Cause.BROKEN, reason))
        elif (
            placeholder.reservation is not None
            and _is_over(placeholder.reservation, view, policy)
            and view.knows(Kind.POD, Kind.RESOURCE_CLAIM)
            and not _has_others(_claims(view, placeholder), placeholder.pod)
        ):
            # Its pod may still come late, so the claim must not go to another one.
            reason = f"was reserved for {placeholder.reservation.pod}, which did not start in time"
            actions.append(_end(view, placeholder, ReservationEvent.TIME_OVER, reason))
    actions += _of_leaving(view, policy)
    actions += _unowned(view, policy)
    actions += _orphans(view, policy)
    return actions


def decide_unused_reservations(round_: Round) -> list[DeletePlaceholder]:
    """Deletions of placeholders whose pod came with claims of its own; a claim is reserved only once.

    A placeholder may end for another reason, such as preemption for this pod.
    """
    view, ending = round_.view, round_.ending
    return [
        _end(
            view,
            placeholder,
            ReservationEvent.NOT_PREEMPTED,
            f"was reserved for {placeholder.reservation.pod}, which has claims of its own",
        )
        for key, placeholder in view.placeholders.items()
        if placeholder.reservation is not None
        and key not in ending
        and reservation_state(view, placeholder) is ReservationState.UNUSED
    ]


def is_under_way(view: View, policy: Policy) -> bool:
    """Whether handovers are under way, so that new placeholders wait.

    Both go through the same scheduler, which limits its requests. Handovers that take long do not count.
    """
    for pod in view.pending_users:
        if age(pod.created, view.now) < _UNDER_WAY and any(
            reservation.pod == pod.name for reservation in _reservations(view, pod)
        ):
            return True
    return any(
        placeholder.reservation is not None
        and ObjectKey(key.namespace, placeholder.reservation.pod) not in view.users
        and placeholder.reservation.until - view.now > policy.grace.reservation - _UNDER_WAY
        for key, placeholder in view.placeholders.items()
    )


def _reservations(view: View, pod: Pod) -> Iterator[Reservation]:
    for key in (ObjectKey(pod.namespace, reference.claim or "") for reference in pod.claims):
        reservation = reservation_of(view.index.warm_claims.get(key))
        if reservation is not None:
            yield reservation


def _takers(view: View) -> dict[ObjectKey, Pod]:
    """By placeholder: the user's pod that names its claim, with or without a reservation."""
    return {
        key: pod
        for key, placeholder in view.placeholders.items()
        for claim in reversed(placeholder.claims)
        if len(view.index.naming.get(claim, ())) > 1  # it names its claim itself
        for pod in reversed(view.pods_naming(claim))
        if ObjectKey.of(pod) in view.users and not pod.is_deleted
    }


def _is_over(reservation: Reservation, view: View, policy: Policy) -> bool:
    """Whether a reservation has ended. One that ends far in the future comes from a wrong clock."""
    left = reservation.until - view.now
    return left <= timedelta(0) or left > _CLOCKS_APART + policy.grace.reservation


def _handover(view: View, policy: Policy, placeholder: Placeholder, pod: Pod) -> Iterator[Action]:
    """The actions of one handover, as a chain."""
    waits = waits_for(pod, placeholder.pod)
    if not (pod.node_name or waits) and _is_binding(pod, view, policy):
        return
    yield from _add_consumers(_claims(view, placeholder), placeholder.pod, pod)
    if pod.is_running:
        event, reason = ReservationEvent.POD_RUNS, f"{pod} runs with its claims"
    elif waits:
        event, reason = ReservationEvent.POD_WAITS, f"{pod} has its claims, and starts when it is gone"
    elif not pod.node_name and view.scheduler_message(pod):
        event, reason = ReservationEvent.NO_CAPACITY, f"{pod} has its claims, and does not fit on the node beside it"
    else:
        return  # the scheduler may bind the pod at any moment
    yield _end(view, placeholder, event, reason, pod)


def reservation_state(view: View, placeholder: Placeholder, taker: Pod | None = None) -> ReservationState:
    """The state of a placeholder's reservation.

    Parameters
    ----------
    taker
        The user's pod that names its claims, with or without a reservation.
    """
    if taker is not None:
        return following(RESERVATION, ReservationState.OPEN, ReservationEvent.POD_NAMES_CLAIMS)
    if view.reservation_unused(placeholder):
        return following(RESERVATION, ReservationState.OPEN, ReservationEvent.POD_HAS_OTHER_CLAIMS)
    return ReservationState.OPEN


def _end(
    view: View, placeholder: Placeholder, event: ReservationEvent, reason: str, taker: Pod | None = None
) -> DeletePlaceholder:
    """The deletion of a placeholder that an event of its reservation asks for."""
    cause = after(RESERVATION, reservation_state(view, placeholder, taker), event).cause
    assert cause is not None
    key = ObjectKey.of(taker) if taker is not None else None
    return delete_placeholder(placeholder.pod, placeholder.state, cause, reason, key)


def _of_leaving(view: View, policy: Policy) -> Iterator[AddConsumer]:
    """Actions for claims of placeholders that end for other reasons, such as the scheduler's preemption for the pod."""
    for placeholder in view.terminating:
        if placeholder.is_finished:
            continue
        for key in (ObjectKey(placeholder.namespace, each.claim) for each in placeholder.claims if each.claim):
            claim = view.snapshot.claims.get(key)
            for pod in view.pods_naming(key):
                if claim is not None and ObjectKey.of(pod) in view.users and not (pod.is_deleted or pod.node_name):
                    # A placeholder that is not terminating would be made a consumer again by its claims' controller.
                    is_last = placeholder.is_deleted and goes_first(view, policy, placeholder)
                    yield from _add_consumers([claim], placeholder, pod, is_last=is_last)
                    break


def _add_consumers(
    claims: Iterable[TrackedClaim], placeholder: Pod, pod: Pod, *, is_last: bool = False
) -> Iterator[AddConsumer]:
    """Make a pod owner and consumer of the claims that it names, where it is not.

    A pod that the scheduler binds becomes a consumer by that.

    Parameters
    ----------
    is_last
        Whether the placeholder is to be no consumer any more.
    """
    named = {ObjectKey(pod.namespace, reference.claim or "") for reference in pod.claims}
    for claim in claims:
        if claim.key not in named or claim.is_deleted:
            continue
        owner = pod.uid not in claim.owner_uids
        consumer = not pod.node_name and claim.claim.is_allocated and not claim.is_reserved_for(pod)
        instead_of = placeholder.uid if is_last and claim.is_reserved_for(placeholder) else ""
        if owner or consumer or instead_of:
            reason = f"handover from {placeholder} to {pod}"
            yield AddConsumer(claim.key, ObjectKey.of(pod), pod.uid, reason, owner, consumer, instead_of)


def _unowned(view: View, policy: Policy) -> Iterator[AddConsumer]:
    """Actions for claims that were handed over and have no owner, so that nothing would delete them."""
    for tracked in view.warm_claims:
        if tracked.owner_uids or tracked.is_deleted or tracked.key in view.holder_of:
            continue
        for pod in view.pods_naming(tracked.key):
            if ObjectKey.of(pod) in view.users and not pod.is_deleted and not _is_binding(pod, view, policy):
                reason = f"{pod} has it after a handover, and must own it"
                yield AddConsumer(tracked.key, ObjectKey.of(pod), pod.uid, reason, consumer=False)
                break


def _has_others(claims: Iterable[TrackedClaim], placeholder: Pod) -> bool:
    """Whether a claim has another consumer than its placeholder: a pod that the watch does not show yet."""
    return any(each.uid != placeholder.uid for claim in claims for each in claim.consumers)


def _is_binding(pod: Pod, view: View, policy: Policy) -> bool:
    """Whether the scheduler is about to write the pod into a claim: a concurrent write would conflict."""
    if pod.node_name or view.scheduler_message(pod):
        return False
    return age(pod.created, view.now) < policy.grace.binding


def _claims(view: View, placeholder: Placeholder) -> list[TrackedClaim]:
    return [view.snapshot.claims[key] for key in placeholder.claims if key in view.snapshot.claims]


def _orphans(view: View, policy: Policy) -> Iterator[DeleteClaim]:
    """Deletions of warm claims without a placeholder and without a consumer."""
    if not view.knows(Kind.POD, Kind.RESOURCE_CLAIM):
        return
    for tracked in view.warm_claims:
        if view.pods_naming(tracked.key) or tracked.consumers or tracked.is_deleted:
            continue
        reservation = reservation_of(tracked)
        if reservation is not None and not _is_over(reservation, view, policy):
            continue
        if age(tracked.created, view.now) >= policy.grace.orphan:
            yield DeleteClaim(tracked.key, tracked.claim.uid, "its placeholder is gone, and no pod uses it")

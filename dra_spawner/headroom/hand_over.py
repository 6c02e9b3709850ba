"""Warm claims that users' pods have: when the placeholder goes, and when a reservation ends.

A claim is promised to one pod only, ever: if that pod does not come in time, the claim ends with its placeholder.

A placeholder may go as soon as the user's pod, or the promise to it, is among the claim's consumers, and the claim does
not go along. Before that the claim would be nobody's for a moment, and its device anybody's.

A promise that is among the consumers (it holds the claim) is taken away when the pod is one, or is not going to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import (
    Action,
    Cause,
    DeleteClaim,
    EndPlaceholder,
    PromiseEnd,
    ReleaseClaim,
    ReserveClaim,
)
from dra_spawner.headroom.known import is_held
from dra_spawner.headroom.placeholder_objects import is_claim_of
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.view import Placeholder, Reservation, View, age, reservation_of
from dra_spawner.headroom.yielding import Waiting
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.pods import Pod

#: From the promise to the pod, and from there to its node.
_UNDER_WAY = timedelta(seconds=10)
#: Clocks of two leaders differ by less.
_CLOCKS_APART = timedelta(minutes=5)


def decide_hand_overs(view: View, policy: Policy) -> tuple[Action, ...]:
    """What is to be done about claims that users' pods have or were promised."""
    takers = _takers(view)
    actions: list[Action] = []
    for key, placeholder in view.placeholders.items():
        pod = takers.get(key)
        if pod is not None:
            actions += _hand_over(view, policy, placeholder, pod)
        elif any(claim.is_deleted for claim in _claims(view, placeholder)):
            # By the hub, whose start has failed: the device is free again as soon as the placeholder is gone.
            actions.append(EndPlaceholder(key, placeholder.pod.uid, Cause.BROKEN, "its claim is being deleted"))
        elif placeholder.reservation is not None and _is_over(placeholder.reservation, view, policy):
            # Its pod may still come, late; nobody else must have the claim then.
            reason = f"was kept for {placeholder.reservation.pod}, which did not come in time"
            actions.append(EndPlaceholder(key, placeholder.pod.uid, Cause.EXPIRED, reason))
    actions += _unowned(view, policy)
    actions += _releases(view, policy)
    actions += _orphans(view, policy)
    return tuple(actions)


def decide_forsaken(view: View, ending: frozenset[ObjectKey]) -> tuple[EndPlaceholder, ...]:
    """Placeholders that are kept for a pod which came with claims of its own; none could be promised to another.

    Parameters
    ----------
    ending
        Placeholders that end in this round for other reasons, for this very pod above all.
    """
    return tuple(
        EndPlaceholder(
            key,
            placeholder.pod.uid,
            Cause.EXPIRED,
            f"was kept for {placeholder.reservation.pod}, which came with claims of its own",
        )
        for key, placeholder in view.placeholders.items()
        if placeholder.reservation is not None and key not in ending and view.is_forsaken(placeholder)
    )


def decide_let_go(view: View, waiting: Iterable[Waiting]) -> tuple[ReleaseClaim, ...]:
    """Promises that bind pods to nodes where they do not come in: without them the scheduler gives them other devices.

    Parameters
    ----------
    waiting
        What was found of the pods that wait.
    """
    refused = {each.pod for each in waiting if each.needs_node and not each.has_way}
    return tuple(
        _giving_back(claim, PromiseEnd.NO_ROOM, f"{pod} finds no room where it is, and may go elsewhere now")
        for claim in view.held_claims()
        for pod in view.pods_naming(claim.key)
        if ObjectKey.of(pod) in refused and view.scheduler_says(pod)
    )


def last_releases(view: View) -> tuple[ReleaseClaim, ...]:
    """What a service does before it ends, should none come after it: nothing is left that only it could end.

    The pods that claims are promised to get their devices all the same.
    """
    found = []
    for claim in view.held_claims():
        release = ReleaseClaim(claim.key, claim.claim.uid, PromiseEnd.STOPPED, "the service ends")
        if _is_nobodys(claim) and not view.pods_naming(claim.key):
            # Where its placeholder still stands among them, Kubernetes would free the devices as those of the last pod.
            release = replace(release, consumers=claim.consumers, frees_devices=False)
        found.append(release)
    return tuple(found)


def is_under_way(view: View, policy: Policy) -> bool:
    """Whether users' pods that a place was promised to are about to get it.

    New placeholders wait meanwhile: they go through the same scheduler, which sends a limited number of requests. Pods
    that take long are not waited for.
    """
    for pod in view.waiting_users:
        if age(pod.created, view.now) < _UNDER_WAY and any(
            reservation.pod == pod.name for reservation in _promises(view, pod)
        ):
            return True
    promises = [(key, each.reservation) for key, each in view.placeholders.items()]
    promises += [(claim.key, reservation_of(claim)) for claim in view.held_claims()]
    return any(
        reservation is not None
        and ObjectKey(key.namespace, reservation.pod) not in view.users
        and reservation.until - view.now > policy.grace.promise - _UNDER_WAY
        for key, reservation in promises
    )


def _promises(view: View, pod: Pod) -> Iterator[Reservation]:
    known = view.known
    for key in (ObjectKey(pod.namespace, reference.claim or "") for reference in pod.claims):
        reservation = reservation_of(known.warm_claims.get(key) or known.held_claims.get(key))
        if reservation is not None:
            yield reservation


def _takers(view: View) -> dict[ObjectKey, Pod]:
    """The user's pod that names a placeholder's claim, by placeholder; whether it was promised it or not."""
    return {
        key: pod
        for key, placeholder in view.placeholders.items()
        for claim in reversed(placeholder.claims)
        for pod in reversed(view.pods_naming(claim))
        if ObjectKey.of(pod) in view.users and not pod.is_deleted
    }


def _is_over(reservation: Reservation, view: View, policy: Policy) -> bool:
    """Whether nobody need be waited for. A promise that seems to last for long was given by a clock that went wrong."""
    left = reservation.until - view.now
    return left <= timedelta(0) or left > _CLOCKS_APART + policy.grace.promise


def _hand_over(view: View, policy: Policy, placeholder: Placeholder, pod: Pod) -> Iterator[Action]:
    """One after the other, each only if what comes before has worked."""
    named = {ObjectKey(pod.namespace, reference.claim or "") for reference in pod.claims}
    claims = [each for each in _claims(view, placeholder) if each.key in named and not each.is_deleted]
    is_safe = all(is_held(claim) and placeholder.pod.uid not in claim.owner_uids for claim in claims)
    if not is_safe and _is_binding(pod, view, policy):
        return
    for claim in claims:
        owner = pod.uid not in claim.owner_uids
        consumer = claim.claim.is_allocated and not claim.is_reserved_for(pod)
        if not is_safe and (owner or consumer):
            reason = f"{pod} takes over what {placeholder.pod} kept"
            yield ReserveClaim(claim.key, ObjectKey.of(pod), pod.uid, reason, owner, consumer)
    reason = f"{pod} has taken over what it kept"
    yield EndPlaceholder(placeholder.key, placeholder.pod.uid, Cause.HANDED_OVER, reason, ObjectKey.of(pod))


def _unowned(view: View, policy: Policy) -> Iterator[ReserveClaim]:
    """Claims that users' pods have taken over and that would not go with them."""
    for tracked in view.warm_claims():
        if tracked.owner_uids or tracked.is_deleted or tracked.key in view.holder_of:
            continue
        for pod in view.pods_naming(tracked.key):
            if ObjectKey.of(pod) in view.users and not pod.is_deleted and not _is_binding(pod, view, policy):
                reason = f"{pod} has taken it over, and it goes when that goes"
                yield ReserveClaim(tracked.key, ObjectKey.of(pod), pod.uid, reason, consumer=False)
                break


def _releases(view: View, policy: Policy) -> Iterator[ReleaseClaim]:
    """Promises that have been kept, and those that are not going to be."""
    for claim in view.held_claims():
        naming = [pod for pod in view.pods_naming(claim.key) if not pod.is_finished]
        taker = next((pod for pod in naming if pod.node_name and claim.is_reserved_for(pod)), None)
        if taker is not None and ObjectKey.of(taker) in view.users:
            yield ReleaseClaim(claim.key, claim.claim.uid, PromiseEnd.KEPT, f"{taker} has it")
        elif not naming and (over := _why_over(view, policy, claim)) is not None:
            yield _giving_back(claim, *over)


def _why_over(view: View, policy: Policy, claim: TrackedClaim) -> tuple[PromiseEnd, str] | None:
    """Why nobody is going to have a claim that is promised; None if somebody may."""
    reservation = reservation_of(claim)
    if claim.is_deleted:
        return PromiseEnd.BROKEN, "it is being deleted"
    if reservation is None:
        return PromiseEnd.BROKEN, "nobody knows for whom it is kept"
    if _is_over(reservation, view, policy):
        return PromiseEnd.EXPIRED, f"was kept for {reservation.pod}, which did not come in time"
    if view.came_without(claim.key.namespace, reservation, (claim.key,)):
        return PromiseEnd.EXPIRED, f"was kept for {reservation.pod}, which came with claims of its own"
    return None


def _giving_back(claim: TrackedClaim, end: PromiseEnd, reason: str) -> ReleaseClaim:
    """Free a claim's devices; where pods are among its consumers, Kubernetes does that when the last of them goes."""
    consumers = claim.consumers if _is_nobodys(claim) else None
    return ReleaseClaim(claim.key, claim.claim.uid, end, reason, consumers)


def _is_nobodys(claim: TrackedClaim) -> bool:
    """Whether no pod is among the consumers of a claim but its placeholder, which is gone if nobody names the claim.

    Pods that are not seen yet may use it. Until Kubernetes 1.35 the placeholder stays among them as long as something
    unknown does.
    """
    return all(
        each.resource == labels.PROMISE_RESOURCE or is_claim_of(claim.key.name, each.name) for each in claim.consumers
    )


def _is_binding(pod: Pod, view: View, policy: Policy) -> bool:
    """Whether the scheduler is about to enter it among a claim's consumers: who writes there now makes that fail."""
    if pod.node_name or view.scheduler_says(pod):
        return False
    return age(pod.created, view.now) < policy.grace.binding


def _claims(view: View, placeholder: Placeholder) -> list[TrackedClaim]:
    return [view.snapshot.claims[key] for key in placeholder.claims if key in view.snapshot.claims]


def _orphans(view: View, policy: Policy) -> Iterator[DeleteClaim]:
    """Claims that a placeholder was to have, or had, and that nobody uses."""
    for tracked in view.warm_claims():
        if view.pods_naming(tracked.key) or tracked.consumers or tracked.is_deleted:
            continue
        reservation = reservation_of(tracked)
        if reservation is not None and not _is_over(reservation, view, policy):
            continue
        if age(tracked.created, view.now) >= policy.grace.orphan:
            yield DeleteClaim(tracked.key, tracked.claim.uid, "its placeholder is gone, and nobody uses it")

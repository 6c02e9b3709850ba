"""Warm claims that users' pods have: when the placeholder goes, and when a reservation ends.

A claim is promised to one pod only, ever: if that pod does not come in time, the claim ends with its placeholder.

A placeholder may go as soon as the user's pod is among the claim's owners and consumers. Before that the claim would go
along, or be nobody's for a moment, and its device anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import Action, Cause, DeleteClaim, EndPlaceholder, ReserveClaim, UngatePod
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.view import Placeholder, Reservation, View, age, reservation_of
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.pods import Pod

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
    taken = {ObjectKey.of(pod) for pod in takers.values()}
    for pod in view.waiting_users:
        key = ObjectKey.of(pod)
        if labels.HAND_OVER_GATE in pod.gates and key not in taken:
            actions.append(UngatePod(key, pod.uid, "what it takes over is free for it"))
    actions += _orphans(view, policy)
    return tuple(actions)


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
    if not pod.node_name and not pod.is_gated and age(pod.created, view.now) < policy.grace.binding:
        # The scheduler is about to enter it among the consumers: who writes there now makes that fail for a second.
        return
    claims = _claims(view, placeholder)
    named = {ObjectKey(pod.namespace, reference.claim or "") for reference in pod.claims}
    to_reserve = [
        claim
        for claim in claims
        if claim.key in named
        and (pod.uid not in claim.owner_uids or (claim.claim.is_allocated and not claim.is_reserved_for(pod)))
    ]
    for claim in to_reserve:
        yield ReserveClaim(claim.key, ObjectKey.of(pod), pod.uid, f"{pod} takes over what {placeholder.pod} kept")
    if not to_reserve:
        yield EndPlaceholder(
            placeholder.key,
            placeholder.pod.uid,
            Cause.HANDED_OVER,
            f"{pod} has taken over what it kept",
            ObjectKey.of(pod),
        )


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
            yield DeleteClaim(tracked.key, "its placeholder is gone, and nobody uses it")

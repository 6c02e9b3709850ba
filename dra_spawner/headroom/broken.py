"""Placeholders that keep nothing any more: they failed, or what they were to keep is gone."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner.headroom.actions import Cause, EndPlaceholder
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.view import Placeholder, View, age
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod


def decide_broken(view: View, policy: Policy, ending: frozenset[ObjectKey]) -> tuple[EndPlaceholder, ...]:
    """Which placeholders are of no use; others are made in their stead, if they are wanted.

    Parameters
    ----------
    ending
        Placeholders that end in this round for other reasons.
    """
    return (*_failed(view), *_without_claims(view, policy, ending))


def _failed(view: View) -> Iterator[EndPlaceholder]:
    """Pods that the kubelet has ended, as their node was short of something; as objects they stay for ever."""
    for pod in view.leaving:
        if pod.is_finished and not pod.is_deleted and not _takes_others_claims_along(view, pod):
            yield EndPlaceholder(ObjectKey.of(pod), pod.uid, Cause.BROKEN, f"it has ended by itself ({pod.phase})")


def _takes_others_claims_along(view: View, pod: Pod) -> bool:
    """Whether a user's pod names a claim that would go with a placeholder."""
    keys = [ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim]
    claims = [view.snapshot.claims[key] for key in keys if key in view.snapshot.claims]
    return any(
        pod.uid in claim.owner_uids and user.uid not in claim.owner_uids
        for claim in claims
        for user in view.pods_naming(claim.key)
        if user.uid != pod.uid
    )


def _without_claims(view: View, policy: Policy, ending: frozenset[ObjectKey]) -> Iterator[EndPlaceholder]:
    for key, placeholder in view.placeholders.items():
        gone = _gone_claims(view, policy, placeholder)
        if gone and key not in ending:
            reason = f"claim {', '.join(each.name for each in gone)} is gone"
            yield EndPlaceholder(key, placeholder.pod.uid, Cause.BROKEN, reason)


def _gone_claims(view: View, policy: Policy, placeholder: Placeholder) -> list[ObjectKey]:
    """Claims that are not there; those of a new placeholder may only not be seen yet."""
    if age(placeholder.pod.created, view.now) < policy.grace.orphan:
        return []
    return [key for key in placeholder.claims if key not in view.snapshot.claims]

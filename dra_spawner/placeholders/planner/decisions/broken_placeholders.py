"""Broken placeholders: they failed, do not start, have lost a claim, or their device is closed."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.cluster.closed_devices import why_closed
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod


def decide_broken(round_: Round) -> tuple[DeletePlaceholder, ...]:
    """Deletions of broken placeholders; replacements are decided elsewhere."""
    view, policy, ending = round_.view, round_.policy, round_.ending
    return (*_failed(view), *_not_proven(view, policy, ending), *_without_claims(view, policy, ending))


def decide_closed(round_: Round) -> tuple[DeletePlaceholder, ...]:
    """Deletions of placeholders whose device is closed by a taint, so that no server should get it."""
    view = round_.view
    if not view.index.tainted_slices:
        return ()
    return tuple(
        delete_placeholder(placeholder.pod, placeholder.state, Cause.EVICTED, why)
        for key, placeholder in view.placeholders.items()
        if key not in round_.ending
        and placeholder.may_end(Cause.EVICTED)
        and placeholder.reservation is None
        and (why := why_closed(view.index, view.snapshot, placeholder.claims))
    )


def _failed(view: View) -> Iterator[DeletePlaceholder]:
    """Pods that the kubelet has ended, for example under node pressure; nothing else deletes them."""
    for pod in view.terminating:
        if pod.is_finished and not pod.is_deleted and not _takes_others_claims_along(view, pod):
            yield delete_placeholder(
                pod, PlaceholderState.TERMINATING, Cause.BROKEN, f"the kubelet ended it (phase {pod.phase})"
            )


def _not_proven(view: View, policy: Policy, ending: frozenset[ObjectKey]) -> Iterator[DeletePlaceholder]:
    """Placeholders that do not start, for example because their devices cannot be prepared."""
    for key, placeholder in view.placeholders.items():
        pod = placeholder.pod
        if key in ending or placeholder.is_proven or placeholder.is_pending or placeholder.reservation is not None:
            continue
        devices = _devices(view, placeholder)
        if pod.has_unhealthy_device:
            reason = f"a device of it on node {pod.node_name} is not healthy{devices}"
        elif pod.start_time and age(pod.start_time, view.now) >= policy.grace.start and view.knows(Kind.POD, Kind.NODE):
            minutes = policy.grace.start.total_seconds() / 60
            reason = f"its container does not run on node {pod.node_name} after {minutes:g} minutes{devices}"
            reason += f": {pod.waits_because}" if pod.waits_because else ""
        else:
            continue
        yield delete_placeholder(pod, placeholder.state, Cause.BROKEN, reason)


def _devices(view: View, placeholder: Placeholder) -> str:
    claims = [view.snapshot.claims[key] for key in placeholder.claims if key in view.snapshot.claims]
    names = [str(each.id) for claim in claims for each in claim.claim.status.devices or ()]
    return f" ({', '.join(sorted(names))})" if names else ""


def _takes_others_claims_along(view: View, pod: Pod) -> bool:
    """Whether a user's pod names a claim that the placeholder's deletion would delete."""
    keys = [ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim]
    claims = [view.snapshot.claims[key] for key in keys if key in view.snapshot.claims]
    return any(
        pod.uid in claim.owner_uids and user.uid not in claim.owner_uids
        for claim in claims
        for user in view.pods_naming(claim.key)
        if user.uid != pod.uid
    )


def _without_claims(view: View, policy: Policy, ending: frozenset[ObjectKey]) -> Iterator[DeletePlaceholder]:
    for key, placeholder in view.placeholders.items():
        gone = _gone_claims(view, policy, placeholder)
        if gone and key not in ending:
            reason = f"claim {', '.join(each.name for each in gone)} is gone"
            yield delete_placeholder(placeholder.pod, placeholder.state, Cause.BROKEN, reason)


def _gone_claims(view: View, policy: Policy, placeholder: Placeholder) -> list[ObjectKey]:
    """Missing claims, except those of a new placeholder, which the watch may not show yet."""
    if age(placeholder.pod.created, view.now) < policy.grace.orphan or not view.knows(Kind.RESOURCE_CLAIM):
        return []
    return [key for key in placeholder.claims if key not in view.snapshot.claims]

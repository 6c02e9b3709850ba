"""Placeholders of outdated shapes, which no choice has any more: they are deleted when their replacements are there.

The same for those with another image or PriorityClass than the configured one. Until then users can have all of them.
The first of these shows whether new placeholders have it: a webhook may write another one into each pod. Then nothing
more is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import (
    Action,
    CreatePlaceholder,
    DeletePlaceholder,
    Hold,
    delete_placeholder,
)
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, newest_first
from dra_spawner.placeholders.planner.decisions.prepared_claims import goes_first
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, Undecided

_NAMESPACE: Final = "default"
#: What `lacking` compares.
_SETTINGS: Final = ("image", "PriorityClass", "pull secrets")


def decide_outdated(round_: Round) -> tuple[Action, ...]:
    """Deletions of outdated placeholders; the ones that stay for now are noted, with the rule."""
    view, policy, ending = round_.view, round_.policy, round_.ending
    old = [
        each
        for shape, there in view.placeholders_of_shape.items()
        for each in there
        if (shape not in policy.shapes and policy.is_complete) or _is_of_older_release(view, policy, each)
        if each.may_end(Cause.OUTDATED) and each.key not in ending
    ]
    since = {shape: round_.state.outdated.get(shape, view.now) for shape in sorted({each.shape for each in old})}
    round_.remember(outdated=since)
    if not old:
        return ()
    warm = {each.key for shape in since for each in view.warm(shape)}
    old.sort(key=lambda each: (each.key in warm, newest_first(each)))
    pending = [
        each
        for each in view.placeholders.values()
        if each.is_pending and each.shape in policy.shapes and each.key not in ending
    ]
    are_replaced = not pending and not round_.is_short
    going = [
        each
        for each in old
        if are_replaced or each.key not in warm or view.now - since[each.shape] >= policy.grace.replacing
    ]
    if not going:
        # The budget allows no more in one round.
        going = _in_the_way(view, old[: policy.budget.burst], pending[: policy.budget.burst])
    round_.hold(sorted({each.key for each in old} - {each.key for each in going}), Hold.REPLACING)
    return round_.within_budget(round_.if_known([_end(each, policy) for each in going]))


def lacking(policy: Policy, pod: Pod) -> dict[str, str]:
    """Settings that a placeholder's pod does not have, each with what it has, and what is configured."""
    image, priority_class, secrets = (
        policy.placeholder_image,
        policy.placeholder_priority_class,
        policy.placeholder_pull_secrets,
    )
    found = {}
    if image and image not in pod.images:
        found["image"] = next(iter(pod.images), ""), image
    if priority_class not in ("", pod.priority_class):
        found["PriorityClass"] = pod.priority_class, priority_class
    if not secrets <= pod.pull_secrets:
        found["pull secrets"] = ", ".join(sorted(pod.pull_secrets)), ", ".join(sorted(secrets))
    return {key: f"{has or '(none)'}; configured: {wanted}" for key, (has, wanted) in found.items()}


def _outdated_settings(round_: Round, placeholder: Placeholder) -> dict[str, str]:
    """What of `lacking` a replacement would have; pull secrets do not matter to a placeholder that runs."""
    ignored = round_.state.new_pods.ignored
    runs = placeholder.is_proven or not placeholder.pod.waits_because
    found = lacking(round_.policy, placeholder.pod).items()
    return {key: text for key, text in found if key not in ignored and not (runs and key == "pull secrets")}


def with_other_settings(round_: Round, there: Iterable[Placeholder]) -> list[Placeholder]:
    """The idle placeholders that a replacement would differ from, the oldest first."""
    old = [each for each in there if each.may_end(Cause.OUTDATED) and _outdated_settings(round_, each)]
    return sorted(old, key=lambda each: (each.pod.created, each.pod.name))


def replaced_now(round_: Round, shape: str, there: Sequence[Placeholder], target: int, most: int) -> list[Placeholder]:
    """The placeholder of a shape beside which a new one is created, or was; empty for none.

    Parameters
    ----------
    there
        Placeholders of the shape that do not end in this round.
    """
    old = with_other_settings(round_, there)
    if not old or is_held_up(round_) or shape in round_.policy.paused:
        return []
    free = [each for each in there if each.may_end(Cause.SURPLUS)]
    if len(free) <= target:
        if len(free) < target or not all(each.is_proven for each in free):
            return []
        if not has_capacity(round_, shape, len(there), most):
            return []
        begin_replacing(round_)
    return old[:1]


def begin_replacing(round_: Round) -> None:
    """Remember what there was before the first replacement."""
    if round_.state.new_pods.before is None:
        before = frozenset(each.pod.uid for each in round_.view.placeholders.values())
        round_.remember(new_pods=replace(round_.state.new_pods, before=before))


def is_held_up(round_: Round) -> bool:
    """Whether users' servers wait, which come first."""
    return bool(round_.pending) or round_.has_preemption


def has_capacity(round_: Round, shape: str, count: int, most: int) -> bool:
    """Whether one more placeholder of a shape than present ones is allowed, and surely fits on a present node."""
    snapshot = round_.view.snapshot
    if count >= most or round_.policy.limits:
        return False
    pod, claims = simulated_placeholder(round_.policy.shapes[shape], _NAMESPACE)
    with snapshot.trial():
        for claim in claims:
            snapshot.add_claim(claim)
        try:
            return bool(snapshot.place_quickly(pod))
        except (SearchStopped, Undecided):
            return False


def remember_settings(round_: Round) -> tuple[Action, ...]:
    """Remember which settings new placeholders get."""
    lacks = {each.pod.uid: lacking(round_.policy, each.pod) for each in round_.view.placeholders.values()}
    round_.remember(new_pods=round_.state.new_pods.after(lacks, _SETTINGS))
    return ()


def decide_older_settings(round_: Round) -> tuple[Action, ...]:
    """Delete placeholders whose settings have changed. Those that do not run are deleted at once.

    Of the others, one of each shape at a time: when its replacement is warm, or where no replacement fits beside it. As
    many stay warm as in rebalancing.
    """
    view, policy = round_.view, round_.policy
    created = {each.shape for each in round_.actions if isinstance(each, CreatePlaceholder)}
    ends: list[DeletePlaceholder] = []
    for shape, present in sorted(view.placeholders_of_shape.items()):
        there = [each for each in present if each.key not in round_.ending]
        old = with_other_settings(round_, there) if shape in policy.shapes and shape not in policy.paused else []
        going = [each for each in old if each.pod.waits_because and not each.is_proven]
        if old and not going and shape not in created and not is_held_up(round_):
            free = [each for each in there if each.may_end(Cause.SURPLUS)]
            replicas = policy.replicas_of(shape)
            warm = {each.key for each in view.warm(shape)} - round_.ending
            first = min(old, key=lambda each: each.key in warm)
            may_go = first.key not in warm or len(warm) > replicas.effective_floor
            if may_go and all(each.is_proven for each in free):
                is_replaced = len(free) > replicas.min
                going = [first] if is_replaced or not has_capacity(round_, shape, len(there), replicas.max) else []
        round_.hold(sorted({each.key for each in old} - {each.key for each in going}), Hold.REPLACING)
        for each in going:
            reason = ", and ".join(f"its {key}: {text}" for key, text in _outdated_settings(round_, each).items())
            ends.append(delete_placeholder(each.pod, each.state, Cause.OUTDATED, reason))
    if ends:
        begin_replacing(round_)
    return round_.within_budget(round_.if_known(ends))


def _in_the_way(view: View, old: Iterable[Placeholder], pending: Iterable[Placeholder]) -> list[Placeholder]:
    """Outdated placeholders whose deletion lets a pending replacement fit now, without a new node."""
    found: list[Placeholder] = []
    snapshot = view.snapshot
    with snapshot.trial():
        # The scheduler is about to place what fits already.
        left = [each for each in pending if _surely_has_no_place(snapshot, each.pod)]
        for each in old:
            snapshot.fork()
            snapshot.remove_pod(each.key)
            one_of_each = {other.shape: other for other in reversed(left)}.values()
            placed = next((other for other in one_of_each if _is_placed(snapshot, other.pod, each.node)), None)
            if placed is None:
                snapshot.revert()
                continue
            snapshot.commit()
            left.remove(placed)
            found.append(each)
    return found


def _surely_has_no_place(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether a pod surely fits nowhere. If it fits, it is placed in the trial."""
    try:
        return not snapshot.place_quickly(pod)
    except (SearchStopped, Undecided):
        return False


def _is_placed(snapshot: Snapshot, pod: Pod, node: str) -> bool:
    """Place a pod on a node if it surely fits there, and whether it does."""
    try:
        return snapshot.schedule(pod, node).fits
    except SearchStopped:
        return False


def _is_of_older_release(view: View, policy: Policy, placeholder: Placeholder) -> bool:
    """Whether no server can get its claims: they are prepared for it alone, and no server can wait for its end."""
    if not placeholder.claims or names.PLACEHOLDER_NAME in placeholder.pod.labels:
        return False
    return not placeholder.is_pending and goes_first(view, policy, placeholder.pod)


def _end(placeholder: Placeholder, policy: Policy) -> DeletePlaceholder:
    if placeholder.shape in policy.shapes:
        reason = "an older release made it, and its devices cannot be given to a server"
    else:
        reason = f"no choice has shape {placeholder.shape or '(none)'} any more, and no server of it is pending"
    return delete_placeholder(placeholder.pod, placeholder.state, Cause.OUTDATED, reason)

"""Placeholders of outdated shapes, which no choice has any more: they are deleted when their replacements are there.

Until then they can be preempted for users like all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, DeletePlaceholder, Hold, delete_placeholder
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, newest_first
from dra_spawner.placeholders.planner.decisions.prepared_claims import goes_first
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, Undecided


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

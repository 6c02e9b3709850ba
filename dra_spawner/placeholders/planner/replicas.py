"""How many placeholders there are to be: the wanted number of each shape, and one beside each waiting user's pod.

A user's pod requires a label that no node has which is yet to come, so no autoscaler would bring one for it. The
placeholder beside it requires no such label: it waits in the user's stead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.preemption import PendingUser
from dra_spawner.placeholders.planner.view import Placeholder, View, newest_first
from dra_spawner.simulator.claims import ObjectKey


def decide_numbers(
    view: View, policy: Policy, waiting: Iterable[PendingUser], ending: frozenset[ObjectKey]
) -> tuple[Action, ...]:
    """Which placeholders are made, and which are more than wanted.

    Parameters
    ----------
    waiting
        Users' pods that wait.
    ending
        Placeholders that end in this round for other reasons.
    """
    for_pending_pod: dict[str, list[ObjectKey]] = {}
    servers: Counter[str] = Counter()
    for each, shape in _counted(view, policy, waiting):
        servers[shape] += 1
        if each.needs_node:
            for_pending_pod.setdefault(shape, []).append(each.pod)
    actions: list[Action] = []
    for shape in policy.shapes:
        present = view.placeholders_of_shape.get(shape, [])
        there = [each for each in present if each.key not in ending]
        warm = frozenset(each.key for each in view.warm(shape))
        replicas = policy.replicas_of(shape)
        # If placeholders find places and the server does not, as its volume is elsewhere, say, no number of them helps.
        most = replicas.min + servers[shape]
        # What ends is there until it does, and may not let itself be ended.
        room = replicas.max - len(present)
        actions += _of_shape(shape, replicas, most, room, there, for_pending_pod.get(shape, []), warm)
    return tuple(actions)


def _counted(view: View, policy: Policy, waiting: Iterable[PendingUser]) -> list[tuple[PendingUser, str]]:
    """Servers beside which a placeholder may wait, with their shapes: as many of each namespace, the first first."""
    found = [(each, shape) for each in waiting if (shape := view.shape_of(view.users[each.pod])) in policy.shapes]
    if len(found) <= policy.most_for_pending_pods:
        return found
    before: Counter[str] = Counter()
    turns: list[int] = []
    for each, _ in found:
        turns.append(before[each.pod.namespace])
        before[each.pod.namespace] += 1
    chosen = sorted(range(len(found)), key=turns.__getitem__)[: policy.most_for_pending_pods]
    return [found[index] for index in sorted(chosen)]


def _of_shape(
    shape: str,
    replicas: ReplicaRange,
    most: int,
    room: int,
    there: list[Placeholder],
    waiting: list[ObjectKey],
    warm: frozenset[ObjectKey],
) -> list[Action]:
    free = [each for each in there if each.may_end(Cause.SURPLUS)]
    pending = [each for each in free if each.is_pending]
    # Each waiting pod needs one that waits; those that are wanted anyway and wait will do.
    wanted = max(replicas.min, len(free) - len(pending) + len(waiting) if waiting else 0)
    wanted = min(wanted, most)
    missing = min(wanted - len(free), room)
    if missing > 0:
        return [_create(shape, replicas.min, len(free) + number, waiting) for number in range(missing)]
    surplus = max(len(free) - wanted, min(len(there) - replicas.max, len(free)))
    if surplus <= 0:
        return []
    # While one waits for a node, none that has a place goes: the one that waits may be about to take another's.
    # What the next user could not have at once is missed least.
    going = sorted(pending or free, key=lambda each: (each.key in warm, newest_first(each)))
    return [_surplus(each, replicas) for each in going[:surplus]]


def _create(shape: str, minimum: int, there: int, waiting: list[ObjectKey]) -> CreatePlaceholder:
    if there < minimum:
        return CreatePlaceholder(shape, f"{minimum} wanted, {there} there")
    pod = waiting[0]
    return CreatePlaceholder(shape, f"{pod} waits for a node; what waits beside it can ask for one", pod)


def _surplus(placeholder: Placeholder, replicas: ReplicaRange) -> DeletePlaceholder:
    reason = f"{replicas.min} wanted, {replicas.max} at most"
    return delete_placeholder(placeholder.pod, placeholder.state, Cause.SURPLUS, reason)

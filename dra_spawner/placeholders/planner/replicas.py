"""How many placeholders there are to be: the wanted number of each shape, and one beside each waiting user's pod.

A user's pod requires a label that no node has which is yet to come, so no autoscaler would bring one for it. The
placeholder beside it requires no such label: it waits in the user's stead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dra_spawner.placeholders.planner.actions import Action, Cause, CreatePlaceholder, EndPlaceholder
from dra_spawner.placeholders.planner.policy import Headroom, Policy
from dra_spawner.placeholders.planner.preemption import Waiting
from dra_spawner.placeholders.planner.view import Placeholder, View, newest_first
from dra_spawner.simulator.claims import ObjectKey


def decide_numbers(
    view: View, policy: Policy, waiting: Iterable[Waiting], ending: frozenset[ObjectKey]
) -> tuple[Action, ...]:
    """Which placeholders are made, and which are more than wanted.

    Parameters
    ----------
    waiting
        Users' pods that wait.
    ending
        Placeholders that end in this round for other reasons.
    """
    beside: dict[str, list[ObjectKey]] = {}
    servers: Counter[str] = Counter()
    for each, shape in _counted(view, policy, waiting):
        servers[shape] += 1
        if each.needs_node:
            beside.setdefault(shape, []).append(each.pod)
    actions: list[Action] = []
    for shape in policy.shapes:
        present = view.placeholders_of_shape.get(shape, [])
        there = [each for each in present if each.key not in ending]
        warm = frozenset(each.key for each in view.warm(shape))
        headroom = policy.headroom_of(shape)
        # If placeholders find places and the server does not, as its volume is elsewhere, say, no number of them helps.
        most = headroom.min + servers[shape]
        # What ends is there until it does, and may not let itself be ended.
        room = headroom.max - len(present)
        actions += _of_shape(shape, headroom, most, room, there, beside.get(shape, []), warm)
    return tuple(actions)


def _counted(view: View, policy: Policy, waiting: Iterable[Waiting]) -> list[tuple[Waiting, str]]:
    """Servers beside which a placeholder may wait, with their shapes: as many of each namespace, the first first."""
    found = [(each, shape) for each in waiting if (shape := view.shape_of(view.users[each.pod])) in policy.shapes]
    if len(found) <= policy.most_beside:
        return found
    before: Counter[str] = Counter()
    turns: list[int] = []
    for each, _ in found:
        turns.append(before[each.pod.namespace])
        before[each.pod.namespace] += 1
    chosen = sorted(range(len(found)), key=turns.__getitem__)[: policy.most_beside]
    return [found[index] for index in sorted(chosen)]


def _of_shape(
    shape: str,
    headroom: Headroom,
    most: int,
    room: int,
    there: list[Placeholder],
    waiting: list[ObjectKey],
    warm: frozenset[ObjectKey],
) -> list[Action]:
    free = [each for each in there if each.reservation is None]
    pending = [each for each in free if each.is_pending]
    # Each waiting pod needs one that waits; those that are wanted anyway and wait will do.
    wanted = max(headroom.min, len(free) - len(pending) + len(waiting) if waiting else 0)
    wanted = min(wanted, most)
    missing = min(wanted - len(free), room)
    if missing > 0:
        return [_create(shape, headroom.min, len(free) + number, waiting) for number in range(missing)]
    surplus = max(len(free) - wanted, min(len(there) - headroom.max, len(free)))
    if surplus <= 0:
        return []
    # While one waits for a node, none that has a place goes: the one that waits may be about to take another's.
    # What the next user could not have at once is missed least.
    going = sorted(pending or free, key=lambda each: (each.key in warm, newest_first(each)))
    return [_surplus(each, headroom) for each in going[:surplus]]


def _create(shape: str, minimum: int, there: int, waiting: list[ObjectKey]) -> CreatePlaceholder:
    if there < minimum:
        return CreatePlaceholder(shape, f"{minimum} wanted, {there} there")
    pod = waiting[0]
    return CreatePlaceholder(shape, f"{pod} waits for a node; what waits beside it can ask for one", pod)


def _surplus(placeholder: Placeholder, headroom: Headroom) -> EndPlaceholder:
    reason = f"{headroom.min} wanted, {headroom.max} at most"
    return EndPlaceholder(placeholder.key, placeholder.pod.uid, Cause.SURPLUS, reason)

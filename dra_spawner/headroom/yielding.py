"""Placeholders make way for a user's pod that does not fit: the fewest, where that surely helps.

kube-scheduler preempts less important pods for CPU and memory, but never for a device (KEP-5690 plans it). This is that
preemption: decided by simulation, and only for pods that want devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import combinations

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import Action, Cause, EndPlaceholder, LabelPod
from dra_spawner.headroom.busyness import NodesBusyness
from dra_spawner.headroom.known import Refusals
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.view import (
    Placeholder,
    View,
    allows,
    label_of,
    moment_of,
    newest_first,
    wants_devices,
    without_label,
)
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot

#: Sets of placeholders up to this size are tried from the smallest on; larger ones are made smaller one by one.
_MOST_TRIED_TOGETHER = 2


@dataclass(frozen=True, slots=True)
class Way:
    """How a pod can be made to fit.

    Attributes
    ----------
    node
        Where.
    placeholders
        Those that must go, the fewest found.
    rivals
        Others that wait for a node and would take what becomes free: the scheduler may come to them first.
    """

    node: str
    placeholders: tuple[Placeholder, ...]
    rivals: tuple[Placeholder, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A user's pod that waits, and what is done about it.

    Attributes
    ----------
    pod
        The pod.
    reason
        For people: why it waits, or what was done.
    needs_node
        Whether nothing helps but another node.
    has_way
        Whether placeholders made way for it; until it has its place, nobody else may be put there.
    """

    pod: ObjectKey
    reason: str
    needs_node: bool = False
    has_way: bool = False


def decide_yields(
    view: View, policy: Policy, busyness: NodesBusyness
) -> tuple[tuple[Action, ...], tuple[Waiting, ...]]:
    """Who makes way for the users' pods that wait, and what is to be said of each of these pods."""
    actions: list[Action] = []
    waiting: list[Waiting] = []
    need_node: dict[str, Waiting] = {}
    with view.snapshot.trial():
        free = {key: each for key, each in view.placeholders.items() if each.is_free}
        pending = {key: each for key, each in view.placeholders.items() if each.is_pending}
        for pod in view.waiting_users:
            key = ObjectKey.of(pod)
            shape = _shape_alone(pod)
            known = need_node.get(shape)
            if known is not None:
                # The trial only fills up: what did not fit a moment ago does not fit now.
                waiting.append(Waiting(key, known.reason, needs_node=True))
                continue
            way, told = _help(view, policy, pod, free, pending, busyness)
            waiting.append(told)
            if told.needs_node and shape:
                need_node[shape] = told
            if way is None:
                continue
            actions.append(LabelPod(key, pod.uid, labels.YIELDED_AT, label_of(view.now), told.reason))
            for each in way.placeholders:
                reason = f"{pod} fits on node {way.node} without it"
                actions.append(EndPlaceholder(each.key, each.pod.uid, Cause.YIELD, reason, key))
            for each in way.rivals:
                reason = f"would take what becomes free on node {way.node} for {pod}"
                actions.append(EndPlaceholder(each.key, each.pod.uid, Cause.YIELD, reason, key))
    return tuple(actions), tuple(waiting)


def _help(
    view: View,
    policy: Policy,
    pod: Pod,
    free: dict[ObjectKey, Placeholder],
    pending: dict[ObjectKey, Placeholder],
    busyness: NodesBusyness,
) -> tuple[Way | None, Waiting]:
    """What is done for one pod; in the trial it has its place then."""
    key = ObjectKey.of(pod)
    if pod.is_gated:
        return None, Waiting(key, f"held back by {', '.join(pod.gates)}")
    if problem := view.snapshot.general_problem(pod):
        # Often its claims are yet to be made, or seen; no node would help.
        return None, Waiting(key, problem)
    refusals = view.known.refusals_of(pod)
    if where := view.snapshot.place_quickly(pod, refusals.of_node):
        return None, Waiting(key, f"fits on node {where}")
    given = moment_of(pod.labels.get(labels.YIELDED_AT, ""))
    # What is said of a time to come was said by a clock that went wrong.
    if given is not None and timedelta(0) <= view.now - given < policy.grace.yield_again:
        return None, Waiting(key, "placeholders have just made way for it", has_way=True)
    # What was promised to it without a claim, it takes over by its making way.
    promised = [each for each in view.placeholders.values() if each.is_promised_to(pod)]
    way = find_way(view.snapshot, pod, [*free.values(), *promised], busyness, refusals if not promised else None)
    if way is None:
        node = _once_ready(view, pod, free, busyness)
        if node:
            return None, Waiting(key, f"node {node} has room and is being made ready")
        return None, Waiting(key, "does not fit on any node, even without placeholders", needs_node=True)
    if wants_devices(pod):
        way = replace(way, rivals=_rivals(view, way, pending))
    _make_way(view, pod, way, free)
    names = ", ".join(str(each.pod) for each in way.placeholders)
    if not wants_devices(pod):
        return None, Waiting(key, f"the scheduler preempts {names} for it on node {way.node}")
    return way, Waiting(key, f"{names} made way for it on node {way.node}", has_way=True)


def _make_way(view: View, pod: Pod, way: Way, free: dict[ObjectKey, Placeholder]) -> None:
    for each in way.placeholders:
        free.pop(each.key, None)
        view.snapshot.remove_pod(each.key)
    view.snapshot.schedule(pod, way.node)


def _rivals(view: View, way: Way, pending: dict[ObjectKey, Placeholder]) -> tuple[Placeholder, ...]:
    """Placeholders without a node that would fit once others have made way; they are pending no longer."""
    fits: dict[str, bool] = {}
    with view.snapshot.trial():
        for each in way.placeholders:
            view.snapshot.remove_pod(each.key)
        for each in pending.values():
            if each.shape not in fits:
                fits[each.shape] = view.snapshot.fits_on(each.pod, way.node, explain=False).fits
    found = tuple(each for each in pending.values() if fits[each.shape])
    for each in found:
        del pending[each.key]
    return found


def _shape_alone(pod: Pod) -> str:
    """The pod's shape if that is all that decides about it; empty if it names claims that are there already."""
    return "" if any(each.template is None for each in pod.claims) else pod.labels.get(labels.SHAPE, "")


def _once_ready(view: View, pod: Pod, free: dict[ObjectKey, Placeholder], busyness: NodesBusyness) -> str:
    """The node that has room for a pod and is only not ready for users yet; the pod has its place in the trial then."""
    later = without_label(pod, labels.IMAGES_READY)
    if later is pod:
        return ""
    refusals = view.known.refusals_once_ready(pod)
    if where := view.snapshot.place_quickly(later, refusals.of_node):
        return where
    way = find_way(view.snapshot, later, free.values(), busyness, refusals)
    if way is None:
        return ""
    _make_way(view, later, way, free)
    return way.node


def find_way(
    snapshot: Snapshot,
    pod: Pod,
    placeholders: Iterable[Placeholder],
    busyness: NodesBusyness,
    refusals: Refusals | None = None,
) -> Way | None:
    """The node where the fewest placeholders must go so that a pod fits; None if it fits nowhere even then.

    Among equally few, cold nodes' placeholders go first, and the pod goes to the node that is truly busiest.

    Parameters
    ----------
    refusals
        Of this very pod, where it was looked for before.
    """
    refused = refusals.without_placeholders if refusals is not None and _shape_alone(pod) else {}
    by_node: dict[str, list[Placeholder]] = {}
    for placeholder in placeholders:
        state = snapshot.nodes.get(placeholder.node)
        if state is not None and allows(state, pod):
            by_node.setdefault(placeholder.node, []).append(placeholder)
    token_of = snapshot.tokens(pod)
    best: tuple[tuple[int, Fraction, int, str], Way] | None = None
    for name in sorted(by_node):
        if best is not None and len(best[1].placeholders) == 1 and not _is_busier(busyness, name, best[1].node):
            continue  # no fewer can be found; only a busier node would be better
        token = (token_of(name), frozenset(each.key for each in by_node[name]))
        if token[0] is not None and refused.get(name) == token:
            continue
        fewest = _fewest(snapshot, pod, name, by_node[name])
        if fewest is None:
            refused[name] = token
            continue
        figure, users = busyness.of(name).rank
        order = (len(fewest), -figure, -users, name)
        if best is None or order < best[0]:
            best = (order, Way(name, fewest))
    return best[1] if best is not None else None


def _is_busier(busyness: NodesBusyness, name: str, other: str) -> bool:
    return busyness.of(name).rank > busyness.of(other).rank


def _fewest(snapshot: Snapshot, pod: Pod, node: str, held: Sequence[Placeholder]) -> tuple[Placeholder, ...] | None:
    """The fewest placeholders of a node without which a pod fits there; None if it does not without all."""
    ordered = sorted(held, key=_cheapest_first)
    if not _fits_without(snapshot, pod, node, ordered):
        return None
    for chosen in _small_sets(ordered):
        if _fits_without(snapshot, pod, node, chosen):
            return chosen
    needed = list(ordered)
    for placeholder in reversed(ordered):  # the dearest may stay first
        rest = [each for each in needed if each is not placeholder]
        if _fits_without(snapshot, pod, node, rest):
            needed = rest
    return tuple(needed)


def _cheapest_first(placeholder: Placeholder) -> tuple[int, ...]:
    """Fewest claims first, then the newest."""
    return (len(placeholder.claims), *newest_first(placeholder))


def _small_sets(ordered: Sequence[Placeholder]) -> Iterator[tuple[Placeholder, ...]]:
    """Sets of few placeholders, small ones first. Alike placeholders hold different devices, so each is tried."""
    for size in range(1, min(_MOST_TRIED_TOGETHER, len(ordered)) + 1):
        yield from combinations(ordered, size)


def _fits_without(snapshot: Snapshot, pod: Pod, node: str, placeholders: Iterable[Placeholder]) -> bool:
    with snapshot.trial():
        for placeholder in placeholders:
            snapshot.remove_pod(placeholder.key)
        return snapshot.fits_on(pod, node, explain=False).fits

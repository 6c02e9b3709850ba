"""Placeholders make way for a user's pod that does not fit: the fewest, where that surely helps.

kube-scheduler preempts less important pods for CPU and memory, but never for a device (KEP-5690 plans it). This is that
preemption: decided by simulation, and only for pods that want devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.actions import Action, Cause, EndPlaceholder, LabelPod
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster_index import FailedFits
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption_backoff import Patience, Waited
from dra_spawner.placeholders.planner.undecided import Unknown, surely_fits, why_unknown
from dra_spawner.placeholders.planner.view import (
    Placeholder,
    View,
    allows,
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
    unknown
        Why it is not known whether it fits; None if it is known.
    """

    pod: ObjectKey
    reason: str
    needs_node: bool = False
    has_way: bool = False
    unknown: Unknown | None = None


def decide_yields(
    view: View, policy: Policy, busyness: NodesBusyness, before: Mapping[str, Waited]
) -> tuple[tuple[Action, ...], tuple[Waiting, ...], Mapping[str, Waited]]:
    """Who makes way for the users' pods that wait, and what is to be said of each of these pods.

    Parameters
    ----------
    before
        What is remembered of the pods that wait, by uid.

    Returns
    -------
    tuple
        Actions; what is to be said; what is to be remembered.
    """
    with view.snapshot.trial():
        yields = _Yields(view, policy, busyness, Patience(view, policy.grace, before))
        for pod in view.searches.in_turn(view.waiting_users):
            with view.searches.charged_to(pod):
                yields.try_to_look_at(pod)
    return tuple(yields.actions), tuple(yields.waiting), yields.patience.waited


class _Yields:
    """Looks at one pod after the other; within a trial, in which each has its place then."""

    def __init__(self, view: View, policy: Policy, busyness: NodesBusyness, patience: Patience) -> None:
        self._view = view
        self._policy = policy
        self._busyness = busyness
        self._free = {key: each for key, each in view.placeholders.items() if each.is_free}
        # A pod that came without what was promised to it may have its place, as may others.
        self._forsaken = {key: each for key, each in view.placeholders.items() if view.is_forsaken(each)}
        self._pending = {key: each for key, each in view.placeholders.items() if each.is_pending}
        self._need_node: dict[str, Waiting] = {}
        self.patience = patience
        self.actions: list[Action] = []
        self.waiting: list[Waiting] = []

    def try_to_look_at(self, pod: Pod) -> None:
        """Find out what is to be said of a pod and done for it, unless that takes too long: then nothing is done."""
        snapshot = self._view.snapshot
        snapshot.fork()
        try:
            self._look_at(pod)
        except SearchStopped as stopped:
            snapshot.revert()
            self.patience.keep(pod)
            unknown, reason = why_unknown(pod, stopped)
            # Where placeholders made way for it in an earlier round, nobody else may be put yet.
            has_way = self.patience.has_way(pod)
            self.waiting.append(Waiting(ObjectKey.of(pod), reason, has_way=has_way, unknown=unknown))
        else:
            snapshot.commit()

    def _look_at(self, pod: Pod) -> None:
        shape = self._view.shape_of(pod) if _has_own_claims(pod) else ""
        known = self._need_node.get(shape)
        if known is not None:
            # The trial only fills up: what did not fit a moment ago does not fit now.
            told = Waiting(ObjectKey.of(pod), known.reason, needs_node=True)
            has_room = False
        else:
            told, has_room = self._help(pod)
            if told.needs_node and not has_room and shape:
                self._need_node[shape] = told
        self.patience.note(pod, has_room)
        self.waiting.append(told)

    def _help(self, pod: Pod) -> tuple[Waiting, bool]:
        """What is to be said of a pod, and whether there is room for it by all that is known here."""
        view, key = self._view, ObjectKey.of(pod)
        if pod.is_gated:
            return Waiting(key, f"held back by {', '.join(pod.gates)}"), False
        if problem := view.snapshot.general_problem(pod):
            # Often its claims are yet to be made, or seen; no node would help.
            return Waiting(key, problem), False
        if (kept_by := self._taken_over(pod)) is not None:
            return Waiting(key, f"takes over what {kept_by} keeps on node {kept_by.node_name}", has_way=True), True
        failed_fits = view.known.failed_fits_of(pod)
        where = self._place(pod, failed_fits)
        if where and not (self.patience.is_over(pod) and wants_devices(pod) and self.patience.may_yield(pod)):
            return self._told_of_room(pod, where), True
        if self.patience.has_way(pod):
            return self._told_of_room(pod, "", "placeholders have just made way for it"), True
        way = self._way_elsewhere(pod) if where else self._way(pod, failed_fits)
        if way is not None and wants_devices(pod) and not self.patience.may_yield(pod):
            return self._told_of_room(pod, way.node), True
        if way is not None:
            return self._make_way(pod, way), True
        if where:
            return self._told_of_room(pod, where), True
        if node := self._once_ready(pod):
            return Waiting(key, f"node {node} has room and is being made ready"), False
        return Waiting(key, "does not fit on any node, even without placeholders", needs_node=True), False

    def _taken_over(self, pod: Pod) -> Pod | None:
        """The placeholder whose claims a pod takes over, once the pod has its place: beside it, or in its stead."""
        view, snapshot = self._view, self._view.snapshot
        for key in (ObjectKey(pod.namespace, each.claim or "") for each in pod.claims):
            for keeper in view.pods_naming(key):
                name, node = ObjectKey.of(keeper), keeper.node_name
                # Another pod may have been found to take it over.
                if not node or name not in view.known.placeholders or name not in snapshot.pods:
                    continue
                if snapshot.schedule(pod, node).fits:
                    return keeper
                snapshot.fork()
                snapshot.remove_pod(name)
                if snapshot.schedule(pod, node).fits:
                    snapshot.commit()
                    return keeper
                snapshot.revert()
        return None

    def _place(self, pod: Pod, failed_fits: FailedFits) -> str:
        """Give a pod its place if it fits; the node. Where the scheduler leaves a pod out, others have room."""
        if not self.patience.is_over(pod):
            return self._view.snapshot.place_quickly(pod, failed_fits.of_node)
        with self._view.snapshot.trial():
            return self._view.snapshot.place_quickly(pod, failed_fits.of_node)

    def _way(self, pod: Pod, failed_fits: FailedFits) -> Way | None:
        """Who is to make way for a pod that does not fit; where nobody has done so in vain, if possible."""
        # What was promised to it without a claim, it takes over by its making way.
        promised = [each for each in self._view.placeholders.values() if each.is_promised_to(pod)]
        promised += self._forsaken.values()
        if promised and (way := self._way_among(promised, pod)) is not None:
            return way
        free = [*self._free.values(), *promised]
        tried = self.patience.tried(pod)
        if tried and (way := self._way_among([each for each in free if each.node not in tried], pod)) is not None:
            return way
        return self._way_among(free, pod, failed_fits if not promised else None)

    def _way_elsewhere(self, pod: Pod) -> Way | None:
        """Who could make way for a pod that the scheduler does not place where there is room."""
        snapshot, tried = self._view.snapshot, self.patience.tried(pod)
        nodes = {each.node for each in self._free.values()} - tried
        others = {name for name in nodes if not snapshot.fits_on(pod, name, explain=False).fits}
        return self._way_among([each for each in self._free.values() if each.node in others], pod)

    def _way_among(
        self, placeholders: Iterable[Placeholder], pod: Pod, failed_fits: FailedFits | None = None
    ) -> Way | None:
        return find_way(self._view.snapshot, pod, placeholders, self._busyness, failed_fits)

    def _told_of_room(self, pod: Pod, node: str, done: str = "") -> Waiting:
        """Of a pod for which there is room; what the scheduler says, once it had its time.

        Parameters
        ----------
        node
            Where there is room, or is when placeholders make way; empty if they have.
        done
            What is done about it.
        """
        key, has_way = ObjectKey.of(pod), bool(done) or self.patience.has_way(pod)
        where = f"on node {node}" if node else "where placeholders made way for it"
        if not self.patience.is_over(pod):
            return Waiting(key, done or f"fits {where}", has_way=has_way)
        said = self.patience.scheduler_says(pod)
        if not said:
            return Waiting(key, done or f"fits {where}, and the scheduler has not come to it yet", has_way=has_way)
        reason = f"should fit {where}, and the scheduler says: {said}"
        return Waiting(key, reason, needs_node=True, has_way=has_way)

    def _make_way(self, pod: Pod, way: Way) -> Waiting:
        """Let placeholders make way for a pod."""
        if wants_devices(pod):
            way = replace(way, rivals=_rivals(self._view, way, self._pending))
        if not self.patience.is_over(pod):
            self._take(pod, way)
        victims = ", ".join(str(each.pod) for each in way.placeholders)
        if not wants_devices(pod):
            told = self._told_of_room(pod, way.node, f"the scheduler preempts {victims} for it on node {way.node}")
            return replace(told, has_way=False)
        done = f"{victims} made way for it on node {way.node}"
        key, mark = ObjectKey.of(pod), self.patience.note_yield(pod, way.node)
        self.actions.append(LabelPod(key, pod.uid, names.YIELDED_AT, mark.label, done))
        for each in way.placeholders:
            self._free.pop(each.key, None)
            self._forsaken.pop(each.key, None)
            reason = f"{pod} fits on node {way.node} without it"
            self.actions.append(EndPlaceholder(each.key, each.pod.uid, Cause.YIELD, reason, key))
        for each in way.rivals:
            reason = f"would take what becomes free on node {way.node} for {pod}"
            self.actions.append(EndPlaceholder(each.key, each.pod.uid, Cause.YIELD, reason, key))
        return self._told_of_room(pod, way.node, done)

    def _take(self, pod: Pod, way: Way) -> None:
        """Give a pod its place in the trial."""
        for each in way.placeholders:
            self._view.snapshot.remove_pod(each.key)
        self._view.snapshot.schedule(pod, way.node)
        for each in way.placeholders:
            self._free.pop(each.key, None)
            self._forsaken.pop(each.key, None)

    def _once_ready(self, pod: Pod) -> str:
        """The node that has room for a pod and is only not ready for users yet; the pod has its place there then."""
        later = without_label(pod, names.IMAGES_READY)
        if later is pod:
            return ""
        failed_fits = self._view.known.failed_fits_once_ready(pod)
        if where := self._view.snapshot.place_quickly(later, failed_fits.of_node):
            return where
        way = find_way(self._view.snapshot, later, self._free.values(), self._busyness, failed_fits)
        if way is None:
            return ""
        self._take(later, way)
        return way.node


def _rivals(view: View, way: Way, pending: dict[ObjectKey, Placeholder]) -> tuple[Placeholder, ...]:
    """Placeholders without a node that would fit once others have made way; they are pending no longer."""
    fits: dict[str, bool] = {}
    with view.snapshot.trial():
        for each in way.placeholders:
            view.snapshot.remove_pod(each.key)
        for each in pending.values():
            if each.shape not in fits:
                fits[each.shape] = surely_fits(view.snapshot, each.pod, way.node)
    found = tuple(each for each in pending.values() if fits[each.shape])
    for each in found:
        del pending[each.key]
    return found


def _has_own_claims(pod: Pod) -> bool:
    """Whether its shape is all that decides about a pod: it names no claims that are there already."""
    return all(each.template is not None for each in pod.claims)


def find_way(
    snapshot: Snapshot,
    pod: Pod,
    placeholders: Iterable[Placeholder],
    busyness: NodesBusyness,
    failed_fits: FailedFits | None = None,
) -> Way | None:
    """The node where the fewest placeholders must go so that a pod fits; None if it fits nowhere even then.

    Among equally few, cold nodes' placeholders go first, and the pod goes to the node that is truly busiest.

    Parameters
    ----------
    failed_fits
        Of this very pod, where it was looked for before.
    """
    refused = failed_fits.without_placeholders if failed_fits is not None and _has_own_claims(pod) else {}
    by_node: dict[str, list[Placeholder]] = {}
    for placeholder in placeholders:
        by_node.setdefault(placeholder.node, []).append(placeholder)
    # Elsewhere than where its claims are nobody need be tried out.
    has_claims_at = snapshot.has_claims_at(pod)
    token_of = snapshot.tokens(pod)
    best: tuple[tuple[int, Fraction, int, str], Way] | None = None
    for name in sorted(by_node):
        state = snapshot.nodes.get(name)
        if state is None or not allows(state, pod) or not has_claims_at(name):
            continue
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

"""Preemption of placeholders for a user's pod that does not fit: the fewest, where that surely helps.

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
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, LabelPod, delete_placeholder
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster_index import FailedFits
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption_backoff import PendingRecord, PreemptionBackoff
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
from dra_spawner.simulator.snapshot import Snapshot, Undecided

#: Sets of placeholders up to this size are tried from the smallest on; larger ones are made smaller one by one.
_MOST_TRIED_TOGETHER = 2


@dataclass(frozen=True, slots=True)
class Preemption:
    """How a pod can be made to fit.

    Attributes
    ----------
    node
        Where.
    placeholders
        Those that must go, the fewest found.
    nominated_pods
        Others that wait for a node and would take what becomes free: the scheduler may come to them first.
    """

    node: str
    placeholders: tuple[Placeholder, ...]
    nominated_pods: tuple[Placeholder, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingUser:
    """A user's pod that waits, and what is done about it.

    Attributes
    ----------
    pod
        The pod.
    reason
        For people: why it waits, or what was done.
    needs_node
        Whether nothing helps but another node.
    has_preemption
        Whether placeholders made way for it; until it has its place, nobody else may be put there.
    unknown
        Why it is not known whether it fits; None if that is known.
    """

    pod: ObjectKey
    reason: str
    needs_node: bool = False
    has_preemption: bool = False
    unknown: Unknown | None = None


def decide_preemptions(
    view: View, policy: Policy, busyness: NodesBusyness, before: Mapping[str, PendingRecord]
) -> tuple[tuple[Action, ...], tuple[PendingUser, ...], Mapping[str, PendingRecord]]:
    """Which placeholders are deleted for pending users' pods, and what is to be said of each of these pods.

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
        yields = _Preemptions(view, policy, busyness, PreemptionBackoff(view, policy.grace, before))
        for pod in view.searches.in_turn(view.pending_users):
            with view.searches.charged_to(pod):
                yields.try_to_look_at(pod)
    return tuple(yields.actions), tuple(yields.waiting), yields.preemption_backoff.pending_records


class _Preemptions:
    """Looks at one pod after the other, within a trial; each pod that fits has its place there."""

    def __init__(
        self, view: View, policy: Policy, busyness: NodesBusyness, preemption_backoff: PreemptionBackoff
    ) -> None:
        self._view = view
        self._policy = policy
        self._busyness = busyness
        self._free = {key: each for key, each in view.placeholders.items() if each.is_free}
        # A pod that came without its reserved claims may have their place, as may others.
        self._unused_reservations = {
            key: each for key, each in view.placeholders.items() if view.reservation_unused(each)
        }
        self._pending = {key: each for key, each in view.placeholders.items() if each.is_pending}
        self._need_node: dict[str, PendingUser] = {}
        self._undecided: dict[str, Undecided] = {}
        self.preemption_backoff = preemption_backoff
        self.actions: list[Action] = []
        self.waiting: list[PendingUser] = []

    def try_to_look_at(self, pod: Pod) -> None:
        """Find out what is to be said of a pod and done for it, unless that takes too long: then nothing is done."""
        snapshot = self._view.snapshot
        snapshot.fork()
        try:
            self._look_at(pod)
        except (SearchStopped, Undecided) as stopped:
            snapshot.revert()
            self.preemption_backoff.keep(pod)
            unknown, reason = why_unknown(pod, stopped)
            # Where placeholders made way for it in an earlier round, nobody else may be put yet.
            has_preemption = self.preemption_backoff.has_preemption(pod)
            self.waiting.append(PendingUser(ObjectKey.of(pod), reason, has_preemption=has_preemption, unknown=unknown))
            if isinstance(stopped, Undecided) and stopped.verdict.has_unknown_devices:
                self._undecided[self._own_shape(pod)] = stopped
        else:
            snapshot.commit()

    def _look_at(self, pod: Pod) -> None:
        shape = self._own_shape(pod)
        if shape and shape in self._undecided:
            raise self._undecided[shape]
        known = self._need_node.get(shape)
        if known is not None:
            # The trial only fills up: what did not fit a moment ago does not fit now.
            told = PendingUser(ObjectKey.of(pod), known.reason, needs_node=True)
            has_room = False
        else:
            told, has_room = self._help(pod)
            if told.needs_node and not has_room and shape:
                self._need_node[shape] = told
        self.preemption_backoff.note(pod, has_room)
        self.waiting.append(told)

    def _own_shape(self, pod: Pod) -> str:
        """The shape of a pod if that is all that decides about it; empty if it is not."""
        return self._view.shape_of(pod) if _has_own_claims(pod) else ""

    def _help(self, pod: Pod) -> tuple[PendingUser, bool]:
        """What is to be said of a pod, and whether there is room for it by all that is known here."""
        view, key = self._view, ObjectKey.of(pod)
        if pod.is_gated:
            return PendingUser(key, f"held back by {', '.join(pod.gates)}"), False
        if problem := view.snapshot.general_problem(pod):
            # Often its claims are yet to be made, or seen; no node would help.
            return PendingUser(key, problem), False
        if (kept_by := self._taken_over(pod)) is not None:
            return PendingUser(
                key, f"takes over what {kept_by} keeps on node {kept_by.node_name}", has_preemption=True
            ), True
        failed_fits = view.index.failed_fits_of(pod)
        where = self._place(pod, failed_fits)
        if where and not (
            self.preemption_backoff.is_over(pod) and wants_devices(pod) and self.preemption_backoff.may_preempt(pod)
        ):
            return self._told_of_room(pod, where), True
        if self.preemption_backoff.has_preemption(pod):
            return self._told_of_room(pod, "", "placeholders have just made way for it"), True
        preemption = self._preemption_elsewhere(pod) if where else self._preemption(pod, failed_fits)
        if preemption is not None and wants_devices(pod) and not self.preemption_backoff.may_preempt(pod):
            return self._told_of_room(pod, preemption.node), True
        if preemption is not None:
            return self._preempt(pod, preemption), True
        if where:
            return self._told_of_room(pod, where), True
        if node := self._once_ready(pod):
            return PendingUser(key, f"node {node} has room and is being made ready"), False
        return PendingUser(key, "does not fit on any node, even without placeholders", needs_node=True), False

    def _taken_over(self, pod: Pod) -> Pod | None:
        """The placeholder whose claims a pod takes over, once the pod has its place: beside it, or in its stead."""
        view, snapshot = self._view, self._view.snapshot
        for key in (ObjectKey(pod.namespace, each.claim or "") for each in pod.claims):
            for placeholder in view.pods_naming(key):
                name, node = ObjectKey.of(placeholder), placeholder.node_name
                # Another pod may have been found to take it over.
                if not node or name not in view.index.placeholders or name not in snapshot.pods:
                    continue
                if snapshot.schedule(pod, node).fits:
                    return placeholder
                snapshot.fork()
                snapshot.remove_pod(name)
                if snapshot.schedule(pod, node).fits:
                    snapshot.commit()
                    return placeholder
                snapshot.revert()
        return None

    def _place(self, pod: Pod, failed_fits: FailedFits) -> str:
        """Give a pod its place if it fits; the node. Where the scheduler leaves a pod out, others have room."""
        if not self.preemption_backoff.is_over(pod):
            return self._view.snapshot.place_quickly(pod, failed_fits.of_node)
        with self._view.snapshot.trial():
            return self._view.snapshot.place_quickly(pod, failed_fits.of_node)

    def _preemption(self, pod: Pod, failed_fits: FailedFits) -> Preemption | None:
        """Who is to make way for a pod that does not fit; where nobody has done so in vain, if possible."""
        # A reserved placeholder without claims is taken over by preemption.
        reserved = [each for each in self._view.placeholders.values() if each.is_reserved_for(pod)]
        reserved += self._unused_reservations.values()
        if reserved and (preemption := self._preemption_among(reserved, pod)) is not None:
            return preemption
        free = [*self._free.values(), *reserved]
        tried = self.preemption_backoff.tried(pod)
        if (
            tried
            and (preemption := self._preemption_among([each for each in free if each.node not in tried], pod))
            is not None
        ):
            return preemption
        return self._preemption_among(free, pod, failed_fits if not reserved else None)

    def _preemption_elsewhere(self, pod: Pod) -> Preemption | None:
        """Who could make way for a pod that the scheduler does not place where there is room."""
        snapshot, tried = self._view.snapshot, self.preemption_backoff.tried(pod)
        nodes = {each.node for each in self._free.values()} - tried
        others = {name for name in nodes if not snapshot.fits_on(pod, name, explain=False).fits}
        return self._preemption_among([each for each in self._free.values() if each.node in others], pod)

    def _preemption_among(
        self, placeholders: Iterable[Placeholder], pod: Pod, failed_fits: FailedFits | None = None
    ) -> Preemption | None:
        return find_preemption(self._view.snapshot, pod, placeholders, self._busyness, failed_fits)

    def _told_of_room(self, pod: Pod, node: str, done: str = "") -> PendingUser:
        """Of a pod for which there is room; what the scheduler says, once it had its time.

        Parameters
        ----------
        node
            Where there is room, or is when placeholders make way; empty if they have.
        done
            What is done about it.
        """
        key, has_preemption = ObjectKey.of(pod), bool(done) or self.preemption_backoff.has_preemption(pod)
        where = f"on node {node}" if node else "where placeholders made way for it"
        if not self.preemption_backoff.is_over(pod):
            return PendingUser(key, done or f"fits {where}", has_preemption=has_preemption)
        said = self.preemption_backoff.scheduler_says(pod)
        if not said:
            return PendingUser(
                key, done or f"fits {where}, and the scheduler has not come to it yet", has_preemption=has_preemption
            )
        reason = f"should fit {where}, and the scheduler says: {said}"
        return PendingUser(key, reason, needs_node=True, has_preemption=has_preemption)

    def _preempt(self, pod: Pod, preemption: Preemption) -> PendingUser:
        """Let placeholders make way for a pod."""
        if wants_devices(pod):
            preemption = replace(preemption, nominated_pods=_nominated_pods(self._view, preemption, self._pending))
        if not self.preemption_backoff.is_over(pod):
            self._take(pod, preemption)
        victims = ", ".join(str(each.pod) for each in preemption.placeholders)
        if not wants_devices(pod):
            told = self._told_of_room(
                pod, preemption.node, f"the scheduler preempts {victims} for it on node {preemption.node}"
            )
            return replace(told, has_preemption=False)
        done = f"{victims} made way for it on node {preemption.node}"
        key, mark = ObjectKey.of(pod), self.preemption_backoff.note_preemption(pod, preemption.node)
        self.actions.append(LabelPod(key, pod.uid, names.PREEMPTED_AT, mark.label, done))
        for each in preemption.placeholders:
            self._free.pop(each.key, None)
            self._unused_reservations.pop(each.key, None)
            reason = f"{pod} fits on node {preemption.node} without it"
            self.actions.append(delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason, key))
        for each in preemption.nominated_pods:
            reason = f"would take what becomes free on node {preemption.node} for {pod}"
            self.actions.append(delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason, key))
        return self._told_of_room(pod, preemption.node, done)

    def _take(self, pod: Pod, preemption: Preemption) -> None:
        """Give a pod its place in the trial."""
        for each in preemption.placeholders:
            self._view.snapshot.remove_pod(each.key)
        self._view.snapshot.schedule(pod, preemption.node)
        for each in preemption.placeholders:
            self._free.pop(each.key, None)
            self._unused_reservations.pop(each.key, None)

    def _once_ready(self, pod: Pod) -> str:
        """The node that has room for a pod and is only not ready for users yet; the pod has its place there then."""
        later = without_label(pod, names.IMAGES_READY)
        if later is pod:
            return ""
        failed_fits = self._view.index.failed_fits_once_ready(pod)
        if where := self._view.snapshot.place_quickly(later, failed_fits.of_node):
            return where
        preemption = find_preemption(self._view.snapshot, later, self._free.values(), self._busyness, failed_fits)
        if preemption is None:
            return ""
        self._take(later, preemption)
        return preemption.node


def _nominated_pods(
    view: View, preemption: Preemption, pending: dict[ObjectKey, Placeholder]
) -> tuple[Placeholder, ...]:
    """Placeholders without a node that would fit once others have made way; they are pending no longer."""
    fits: dict[str, bool] = {}
    with view.snapshot.trial():
        for each in preemption.placeholders:
            view.snapshot.remove_pod(each.key)
        for each in pending.values():
            if each.shape not in fits:
                fits[each.shape] = surely_fits(view.snapshot, each.pod, preemption.node)
    found = tuple(each for each in pending.values() if fits[each.shape])
    for each in found:
        del pending[each.key]
    return found


def _has_own_claims(pod: Pod) -> bool:
    """Whether its shape is all that decides about a pod: it names no claims that are there already."""
    return all(each.template is not None for each in pod.claims)


def find_preemption(
    snapshot: Snapshot,
    pod: Pod,
    placeholders: Iterable[Placeholder],
    busyness: NodesBusyness,
    failed_fits: FailedFits | None = None,
) -> Preemption | None:
    """The node where the fewest placeholders must go so that a pod fits; None if it fits nowhere even then.

    Among equally few, cold nodes' placeholders go first, and the pod goes to the node that is truly busiest.

    Parameters
    ----------
    failed_fits
        Of this very pod, where it was looked for before.

    Raises
    ------
    Undecided
        Where it is not known whether the devices of a node would do.
    """
    refused = failed_fits.without_placeholders if failed_fits is not None and _has_own_claims(pod) else {}
    by_node: dict[str, list[Placeholder]] = {}
    for placeholder in placeholders:
        by_node.setdefault(placeholder.node, []).append(placeholder)
    # Elsewhere than where its claims are nobody need be tried out.
    has_claims_at = snapshot.has_claims_at(pod)
    token_of = snapshot.tokens(pod)
    best: tuple[tuple[int, Fraction, int, str], Preemption] | None = None
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
            best = (order, Preemption(name, fewest))
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
        answer = snapshot.fits_on(pod, node, explain=False)
        if answer.verdict.has_unknown_devices:
            raise Undecided(answer.verdict)
        return answer.fits

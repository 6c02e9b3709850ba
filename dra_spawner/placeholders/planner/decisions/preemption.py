"""Preemption of placeholders for a pending user's pod: the fewest, and only where the pod surely fits then.

kube-scheduler preempts for CPU and memory, but never for a device (KEP-5690 plans it). Preemption here is decided by
simulation, and only for pods that want devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, LabelPod, delete_placeholder
from dra_spawner.placeholders.planner.amounts.preemption_backoff import PreemptionBackoff
from dra_spawner.placeholders.planner.cluster.allowed_nodes import allows, is_drained
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.closed_nodes import drained_for
from dra_spawner.placeholders.planner.cluster.cluster_index import FitMemos
from dra_spawner.placeholders.planner.cluster.undecided import surely_fits, why_unknown
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, newest_first, wants_devices
from dra_spawner.placeholders.planner.round import PendingUser, Round
from dra_spawner.placeholders.planner.targets.node_conditions import without_label
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, Undecided

#: Sets of up to this size are tried from the smallest on; a larger set is reduced one by one.
_MAX_TRIED_TOGETHER = 2


@dataclass(frozen=True, slots=True)
class Preemption:
    """Placeholders to preempt so that a pod fits.

    Attributes
    ----------
    placeholders
        The victims, the fewest found.
    nominated_pods
        Pending placeholders that would take the freed capacity, as the scheduler may try them first.
    """

    node: str
    placeholders: tuple[Placeholder, ...]
    nominated_pods: tuple[Placeholder, ...] = ()


NO_CAPACITY: Final = "no node has enough free, even without placeholders"
"""Reason of a pod that fits on no present node. Which capacity is lacking is looked for when somebody asks."""


def decide_preemptions(round_: Round) -> list[Action]:
    """Preempt placeholders for pending users' pods, and find the cause of each pending pod."""
    view = round_.view
    backoff = PreemptionBackoff(view, round_.policy.grace, round_.state.pending_records)
    with view.snapshot.trial():
        preemptions = _Preemptions(view, round_.policy, round_.busyness, backoff)
        # Who is over a budget comes last, as far as that is decided here.
        in_order = sorted(view.pending_users, key=lambda pod: names.BEHIND in pod.labels)
        for pod in round_.searches.in_turn(in_order):
            with round_.searches.charged_to(pod):
                preemptions.try_to_look_at(pod)
    round_.pending = tuple(preemptions.pending)
    round_.remember(pending_records=backoff.pending_records)
    return preemptions.actions


class _Preemptions:
    """Decides pod by pod within a trial, in which pods that fit are placed."""

    def __init__(
        self, view: View, policy: Policy, busyness: NodesBusyness, preemption_backoff: PreemptionBackoff
    ) -> None:
        self._view = view
        self._policy = policy
        self._busyness = busyness
        self._free = {
            key: each for key, each in view.placeholders.items() if each.is_free and each.node not in policy.drained
        }
        # Pods that came without their reserved claims may preempt these placeholders, as others may.
        self._unused_reservations = {
            key: each for key, each in view.placeholders.items() if view.reservation_unused(each)
        }
        self._pending = {key: each for key, each in view.placeholders.items() if each.is_pending}
        self._need_node: dict[str, PendingUser] = {}
        self._undecided: dict[str, Undecided] = {}
        self.preemption_backoff = preemption_backoff
        self.actions: list[Action] = []
        self.pending: list[PendingUser] = []

    def try_to_look_at(self, pod: Pod) -> None:
        """Decide about one pod, unless the search takes too long: then do nothing."""
        snapshot = self._view.snapshot
        snapshot.fork()
        try:
            self._look_at(pod)
        except (SearchStopped, Undecided) as stopped:
            snapshot.revert()
            self.preemption_backoff.keep(pod)
            unknown, reason = why_unknown(pod, stopped)
            # Capacity that was freed for it in an earlier round must stay free.
            has_preemption = self.preemption_backoff.has_preemption(pod)
            self.pending.append(PendingUser(ObjectKey.of(pod), reason, has_preemption=has_preemption, unknown=unknown))
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
            # The trial only fills up: an equal pod does not fit later either.
            told = PendingUser(ObjectKey.of(pod), known.reason, needs_node=True)
            fits = False
        else:
            told, fits = self._help(pod)
            if told.needs_node and not fits and shape:
                self._need_node[shape] = told
        self.preemption_backoff.note(pod, fits)
        self.pending.append(told)

    def _own_shape(self, pod: Pod) -> str:
        """The shape of a pod if only the shape decides; else empty."""
        return self._view.shape_of(pod) if _has_own_claims(pod) else ""

    def _help(self, pod: Pod) -> tuple[PendingUser, bool]:
        """The pod with its cause, and whether it fits by the model."""
        view, key = self._view, ObjectKey.of(pod)
        if pod.is_gated:
            return PendingUser(key, f"held back by {', '.join(pod.gates)}"), False
        if problem := view.snapshot.general_problem(pod):
            # Often its claims are not there yet; a node would not help.
            return PendingUser(key, problem), False
        if (placeholder := self._handed_over(pod)) is not None:
            return PendingUser(
                key, f"gets the devices of {placeholder} on node {placeholder.node_name}", has_preemption=True
            ), True
        memos = view.index.fit_memos_of(pod)
        where = self._place(pod, memos)
        if where and not (
            self.preemption_backoff.is_over(pod) and wants_devices(pod) and self.preemption_backoff.may_preempt(pod)
        ):
            return self._fitting(pod, where), True
        if self.preemption_backoff.has_preemption(pod):
            return self._fitting(pod, "", "placeholders were just preempted for it"), True
        preemption = self._preemption_elsewhere(pod) if where else self._preemption(pod, memos)
        if preemption is not None and wants_devices(pod) and not self.preemption_backoff.may_preempt(pod):
            return self._fitting(pod, preemption.node), True
        if preemption is not None:
            return self._preempt(pod, preemption), True
        if where:
            return self._fitting(pod, where), True
        if node := self._once_ready(pod):
            return PendingUser(key, f"fits on node {node}, which is not ready for users yet"), False
        if (drained := drained_for(view, self._policy, pod)) is not None:
            return PendingUser(key, drained.reason, needs_node=True), False
        return PendingUser(key, NO_CAPACITY, needs_node=True), False

    def _handed_over(self, pod: Pod) -> Pod | None:
        """The placeholder whose claims a pod names, if the pod fits beside or instead of it; places the pod."""
        view, snapshot = self._view, self._view.snapshot
        for key in (ObjectKey(pod.namespace, each.claim or "") for each in pod.claims):
            for placeholder in view.pods_naming(key):
                name, node = ObjectKey.of(placeholder), placeholder.node_name
                # Another pod may have been placed for it already.
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

    def _place(self, pod: Pod, memos: FitMemos) -> str:
        """Place a pod if it fits; its node. A pod that the scheduler does not place takes no capacity from others."""
        if not self.preemption_backoff.is_over(pod):
            return self._view.snapshot.place_quickly(pod, memos.at_once)
        with self._view.snapshot.trial():
            return self._view.snapshot.place_quickly(pod, memos.at_once)

    def _preemption(self, pod: Pod, memos: FitMemos) -> Preemption | None:
        """The preemption for a pod that does not fit, on nodes that were not tried in vain if possible."""
        # A reserved placeholder without claims is preempted for its pod.
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
        return self._preemption_among(free, pod, memos.without_placeholders if not reserved else None)

    def _preemption_elsewhere(self, pod: Pod) -> Preemption | None:
        """A preemption on other nodes, for a pod that the scheduler does not place where it should fit."""
        snapshot, tried = self._view.snapshot, self.preemption_backoff.tried(pod)
        nodes = {each.node for each in self._free.values()} - tried
        others = {name for name in nodes if not snapshot.fits_on(pod, name, explain=False).fits}
        return self._preemption_among([each for each in self._free.values() if each.node in others], pod)

    def _preemption_among(
        self, placeholders: Iterable[Placeholder], pod: Pod, failed_fits: FailedFits | None = None
    ) -> Preemption | None:
        if wants_devices(pod) and self._view.doubtful:
            # A device that is freed there may not be free.
            placeholders = [each for each in placeholders if each.node not in self._view.doubtful]
        return find_preemption(self._view.snapshot, pod, placeholders, self._busyness, failed_fits)

    def _fitting(self, pod: Pod, node: str, done: str = "") -> PendingUser:
        """A pod that fits, with what the scheduler reports after its grace.

        Parameters
        ----------
        node
            Where it fits now or after preemption; empty if that was done before.
        """
        key, has_preemption = ObjectKey.of(pod), bool(done) or self.preemption_backoff.has_preemption(pod)
        where = f"on node {node}" if node else "where placeholders were preempted for it"
        if not self.preemption_backoff.is_over(pod):
            return PendingUser(key, done or f"fits {where}", has_preemption=has_preemption)
        said = self.preemption_backoff.scheduler_message(pod)
        if not said:
            return PendingUser(
                key, done or f"fits {where}, but the scheduler has not tried it yet", has_preemption=has_preemption
            )
        reason = f"should fit {where}, but the scheduler says: {said}"
        return PendingUser(key, reason, needs_node=True, has_preemption=has_preemption)

    def _preempt(self, pod: Pod, preemption: Preemption) -> PendingUser:
        if wants_devices(pod):
            preemption = replace(preemption, nominated_pods=_nominated_pods(self._view, preemption, self._pending))
        if not self.preemption_backoff.is_over(pod):
            self._take(pod, preemption)
        victims = ", ".join(str(each.pod) for each in preemption.placeholders)
        if not wants_devices(pod):
            told = self._fitting(
                pod, preemption.node, f"the scheduler preempts {victims} for it on node {preemption.node}"
            )
            return replace(told, has_preemption=False)
        done = f"{victims} preempted for it on node {preemption.node}"
        key, mark = ObjectKey.of(pod), self.preemption_backoff.note_preemption(pod, preemption.node)
        self.actions.append(LabelPod(key, pod.uid, names.PREEMPTED_AT, mark.label, done))
        for each in preemption.placeholders:
            self._free.pop(each.key, None)
            self._unused_reservations.pop(each.key, None)
            reason = f"{pod} fits on node {preemption.node} without it"
            self.actions.append(delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason, key))
        for each in preemption.nominated_pods:
            reason = f"it would take the capacity freed for {pod} on node {preemption.node}"
            self.actions.append(delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason, key))
        return self._fitting(pod, preemption.node, done)

    def _take(self, pod: Pod, preemption: Preemption) -> None:
        """Place a pod in the trial."""
        for each in preemption.placeholders:
            self._view.snapshot.remove_pod(each.key)
        self._view.snapshot.schedule(pod, preemption.node)
        for each in preemption.placeholders:
            self._free.pop(each.key, None)
            self._unused_reservations.pop(each.key, None)

    def _once_ready(self, pod: Pod) -> str:
        """The node where a pod fits as soon as the node is ready for users; the pod is placed there."""
        later = without_label(pod, names.IMAGES_READY)
        if later is pod:
            return ""
        memos = self._view.index.fit_memos_once_ready(pod)
        if where := self._view.snapshot.place_quickly(later, memos.at_once):
            return where
        preemption = find_preemption(
            self._view.snapshot, later, self._free.values(), self._busyness, memos.without_placeholders
        )
        if preemption is None:
            return ""
        self._take(later, preemption)
        return preemption.node


def _nominated_pods(
    view: View, preemption: Preemption, pending: dict[ObjectKey, Placeholder]
) -> tuple[Placeholder, ...]:
    """Pending placeholders that would fit after the preemption; they are removed from the pending ones."""
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
    """Whether only its shape decides about a pod: it names no existing claims."""
    return all(each.template is not None for each in pod.claims)


def find_preemption(
    snapshot: Snapshot,
    pod: Pod,
    placeholders: Iterable[Placeholder],
    busyness: NodesBusyness,
    failed_fits: FailedFits | None = None,
) -> Preemption | None:
    """The preemption with the fewest victims; None if the pod fits nowhere even without placeholders.

    With equally few, placeholders of cold nodes go first, and the pod goes to the busiest node.

    Parameters
    ----------
    failed_fits
        Earlier ones of this pod, without all placeholders of a node. They do not help a pod that names existing claims.

    Raises
    ------
    Undecided
        If it is not known whether a node's devices suffice.
    """
    if failed_fits is None or not _has_own_claims(pod):
        failed_fits = FailedFits()
    placeholders, fitting = tuple(placeholders), snapshot.fitting(pod)
    claims, logs = fitting.number_of_claims(), (snapshot.state.nodes.log, snapshot.state.devices.changes)
    failing = set(failed_fits.unchanged((claims, placeholders), *logs)) if claims is not None else set()
    by_node: dict[str, list[Placeholder]] = {}
    for placeholder in placeholders:
        by_node.setdefault(placeholder.node, []).append(placeholder)
    best: tuple[tuple[int, Fraction, int, str], Preemption] | None = None
    for name in sorted(by_node.keys() - failing):
        state, held = snapshot.nodes.get(name), by_node[name]
        # Nodes without its claims need no try.
        if state is None or not fitting.has_claims_at(name):
            continue
        token = fitting.token(name)
        inputs = (token, held) if token is not None else None
        if failed_fits.has_failed(name, inputs):
            failing.add(name)
            continue
        if is_drained(state) or not allows(state, pod):
            failed_fits.note(name, inputs)
            failing.add(name)
            continue
        if best is not None and len(best[1].placeholders) == 1 and not _is_busier(busyness, name, best[1].node):
            continue  # the minimum; only a busier node would be better
        fewest = _fewest(snapshot, pod, name, held)
        if fewest is None:
            failed_fits.note(name, inputs)
            failing.add(name)
            continue
        figure, users = busyness.of(name).rank
        order = (len(fewest), -figure, -users, name)
        if best is None or order < best[0]:
            best = (order, Preemption(name, fewest))
    if claims is not None:
        failed_fits.note_failing(failing, (claims, placeholders), *logs)
    return best[1] if best is not None else None


def _is_busier(busyness: NodesBusyness, name: str, other: str) -> bool:
    return busyness.of(name).rank > busyness.of(other).rank


def _fewest(snapshot: Snapshot, pod: Pod, node: str, held: Sequence[Placeholder]) -> tuple[Placeholder, ...] | None:
    """The fewest victims on a node; None if the pod does not fit without any placeholder."""
    ordered = sorted(held, key=_cheapest_first)
    if not _fits_without(snapshot, pod, node, ordered):
        return None
    for chosen in _small_sets(ordered):
        if _fits_without(snapshot, pod, node, chosen):
            return chosen
    needed = list(ordered)
    for placeholder in reversed(ordered):  # spare the most expensive ones first
        rest = [each for each in needed if each is not placeholder]
        if _fits_without(snapshot, pod, node, rest):
            needed = rest
    return tuple(needed)


def _cheapest_first(placeholder: Placeholder) -> tuple[int, ...]:
    """Fewest claims first, then the newest."""
    return (len(placeholder.claims), *newest_first(placeholder))


def _small_sets(ordered: Sequence[Placeholder]) -> Iterator[tuple[Placeholder, ...]]:
    """Small sets of placeholders, the smallest first. Equal placeholders have different devices, so each is tried."""
    for size in range(1, min(_MAX_TRIED_TOGETHER, len(ordered)) + 1):
        yield from combinations(ordered, size)


def _fits_without(snapshot: Snapshot, pod: Pod, node: str, placeholders: Iterable[Placeholder]) -> bool:
    with snapshot.trial():
        for placeholder in placeholders:
            snapshot.remove_pod(placeholder.key)
        answer = snapshot.fits_on(pod, node, explain=False)
        if answer.verdict.has_unknown_devices:
            raise Undecided(answer.verdict)
        return answer.fits

"""Preempt placeholders for pending servers of other hubs.

Each service ends only its own placeholders, so a server of one hub could wait for a device that a placeholder of
another one has. Its own service comes first. No label is written on the server: the account has no right to it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.amounts.preemption_backoff import PreemptionRecord
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.pod_kinds import hub_of
from dra_spawner.placeholders.planner.cluster.undecided import surely_fits
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age, wants_devices
from dra_spawner.placeholders.planner.decisions.preemption import Preemption, find_preemption
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Undecided

#: Time that the server's own service has, and then each hub with placeholders, one after the other by name.
_TURN: Final = timedelta(seconds=5)
_MAX_TIMES: Final = 8


def decide_preemptions_for_others(round_: Round) -> list[DeletePlaceholder]:
    """Preempt placeholders for one server of another hub, where it surely fits then and nothing else helps it.

    Nothing is decided while placeholders end for other reasons, or while a kind is unknown.
    """
    view, policy = round_.view, round_.policy
    pending = view.pending_servers_of_others
    uids = {pod.uid for pod in pending}
    records = {uid: each for uid, each in round_.state.preempted_for_others.items() if uid in uids}
    round_.remember(preempted_for_others=records)
    if round_.ends or view.unknown_kinds or any(each.is_recent(view.now, policy.grace) for each in records.values()):
        return []
    free = [each for each in view.placeholders.values() if each.is_free]
    due = [pod for pod in pending if _is_due(view, policy, pod, records.get(pod.uid))]
    if not free or not due:
        return []
    with view.snapshot.trial():
        for pod in round_.searches.in_turn(due):
            with round_.searches.charged_to(pod):
                found = _preemption(view, pod, free, round_.busyness)
            if found is not None:
                times = records[pod.uid].times if pod.uid in records else 0
                record = PreemptionRecord(view.now, min(times + 1, _MAX_TIMES))
                round_.remember(preempted_for_others={**records, pod.uid: record})
                return _deletions(pod, found)
    return []


def _is_due(view: View, policy: Policy, pod: Pod, last: PreemptionRecord | None) -> bool:
    """Whether it is this hub's turn to help a pod."""
    if pod.is_gated or not wants_devices(pod):  # kube-scheduler preempts for CPU and memory itself
        return False
    if last is not None and view.now - last.at < last.waits(policy.grace):
        return False
    hubs = {hub_of(each) for each in view.other_placeholders if each.namespace != pod.namespace}
    return age(pod.created, view.now) >= _TURN * (1 + sum(hub < view.own_hub for hub in hubs))


def _preemption(view: View, pod: Pod, free: list[Placeholder], busyness: NodesBusyness) -> Preemption | None:
    """Placeholders without which a pod surely fits; None if it fits anyway soon, or if that does not help."""
    snapshot = view.snapshot
    try:
        if snapshot.general_problem(pod) or snapshot.place_quickly(pod, view.index.fit_memos_of(pod).at_once):
            return None
        if _fits_soon(view, pod):
            return None
        found = find_preemption(snapshot, pod, free, busyness)
        if found is None:
            return None
        with snapshot.trial():
            for each in found.placeholders:
                snapshot.remove_pod(each.key)
            if any(surely_fits(snapshot, each, found.node) for each in _placeholders_of_further_hubs(view, pod)):
                return None
            own = [each for each in view.placeholders.values() if each.is_pending]
            return replace(
                found, nominated_pods=tuple(each for each in own if surely_fits(snapshot, each.pod, found.node))
            )
    except (SearchStopped, Undecided):
        return None


def _fits_soon(view: View, pod: Pod) -> bool:
    """Whether a pod fits when terminating placeholders and the placeholders of its own hub are gone."""
    others = (each for each in view.other_placeholders if each.is_deleted or each.namespace == pod.namespace)
    with view.snapshot.trial():
        for each in (*others, *view.terminating):
            if each.node_name and ObjectKey.of(each) in view.snapshot.pods:
                view.snapshot.remove_pod(ObjectKey.of(each))
        return bool(view.snapshot.place_quickly(pod))


def _placeholders_of_further_hubs(view: View, pod: Pod) -> list[Pod]:
    """Pending placeholders of further hubs, which the scheduler may try first.

    Where a hub has a pending server itself, its service gives the capacity on to that server.
    """
    namespaces = {each.namespace for each in (pod, *view.pending_servers_of_others)}
    return [each for each in view.other_placeholders if not each.node_name and each.namespace not in namespaces]


def _deletions(pod: Pod, found: Preemption) -> list[DeletePlaceholder]:
    why = f"{pod}, a server of another hub, fits on node {found.node} without it"
    rival = f"it would take the capacity freed for {pod}, a server of another hub, on node {found.node}"
    return [
        delete_placeholder(each.pod, each.state, Cause.PREEMPTED, reason)
        for placeholders, reason in ((found.placeholders, why), (found.nominated_pods, rival))
        for each in placeholders
    ]

"""Draining of nodes by order, and emptying of nodes that users hardly need.

A node that the service *empties* by itself still takes servers if no other node fits them. One that a person *drains*
takes none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, LabelNode, delete_placeholder
from dra_spawner.placeholders.planner.amounts.planner_state import TrackedLabel
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled, is_ready_for_users
from dra_spawner.placeholders.planner.cluster.node_doubts import why_in_doubt
from dra_spawner.placeholders.planner.cluster.passing_devices import lasting_shape
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_server
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.node_conditions import drain_mark, without_label
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Undecided

#: Age at which a placeholder that fits is bound: the scheduler tries again after 10 s at most.
_PLACED_BY_THEN = timedelta(seconds=30)
#: Time between searches: a node needs minutes to become a candidate, and a search is slow with thousands of nodes.
_EMPTY_AGAIN = timedelta(seconds=5)
_MAX_TRIES = 3


def tracked_labels(view: View, label: str, before: Mapping[str, TrackedLabel] | None) -> dict[str, TrackedLabel]:
    """Nodes that have a label now; in the first round all labels count as this service's own."""
    labels = {}
    for name, state in view.nodes_labelled(label):
        value = state.node.labels[label]
        first = TrackedLabel(value, value) if before is None else TrackedLabel()
        labels[name] = (before or {}).get(name, first).now(value)
    return labels


def with_written(labels: Mapping[str, TrackedLabel], actions: Iterable[LabelNode]) -> dict[str, TrackedLabel]:
    """The same after this service has written labels."""
    written = {each.node: labels.get(each.node, TrackedLabel()).written(each.value) for each in actions}
    return {**labels, **written}


def decide_draining(round_: Round) -> list[LabelNode]:
    """Drain the nodes of orders, and choose nodes to empty so that the autoscaler removes them.

    A node with a user's server is never emptied.
    """
    view, policy = round_.view, round_.policy
    labels = tracked_labels(view, names.DRAINING, round_.state.draining_labels)
    actions = _decide_ordered_draining(view, policy, labels)
    spared = _decide_spared_servers(view, policy, actions)
    for name, state in view.nodes_labelled(names.DRAINING):
        if state.node.labels[names.DRAINING] == names.ORDERED or name in policy.drained:
            continue
        if is_labelled(state, names.DRAINING) and (view.users_of_node.get(name) or view.pending_users):
            why = "a user's server is there" if view.users_of_node.get(name) else "users' servers are pending"
            actions.append(LabelNode(name, names.DRAINING, None, why))
        elif not actions and is_labelled(state, names.DRAINING) and (pending := _pending_for(view, state)) is not None:
            actions.append(LabelNode(name, names.DRAINING, None, f"{pending.pod} would fit there"))
            round_.remember(freed=round_.state.freed.needed([name], view.now))
    actions += spared
    if not actions and (chosen := _choose_to_empty(round_)):
        # One at a time, as each changes what fits on the others.
        reason = "no users, and its placeholders fit on other nodes"
        actions.append(LabelNode(chosen, names.DRAINING, names.EMPTYING, reason))
    written = (each for each in actions if each.label == names.DRAINING)
    round_.remember(draining_labels=with_written(labels, written))
    return actions


def _choose_to_empty(round_: Round) -> str:
    """A node that can be emptied; empty if there is none, or if it is not time to search for one."""
    view, policy, tried = round_.view, round_.policy, round_.state.drain_tried
    if view.pending_users or view.unknown_kinds or _is_under_way(view):
        return ""
    if tried is not None and timedelta(0) <= view.now - tried < _EMPTY_AGAIN:
        return ""
    candidates = [
        name
        for name in sorted(view.placeholders_of_node)
        if (held_by := view.snapshot.nodes.get(name)) is not None
        and not is_labelled(held_by, names.DRAINING)
        and _may_empty(round_, held_by)
    ]
    if not candidates:
        return ""
    chosen, last = _first_to_empty(view, policy, candidates, round_.state.drain_last)
    round_.remember(drain_tried=view.now, drain_last=last)
    return chosen


def _decide_ordered_draining(view: View, policy: Policy, labels: Mapping[str, TrackedLabel]) -> list[LabelNode]:
    """Label the nodes that people ordered to be drained, also with users' servers there; no new ones come.

    An order that the service of another hub has does not end here.
    """
    nodes = view.snapshot.nodes
    actions = [
        LabelNode(name, names.DRAINING, names.ORDERED, f"it is drained, {because}")
        for name, because in policy.drained.items()
        if name in nodes and nodes[name].node.labels.get(names.DRAINING) != names.ORDERED
    ]
    for name, state in view.nodes_labelled(names.DRAINING):
        is_ordered = state.node.labels[names.DRAINING] == names.ORDERED
        if is_ordered and name not in policy.drained and not labels[name].is_others:
            actions.append(LabelNode(name, names.DRAINING, None, "the order to drain it is over"))
    return actions


def _decide_spared_servers(view: View, policy: Policy, orders: Iterable[LabelNode]) -> list[LabelNode]:
    """Label drained nodes so that a kubelet that restarts there ends none of their servers (`node_conditions`)."""
    written = {each.node: each.value for each in orders}
    drained = {name for name in (*view.drained_nodes(), *policy.drained) if written.get(name, "") is not None}
    labelled = {name for name, _ in view.nodes_labelled(names.DRAIN_SPARES_PREFIX)}
    actions = []
    for name in sorted((drained | labelled) & view.snapshot.nodes.keys()):
        state = view.snapshot.nodes[name]
        there = {key for key in state.node.labels if key.startswith(names.DRAIN_SPARES_PREFIX)}
        # Services of several hubs write the labels of their own servers, and nobody those of others' pods.
        needed = _spares_of(view.users_of_node.get(name, ())) if name in drained else set()
        actions += [
            LabelNode(name, key, names.TRUE, "a server that runs there stays") for key in sorted(needed - there)
        ]
        if not view.unknown_kinds:
            unneeded = there - _spares_of(state.pods) if name in drained else there
            actions += [LabelNode(name, key, None, "no server there needs it") for key in sorted(unneeded)]
    return actions


def _spares_of(pods: Iterable[Pod]) -> set[str]:
    return {names.DRAIN_SPARES_PREFIX + mark for pod in pods if (mark := drain_mark(pod)) is not None}


def decide_drained(round_: Round) -> tuple[Action, ...]:
    """Evictions from nodes that people ordered to be drained, whether or not the replacements fit elsewhere."""
    ending = round_.ending
    evictions = [
        delete_placeholder(each.pod, each.state, Cause.DRAIN, f"its node {name} is drained, {because}")
        for name, because in round_.policy.drained.items()
        for each in round_.view.placeholders_of_node.get(name, ())
        if each.key not in ending and each.may_end(Cause.DRAIN)
    ]
    return round_.within_budget(round_.if_known(evictions))


def _first_to_empty(view: View, policy: Policy, candidates: Sequence[str], last: str) -> tuple[str, str]:
    """A node whose placeholders fit on others, or empty; and the last node that was tried.

    On a big cluster a try is slow, so there are few; they continue after the last one.
    """
    known: dict[str, frozenset[str]] = {}
    tries = 0
    for name in (*(each for each in candidates if each > last), *(each for each in candidates if each <= last)):
        held = view.placeholders_of_node[name]
        if any(not _fitting(view, policy, each.shape, each.pod.namespace, known) - {name} for each in held):
            continue
        tries += 1
        last = name
        if _all_fit_elsewhere(view, policy, name, held):
            return name, name
        if tries == _MAX_TRIES:
            break
    return "", last


def _fitting(
    view: View, policy: Policy, shape: str, namespace: str, known: dict[str, frozenset[str]]
) -> frozenset[str]:
    """Nodes where one more placeholder of a shape fits now; computed once for all candidates."""
    if shape not in known:
        found: frozenset[str] = frozenset()
        if shape in policy.shapes:
            with view.snapshot.trial():
                pod, claims = simulated_placeholder(lasting_shape(policy.shapes[shape]), namespace)
                for claim in claims:
                    view.snapshot.add_claim(claim)
                view.snapshot.add_pod(pod)
                with suppress(SearchStopped):
                    found = frozenset(view.snapshot.fits(pod, explain=False).fitting)
        known[shape] = found
    return known[shape]


def _pending_for(view: View, state: NodeState) -> Placeholder | None:
    """A pending placeholder that would fit on the node if it were not emptied, and on no other one.

    The scheduler is about to place one that fits elsewhere, for example as a server has just stopped there.
    """
    for placeholder in view.placeholders.values():
        if not placeholder.is_pending or age(placeholder.pod.created, view.now) < _PLACED_BY_THEN:
            continue
        pod = without_label(placeholder.pod, names.DRAINING)
        # A search that takes too long does not stop the emptying.
        with suppress(SearchStopped):
            if view.snapshot.fits_on(pod, state.node.name, explain=False).fits and not _fits(view, placeholder.pod):
                return placeholder
    return None


def _fits(view: View, pod: Pod) -> bool:
    """Whether a pod surely fits on some node as it is."""
    with view.snapshot.trial(), suppress(Undecided):
        return bool(view.snapshot.place_quickly(pod))
    return False


def _is_under_way(view: View) -> bool:
    """Whether placeholders of a node that is drained or emptied are still to be placed on others."""
    if view.terminating_soon or any(each.is_pending for each in view.placeholders.values()):
        return True
    draining = [name for name, state in view.nodes_labelled(names.DRAINING) if is_labelled(state, names.DRAINING)]
    return any(view.placeholders_of_node.get(name) for name in draining)


def _may_empty(round_: Round, state: NodeState) -> bool:
    view, policy, planner_state, name = round_.view, round_.policy, round_.state, state.node.name
    if view.users_of_node.get(name) or _has_servers(state) or not is_ready_for_users(state):
        return False
    if view.age_of_node(name) < policy.grace.new_node or is_labelled(state, names.ATTRACT):
        return False
    left = planner_state.freed.last_seen.get(name, planner_state.ready_since.get(name, planner_state.tokens.at))
    if view.now - left < policy.grace.freed_node:
        return False
    figure = round_.busyness.of(name).figure
    if figure is None or float(figure) > policy.drain_below:
        return False
    held = view.placeholders_of_node.get(name, ())
    return bool(held) and all(
        each.may_end(Cause.EMPTYING) and _may_rebalance(view, policy, each.shape) for each in held
    )


def _has_servers(state: NodeState) -> bool:
    """Whether any hub of the cluster has users' servers there: its service would take the label away again."""
    return any(map(is_server, state.pods))


def _may_rebalance(view: View, policy: Policy, shape: str) -> bool:
    """Whether one more may be evicted before its replacement is there."""
    return len(view.warm(shape)) > policy.replicas_of(shape).effective_floor


def _all_fit_elsewhere(view: View, policy: Policy, name: str, held: Collection[Placeholder]) -> bool:
    """Whether all placeholders of a node fit on others that are neither drained nor emptied."""
    snapshot = view.snapshot
    closed = {each for each, state in snapshot.nodes.items() if is_labelled(state, names.DRAINING)} | {name}
    with snapshot.trial(), suppress(SearchStopped):
        for placeholder in held:
            snapshot.remove_pod(placeholder.key)
        for number, placeholder in enumerate(held):
            pod = replacement(view, policy, placeholder, number)
            if pod is None:
                return False
            fitting = [
                each
                for each in snapshot.fits(pod, explain=False).fitting
                if each not in closed and not why_in_doubt(view.doubts_of(each), snapshot, pod, each)
            ]
            if not fitting:
                return False
            snapshot.schedule(pod, fitting[0])
        return True
    return False


def replacement(view: View, policy: Policy, placeholder: Placeholder, number: int) -> Pod | None:
    """The pod that would replace a placeholder; it and its claims are added to the snapshot."""
    shape = policy.shapes.get(placeholder.shape)
    if shape is None:
        return None
    name = f"{placeholder.pod.name}-replacement-{number}"
    pod, claims = simulated_placeholder(lasting_shape(shape), placeholder.pod.namespace, name)
    for claim in claims:
        view.snapshot.add_claim(claim)
    view.snapshot.add_pod(pod)
    return pod

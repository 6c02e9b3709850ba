"""How many placeholders to create or delete: up to the target of each shape, and one for each pending user's pod.

A user's pod requires the readiness label, which a new node lacks, so the autoscaler adds no node for it. The
placeholder does not require the label: it asks for the node in the pod's place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.passing_devices import nodes_to_avoid
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, newest_first
from dra_spawner.placeholders.planner.decisions.handover import is_under_way
from dra_spawner.placeholders.planner.decisions.limited_targets import LimitedTargets, limit_targets
from dra_spawner.placeholders.planner.decisions.outdated_shapes import replaced_now
from dra_spawner.placeholders.planner.decisions.prepared_claims import unnamed_claims
from dra_spawner.placeholders.planner.packing.kept_nodes import nodes_kept_from
from dra_spawner.placeholders.planner.packing.packed_nodes import packed_nodes
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

#: Time for which one placeholder more than a target that follows demand stays: it is often wanted again by then.
_ONE_MORE_STAYS: Final = timedelta(minutes=10)
#: Limit of nodes with doubtful devices that a new placeholder names.
_MAX_AVOIDED: Final = 50


def decide_numbers(round_: Round) -> tuple[Action, ...]:
    """Create missing placeholders and delete surplus ones, as far as limits, budgets and users' servers allow."""
    limited = limit_targets(round_)
    actions, round_.limited = limited.within_quotas(_towards_targets(round_, limited))
    creations = [each for each in actions if isinstance(each, CreatePlaceholder)]
    deletions = round_.if_known(each for each in actions if isinstance(each, DeletePlaceholder))
    round_.is_short = bool(creations)
    allowed, past = round_.state.creations.allow(
        round_.view, round_.policy, (*_not_competing(round_, creations), *deletions)
    )
    round_.remember(capacity_since=limited.capacity_since, creations=past)
    return pack_placeholders(round_, _for_devices(round_, round_.within_budget(allowed)))


def _towards_targets(round_: Round, limited: LimitedTargets) -> Iterator[CreatePlaceholder | DeletePlaceholder]:
    """Creations and deletions towards the limited targets, and for pending servers."""
    view, ending, servers = round_.view, round_.ending, round_.servers
    before, one_more = round_.state.surplus_since, dict[str, datetime]()
    policy = limited.policy(round_.policy)
    for shape in policy.shapes:
        present = view.placeholders_of_shape.get(shape, [])
        staying = [each for each in present if each.key not in ending]
        replicas = policy.replicas_of(shape).with_servers(view.servers_of(shape))
        # One with an older image stays until the new one runs beside it.
        replaced = replaced_now(round_, shape, staying, replicas.min, replicas.max)
        there = [each for each in staying if each not in replaced]
        # More do not help if they fit and the server does not, for example because of its volume.
        most = replicas.min + servers.count.get(shape, 0)
        # Ending placeholders count until they are gone: their deletion may fail.
        ending_too = len(present) - len(there)
        needing = servers.needing_node.get(shape, [])
        found = _of_shape(
            view, shape, replicas, most, ending_too, there, needing, limited.reason(shape), limited.surplus
        )
        if _is_one_more(found, replicas, len(there), limited.reason(shape)):
            one_more[shape] = before.get(shape, view.now)
            if view.now - one_more[shape] < _ONE_MORE_STAYS:
                continue
        elif any(isinstance(each, DeletePlaceholder) for each in found):
            # The budget lets several go one by one, and the last of them is not the one that is wanted again.
            one_more[shape] = view.now - _ONE_MORE_STAYS
        for each in found:
            if isinstance(each, CreatePlaceholder):
                if each.for_pending_pod is not None or shape not in policy.paused:
                    yield each
            elif not policy.keeps_surplus and shape not in policy.paused:
                yield each
    round_.remember(surplus_since=one_more)


def _is_one_more(
    found: list[CreatePlaceholder] | list[DeletePlaceholder], replicas: ReplicaRange, there: int, limited: str
) -> bool:
    """Whether there is one placeholder more than demand wants, and no limit forbids it."""
    is_one = len(found) == 1 and isinstance(found[0], DeletePlaceholder)
    return is_one and bool(replicas.because) and not limited and there <= replicas.max


def _not_competing(round_: Round, creations: Iterable[CreatePlaceholder]) -> Iterator[CreatePlaceholder]:
    """The creations that do not compete with users' pods that are about to be scheduled."""
    view, policy = round_.view, round_.policy
    is_handover, has_preemption = is_under_way(view, policy), round_.has_preemption
    for each in creations:
        # While a kind is unknown, a pending pod may be gone, or have a node by now.
        waits = is_handover if each.for_pending_pod is None else bool(view.unknown_kinds)
        # The scheduler tries new pods before it retries the pending one.
        if not (waits or (has_preemption and policy.shapes[each.shape].wants_devices)):
            yield each


def _for_devices(round_: Round, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same, with what new placeholders with devices need.

    They avoid nodes with broken or doubtful devices, or such that they would lose again, and never get devices that are
    kept for a ticket. Their containers do not name each claim.
    """
    view, policy = round_.view, round_.policy
    created = {each.shape for each in actions if isinstance(each, CreatePlaceholder)}
    shapes = [policy.shapes[each] for each in sorted(created) if policy.shapes[each].wants_devices]
    if not shapes:
        return actions
    doubtful = (name for name in view.snapshot.nodes if view.doubts_of(name).missing)
    avoided = {*round_.state.avoided, *islice(doubtful, _MAX_AVOIDED)}
    of_shape = {
        shape.id: (
            tuple(sorted({*avoided, *islice(sorted(nodes_to_avoid(view, shape)), _MAX_AVOIDED)})),
            unnamed_claims(view, policy, shape),
            tuple(sorted(nodes_kept_from(view, policy, shape))),
        )
        for shape in shapes
    }
    return tuple(
        replace(each, avoid=of_shape[each.shape][0], unnamed=of_shape[each.shape][1], never=of_shape[each.shape][2])
        if isinstance(each, CreatePlaceholder) and each.shape in of_shape
        else each
        for each in actions
    )


def _of_shape(
    view: View,
    shape: str,
    replicas: ReplicaRange,
    most: int,
    ending_too: int,
    there: list[Placeholder],
    pending_users: list[ObjectKey],
    limited_because: str,
    first: Collection[ObjectKey],
) -> list[CreatePlaceholder] | list[DeletePlaceholder]:
    free = [each for each in there if each.may_end(Cause.SURPLUS)]
    pending = [each for each in free if each.is_pending]
    # Each pending pod needs a pending placeholder; pending placeholders of the target count.
    wanted = max(replicas.min, len(free) - len(pending) + len(pending_users) if pending_users else 0)
    wanted = min(wanted, most)
    # Users come first: they never wait for one another's nodes because of an administrator's `max`.
    max_there = max(replicas.max, wanted if pending_users else 0)
    missing = min(wanted - len(free), max_there - len(there) - ending_too)
    if missing > 0:
        return [_create(shape, replicas, len(free) + number, pending_users) for number in range(missing)]
    surplus = max(len(free) - wanted, min(len(there) - max_there, len(free)))
    if surplus <= 0:
        return []
    # Those named first go, then only pending ones if there are any, as a server may be about to be placed. Warm ones go
    # last.
    warm = {each.key for each in view.warm(shape)}
    may_go = [each for each in free if each.key in first or not pending or each.is_pending]
    going = sorted(may_go, key=lambda each: (each.key not in first, each.key in warm, newest_first(each)))
    return [_surplus(view, each, replicas, limited_because) for each in going[:surplus]]


def _create(shape: str, replicas: ReplicaRange, present: int, pending_users: list[ObjectKey]) -> CreatePlaceholder:
    if present < replicas.min:
        return CreatePlaceholder(shape, f"target {_target(replicas)}, present {present}")
    pod = pending_users[0]
    return CreatePlaceholder(shape, f"{pod} fits on no present node; an autoscaler can add one for a placeholder", pod)


def _surplus(view: View, placeholder: Placeholder, replicas: ReplicaRange, limited_because: str) -> DeletePlaceholder:
    reason = f"above the target of {_target(replicas)} (at most {replicas.max})"
    if limited_because:
        reason = f"no more than {replicas.min} are allowed {limited_because}"
    # If the scheduler places it meanwhile, it may be the only one with a node.
    version = view.version_of(Kind.POD, placeholder.key) if placeholder.is_pending else ""
    return delete_placeholder(placeholder.pod, placeholder.state, Cause.SURPLUS, reason, version=version)


def _target(replicas: ReplicaRange) -> str:
    return f"{replicas.min} ({replicas.because})" if replicas.because else f"{replicas.min}"


#: Placeholders of a round that are packed: for each one the next is tried with it.
_MAX_PACKED: Final = 20
_NAMESPACE: Final = "default"


def pack_placeholders(round_: Round, actions: Iterable[Action]) -> tuple[Action, ...]:
    """The same actions, with a node and devices for new placeholders that fit on a present node."""
    if not round_.policy.packs_devices:
        return tuple(actions)
    with round_.view.snapshot.trial():
        return tuple(_packed(round_.view, round_.policy, actions))


def _packed(view: View, policy: Policy, actions: Iterable[Action]) -> Iterator[Action]:
    busyness, left = NodesBusyness(view), _MAX_PACKED
    for action in actions:
        if not isinstance(action, CreatePlaceholder) or not left or not policy.shapes[action.shape].claims:
            yield action
            continue
        left -= 1
        try:
            yield _place(view, policy, busyness, action, policy.shapes[action.shape], f"simulated-placeholder-{left}")
        except SearchStopped:
            left = 0
            yield action


def _place(
    view: View, policy: Policy, busyness: NodesBusyness, action: CreatePlaceholder, shape: Shape, name: str
) -> CreatePlaceholder:
    """The action with node and devices; the snapshot has the placeholder then."""
    pod, claims = simulated_placeholder(shape, _NAMESPACE, name)
    packed = packed_nodes(view, policy, shape, pod)
    if packed is None:
        return action
    for claim in claims:
        view.snapshot.put(claim)

    def in_order(node_names: Iterable[str]) -> list[str]:
        return _without((*action.avoid, *action.never), policy, sorted(node_names, key=order, reverse=True))

    def order(node: str) -> tuple[object, ...]:
        is_ready = is_labelled(view.snapshot.nodes[node], names.IMAGES_READY)
        return is_ready, packed.order(node), busyness.of(node).order, node

    node = view.snapshot.first_fitting(pod, in_order)
    if not node:
        return action
    preferences = packed.preferences(node)
    if preferences.of_claims:
        pod, claims = simulated_placeholder(shape, _NAMESPACE, name, preferences.of_claims)
        for claim in claims:
            view.snapshot.put(claim)
    view.snapshot.schedule(pod, node)
    reason = f"{action.reason}; on node {node} {preferences.reason}" if preferences.reason else action.reason
    return replace(action, node=node, preferences=preferences.of_claims, reason=reason)


def _without(avoid: Collection[str], policy: Policy, node_names: Iterable[str]) -> list[str]:
    return [name for name in node_names if name not in avoid and name not in policy.drained]

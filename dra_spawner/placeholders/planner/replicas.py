"""How many placeholders to create or delete: up to the target of each shape, and one for each pending user's pod.

A user's pod requires the readiness label, which a new node lacks, so the autoscaler adds no node for it. The
placeholder does not require the label: it asks for the node in the pod's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.preemption import PendingUser
from dra_spawner.placeholders.planner.view import Placeholder, View, newest_first
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind


@dataclass(frozen=True, slots=True)
class PendingServers:
    """Pending servers that may have a placeholder, by shape.

    Attributes
    ----------
    count
        Their number.
    needing_node
        Pending servers that only another node helps.
    """

    count: Mapping[str, int] = field(default_factory=dict)
    needing_node: Mapping[str, list[ObjectKey]] = field(default_factory=dict)


def pending_servers_of(view: View, policy: Policy, pending_users: Iterable[PendingUser]) -> PendingServers:
    """The pending servers for which placeholders are created."""
    for_pending_pod: dict[str, list[ObjectKey]] = {}
    servers: Counter[str] = Counter()
    for each, shape in _counted(view, policy, pending_users):
        servers[shape] += 1
        if each.needs_node:
            for_pending_pod.setdefault(shape, []).append(each.pod)
    return PendingServers(servers, for_pending_pod)


def decide_numbers(
    view: View,
    policy: Policy,
    pending: PendingServers,
    ending: frozenset[ObjectKey],
    limited_because: Callable[[str], str] = lambda shape: "",
    first: Collection[ObjectKey] = (),
) -> tuple[Action, ...]:
    """Create missing placeholders and delete surplus ones.

    Parameters
    ----------
    ending
        Placeholders that end in this round for other reasons.
    limited_because
        Returns why the policy's target of a shape is lower than the configured one; empty if it is not.
    first
        Placeholders that are deleted before any other, if there are too many.
    """
    for_pending_pod, servers = pending.needing_node, pending.count
    actions: list[Action] = []
    for shape in policy.shapes:
        present = view.placeholders_of_shape.get(shape, [])
        there = [each for each in present if each.key not in ending]
        replicas = policy.replicas_of(shape).with_servers(view.servers_of(shape))
        # More do not help if they fit and the server does not, for example because of its volume.
        most = replicas.min + servers.get(shape, 0)
        # Ending placeholders count until they are gone: their deletion may fail.
        ending_too = len(present) - len(there)
        its_pending = for_pending_pod.get(shape, [])
        found = _of_shape(view, shape, replicas, most, ending_too, there, its_pending, limited_because(shape), first)
        actions += (each for each in found if not (policy.keeps_surplus and isinstance(each, DeletePlaceholder)))
    return tuple(actions)


def _counted(view: View, policy: Policy, pending: Iterable[PendingUser]) -> list[tuple[PendingUser, str]]:
    """Pending servers that may have a placeholder, with their shapes: the oldest, in turn by namespace."""
    found = [(each, shape) for each in pending if (shape := view.shape_of(view.users[each.pod])) in policy.shapes]
    if len(found) <= policy.max_for_pending_pods:
        return found
    before: Counter[str] = Counter()
    turns: list[int] = []
    for each, _ in found:
        turns.append(before[each.pod.namespace])
        before[each.pod.namespace] += 1
    chosen = sorted(range(len(found)), key=turns.__getitem__)[: policy.max_for_pending_pods]
    return [found[index] for index in sorted(chosen)]


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
) -> list[Action]:
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

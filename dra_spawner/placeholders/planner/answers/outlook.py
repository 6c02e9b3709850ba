"""How soon a server of a choice would run, in words of the hub's users.

A new node is announced only where it is certain to come: it exists and becomes ready, or more nodes of its kind may be
added (`Supply.more_nodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import SENTENCES
from dra_spawner.placeholders.planner.answers.placement import Placement, tickets_before
from dra_spawner.placeholders.planner.cluster.allowed_nodes import allows, is_labelled, is_open
from dra_spawner.placeholders.planner.cluster.closed_nodes import closed_for
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import bare_pod, kind_of, simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import without_label
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape, device_classes, is_extended_resource
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.refusal_text import nearest_cause

#: Young nodes that are tried.
_MAX_YOUNG: Final = 20
#: Nodes that are tried without all of their servers.
_MAX_EMPTIED: Final = 5
#: Servers of other shapes without which it is tried.
_MAX_TRIED: Final = 16
_MAX_TRIED_OF_SHAPE: Final = 4


@dataclass(frozen=True, slots=True)
class Outlook:
    """The outlook of one shape.

    Attributes
    ----------
    sentence
        One sentence for the hub's users, without names of other objects.
    kind
        The kind of the node that comes (value of the policy's label); None unless the state is `NEEDS_NODE`.
    coming
        The present node that is about to become ready; empty if a new one is needed.
    before
        Pending servers that compete for the same, created earlier.
    holders
        Servers of which each one's end would be enough, if the state is `NEEDS_NODE` or `WHEN_STOPPED`.
    """

    state: AvailabilityState
    sentence: str
    kind: str | None = None
    coming: str = ""
    before: int = 0
    holders: tuple[Pod, ...] = ()


UNKNOWN: Final = Outlook(AvailabilityState.UNKNOWN, SENTENCES[AvailabilityState.UNKNOWN])
_NO_IMAGE: Final = Outlook(
    AvailabilityState.UNKNOWN,
    "Enough is free. First its software is downloaded, which can take some minutes.",
)
_COMES: Final = "It starts as soon as a machine that has just been added is ready."
_AWAITED: Final = "Other servers wait for the same and come first."


@dataclass(frozen=True, slots=True)
class Supply:
    """What is known about new nodes.

    Attributes
    ----------
    more_nodes
        How many nodes are certain to come if they are needed, by kind (value of the policy's label).
    capped
        Ids of shapes whose pending pods get no node, as the autoscaler says.
    drivers_of_kind
        Drivers by kind of node (`PlannerState.drivers`).
    """

    more_nodes: Mapping[str, int] = field(default_factory=dict)
    capped: Collection[str] = ()
    drivers_of_kind: Mapping[str, frozenset[str]] = field(default_factory=dict)


class BusyServers:
    """Users' servers with a node, by shape and node; made once for all shapes of a view."""

    def __init__(self, view: View) -> None:
        self.groups: dict[str, dict[str, list[Pod]]] = {}
        self.open_nodes: dict[str, dict[str, bool]] = {}
        """Whether a node is open, by `kind_of` the shape and by the node, as far as it was asked."""
        nodes = view.snapshot.nodes
        for pod in view.users.values():
            shape = pod.labels.get(names.SHAPE, "")
            if shape and pod.node_name in nodes and not pod.is_deleted:
                self.groups.setdefault(shape, {}).setdefault(pod.node_name, []).append(pod)


def find_outlook(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    placement: Placement,
    supply: Supply,
    busy: Callable[[], BusyServers],
    for_pod: Pod | None = None,
) -> Outlook:
    """The outlook of a shape.

    Parameters
    ----------
    placement
        The shape's, in this view (`find_placement`), or shortly before if it is `SCALE_UP`.
    busy
        Returns the busy servers of this view; called only if nothing is free.
    for_pod
        The pending pod that it is about; None for a server that does not exist yet.

    Raises
    ------
    SearchStopped
        When finding out takes too long.
    """
    # A pod that exists does not wait for tickets any more.
    tickets = tickets_before(view, policy, shape) if for_pod is None else 0
    found = _without_tickets(view, policy, shape, namespace, placement, supply, busy, for_pod)
    return _behind_tickets(found, placement, tickets) if tickets else found


def _without_tickets(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    placement: Placement,
    supply: Supply,
    busy: Callable[[], BusyServers],
    for_pod: Pod | None,
) -> Outlook:
    if placement.state is AvailabilityState.WAITS:
        return _WithoutCapacity(view, policy, shape, namespace, supply, for_pod).outlook(placement, busy)
    is_warm = placement.state is AvailabilityState.READY
    if placement.node and not is_warm and not is_labelled(view.snapshot.nodes[placement.node], names.IMAGES_READY):
        return _NO_IMAGE
    return Outlook(placement.state, placement.sentence)


def _behind_tickets(found: Outlook, placement: Placement, tickets: int) -> Outlook:
    """The outlook of a server that must not start before some tickets have a device."""
    before = found.before + tickets
    people = "One person is" if tickets == 1 else f"{tickets} persons are"
    sentence = f"{people} in the queue for such a device. The queue comes first."
    if found.state is AvailabilityState.WHEN_STOPPED:
        cause = nearest_cause(placement.refusals).now
        return replace(found, sentence=f"{cause} {people} in the queue for such a device.", before=before)
    if found.state is AvailabilityState.NEEDS_NODE or found.state.is_now:
        # A new machine, or a device that is free, is for the queue.
        return Outlook(AvailabilityState.WAITS, sentence, before=before)
    return found


class _WithoutCapacity:
    """The outlook of a shape for which nothing is free."""

    def __init__(
        self, view: View, policy: Policy, shape: Shape, namespace: str, supply: Supply, for_pod: Pod | None
    ) -> None:
        self._view = view
        self._policy = policy
        self._shape = shape
        self._supply = supply
        self._constraints = kind_of(shape)
        self._pod, self._templates = simulated_user(shape, namespace)
        self._unready = without_label(self._pod, names.IMAGES_READY)
        self._before = sum(self._competes(each) for each in _created_before(view.pending_users, for_pod))

    def outlook(self, placement: Placement, busy: Callable[[], BusyServers]) -> Outlook:
        snapshot = self._view.snapshot
        with snapshot.trial():
            for template in self._templates:
                snapshot.put(template)
            if not self._before and (name := self._coming_node()):
                return self._with_node(busy(), self._kind(name), name)
            # A node may be gone since the placement was found.
            kind = self._kind(placement.like) if placement.like in snapshot.nodes else None
            if kind is not None and self._is_certain(kind, placement.like):
                return self._with_node(busy(), kind)
            if placement.doubt:
                return Outlook(AvailabilityState.UNKNOWN, placement.sentence)
            return self._when_stopped(busy(), placement)

    def _with_node(self, busy: BusyServers, kind: str, coming: str = "") -> Outlook:
        sentence = _COMES if coming else SENTENCES[AvailabilityState.NEEDS_NODE]
        return Outlook(AvailabilityState.NEEDS_NODE, sentence, kind, coming, self._before, self._holders(busy))

    def _kind(self, node: str) -> str:
        return self._view.snapshot.nodes[node].node.labels.get(self._policy.readiness.kind_label, "")

    def _coming_node(self) -> str:
        """A node that is not ready for users yet, and on which the server would fit."""
        found = 0
        for state in self._view.nodes_younger_than(self._policy.readiness.deadline):
            if names.IMAGES_READY in state.node.labels or not is_open(state, self._unready):
                continue
            if (found := found + 1) > _MAX_YOUNG:
                break
            if self._view.snapshot.fits_on(self._unready, state.node.name, explain=False).fits:
                return state.node.name
        return ""

    def _is_certain(self, kind: str, like: str) -> bool:
        """Whether one more node of a kind is certain to come for this server.

        Each pending server before it may need a node of its own.
        """
        if self._supply.more_nodes.get(kind, 0) <= self._before:
            return False
        state = self._view.snapshot.nodes[like]
        refused = {pod.labels.get(names.SHAPE, "") for pod in self._view.pending_users if self._view.no_scale_up(pod)}
        for each in refused.union(self._supply.capped):
            shape = self._policy.shapes.get(each)
            if shape is None or allows(state, without_label(bare_pod(kind_of(shape)), names.IMAGES_READY)):
                return False
        return True

    def _competes(self, pod: Pod) -> bool:
        """Whether a pending pod may take what this server needs; if in doubt, it does."""
        other = self._policy.shapes.get(pod.labels.get(names.SHAPE, ""))
        if other is None or other.id == self._shape.id or not self._shape.wants_devices:
            return True
        return not _devices_of(self._shape).isdisjoint(_devices_of(other))

    def _when_stopped(self, busy: BusyServers, placement: Placement) -> Outlook:
        holders = self._holders(busy)
        if not holders and not self._fits_without_servers(busy):
            closed = placement.closed or closed_for(self._view, self._policy, self._pod, without_servers=True)
            if closed is not None:
                return Outlook(AvailabilityState.CLOSED, closed.text.waiting)
            return Outlook(AvailabilityState.WAITS, placement.sentence)
        sentence = placement.sentence
        if self._before:
            sentence = f"{nearest_cause(placement.refusals).now} {_AWAITED}"
        return Outlook(AvailabilityState.WHEN_STOPPED, sentence, before=self._before, holders=holders)

    def _holders(self, busy: BusyServers) -> tuple[Pod, ...]:
        """Servers on open nodes of which each one's end is enough, as far as it is tried.

        Of each shape, equal servers first, one server is tried on each of a few nodes; if it is enough on all of them,
        it is taken to be on the others, too. An equal server leaves nothing while its driver publishes no device.
        """
        found: list[list[Pod]] = []
        own = busy.groups.get(self._shape.id, {})
        left = _MAX_TRIED
        for groups in sorted(busy.groups.values(), key=lambda each: (each is not own, len(each))):
            if left <= 0:
                break
            nodes = (node for node in groups if self._is_open(node, busy))
            tried = list(islice(nodes, min(_MAX_TRIED_OF_SHAPE, left)))
            left -= len(tried)
            enough = [node for node in tried if self._fits_without(node, groups[node][:1])]
            taken = chain(enough, nodes) if len(enough) == len(tried) else enough
            found += [groups[node] for node in taken]
        return tuple(chain.from_iterable(found))

    def _fits_without_servers(self, busy: BusyServers) -> bool:
        """Whether it fits on an open node without all servers of users, as far as it is tried."""
        nodes = dict.fromkeys(node for groups in busy.groups.values() for node in islice(groups, _MAX_EMPTIED))
        tried = [node for node in nodes if self._is_open(node, busy)][:_MAX_EMPTIED]
        return any(self._fits_without(node, self._view.users_of_node.get(node, ())) for node in tried)

    def _is_open(self, node: str, busy: BusyServers) -> bool:
        known = busy.open_nodes.setdefault(self._constraints, {})
        found = known.get(node)
        if found is None:
            found = known[node] = is_open(self._view.snapshot.nodes[node], self._pod)
        return found

    def _fits_without(self, node: str, pods: Iterable[Pod]) -> bool:
        snapshot = self._view.snapshot
        with snapshot.trial():
            for pod in pods:
                snapshot.remove_pod(ObjectKey.of(pod))
            return snapshot.fits_on(self._pod, node, explain=False).fits


def _created_before(pending: Iterable[Pod], pod: Pod | None) -> Iterable[Pod]:
    """Pending pods in the order of the scheduler's queue, until one."""
    for each in pending:
        if pod is not None and each.uid == pod.uid:
            return
        yield each


def _devices_of(shape: Shape) -> set[str]:
    """Device classes and extended resources that a shape asks for."""
    classes = {name for spec in shape.claims.values() for name in device_classes(spec)}
    resources = {name for each in shape.containers for name in each.get("requests", {}) if is_extended_resource(name)}
    return classes | resources

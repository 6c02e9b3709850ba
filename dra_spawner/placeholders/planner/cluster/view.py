"""The cluster at one moment: the input of decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import (
    PLACEHOLDER,
    PlaceholderSeen,
    PlaceholderState,
    following,
    seen_state,
)
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_drained, is_ready_for_users
from dra_spawner.placeholders.planner.cluster.closed_devices import why_closed
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.cluster.node_doubts import doubts_of, is_held_in_doubt
from dra_spawner.placeholders.planner.cluster.placeholder import (
    AwaitedServer,
    Placeholder,
    Reservation,
    is_proven,
    newest_first,
    reservation_of,
)
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.shapes import is_extended_resource
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.device_doubts import DeviceDoubts

__all__ = [
    "AwaitedServer",
    "Placeholder",
    "Reservation",
    "View",
    "age",
    "newest_first",
    "reservation_of",
    "wants_devices",
]

_NO_TICKETS = TicketQueue()


class View:
    """Placeholders, users' servers and nodes at one moment.

    Parameters
    ----------
    snapshot
        The whole cluster. Decisions use trials in it and leave it unchanged.
    namespaces
        Namespaces of users' servers and placeholders, separate (`Namespaces`) or common; None means all.
    stale
        Age of the snapshot.
    knowledge
        What is known of each kind; a kind that is not named is known.
    index
        Of the previous view, which must not be used any more; makes this view cheap.
    reserved
        Reservations of placeholders that the snapshot may not show yet.
    ending
        Placeholders that are being deleted, which it may not show yet.
    scheduler_message
        The scheduler's reason why a pod has no node; empty if it reports none.
    version_of
        An object's ``resourceVersion``; empty if the watch has not shown it.
    no_scale_up
        The autoscaler's message that a pending pod gets no node, as a maximum is reached; empty if there is none.
    quotas
        ResourceQuotas of the placeholders' namespace.
    knows_quotas
        Whether their changes are followed.
    awaited
        Servers whose pods may be there already.
    problem
        Why the snapshot cannot be trusted (the API fails); empty if it can.
    tickets
        The queue for devices.
    searches
        Limits of searches for devices, outside of rounds. Beyond them SearchStopped is raised: neither yes nor no.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        now: datetime,
        *,
        namespaces: Namespaces | Collection[str] | None = None,
        stale: timedelta = timedelta(0),
        knowledge: Mapping[Kind, Knowledge] = MappingProxyType({}),
        problem: str = "",
        index: ClusterIndex | None = None,
        reserved: Mapping[ObjectKey, Reservation] = MappingProxyType({}),
        ending: Collection[ObjectKey] = (),
        scheduler_message: Callable[[Pod], str] = lambda pod: "",
        version_of: Callable[[Kind, ObjectKey], str] = lambda kind, key: "",
        no_scale_up: Callable[[Pod], str] = lambda pod: "",
        quotas: tuple[Quota, ...] = (),
        knows_quotas: bool = True,
        awaited: Iterable[AwaitedServer] = (),
        searches: SearchLedger | None = None,
        tickets: TicketQueue = _NO_TICKETS,
    ) -> None:
        self.snapshot = snapshot
        self.tickets = tickets
        self.searches = searches if searches is not None else SearchLedger()
        self.searches.begin(now)
        snapshot.limit_searches(self.searches)
        self.scheduler_message = scheduler_message
        self.version_of = version_of
        self.no_scale_up = no_scale_up
        self.quotas = quotas
        self.knows_quotas = knows_quotas
        self.now = now
        self.stale = stale
        self._knowledge = knowledge
        self.problem = problem
        self.index = index if index is not None else ClusterIndex()
        self.index.refresh(snapshot, namespaces)
        self.own_hub = self.index.hub
        """Name of this service's hub."""
        self.doubtful: set[str] = set()
        """Nodes with placeholders where devices are missing that pods hold."""
        self.placeholders: dict[ObjectKey, Placeholder] = {}
        self.own_shapes: Mapping[ObjectKey, str] | None = None
        """True shapes of pending servers whose labels are not believed (`OwnShapes`)."""
        self.terminating: list[Pod] = []
        """Placeholders that are terminating or have ended."""
        # In an order that does not depend on the order of events.
        for key, pod in sorted(self.index.placeholders.items(), key=_by_key):
            if pod.is_deleted or pod.is_finished or key in ending:
                self.terminating.append(pod)
            else:
                self.placeholders[key] = self._held(self._placeholder(key, pod, reserved.get(key)))
        self.other_placeholders = tuple(
            pod for _, pod in sorted(self.index.other_placeholders.items(), key=_by_key) if not pod.is_finished
        )
        """Placeholders of other hubs' services, terminating ones included."""
        self._other_pending = tuple(self.index.other_pending.values())
        # The index changes later; a view does not.
        self.users: dict[ObjectKey, Pod] = self.index.users.copy()
        self.awaited = tuple(sorted((e for e in awaited if e.pod not in self.users), key=lambda each: each.since))
        """Servers that are about to start, the oldest first."""
        self._users_of_shape = self.index.users_of_shape.copy()
        self._trials = tuple(self.index.trials.values())
        self.users_of_node: dict[str, tuple[Pod, ...]] = self.index.users_of_node.copy()
        self.pullers: dict[str, tuple[Pod, ...]] = self.index.pullers.copy()
        """Pods that pull images, by node."""
        self._pending = tuple(self.index.pending.values())
        self.warm_claims = tuple(claim for _, claim in sorted(self.index.warm_claims.items(), key=_by_key))

    def knowledge_of(self, kind: Kind) -> Knowledge:
        """What is known of a kind: only what is missing from a known one is gone."""
        return self._knowledge.get(kind, Knowledge.KNOWN)

    def knows(self, *kinds: Kind) -> bool:
        """Whether all these kinds are known."""
        return all(self.knowledge_of(kind) is Knowledge.KNOWN for kind in kinds)

    @property
    def unknown_kinds(self) -> tuple[Kind, ...]:
        """Kinds whose changes cannot be followed at present: what seems to be missing may be there."""
        return tuple(kind for kind in Kind if self.knowledge_of(kind) is Knowledge.UNKNOWN)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The same, and tickets: without them any placeholder may be held, so none ends but for a user's pod."""
        return (*self.unknown_kinds, *(() if self.tickets.is_known else ("Ticket",)))

    def with_own_shapes(self, own_shapes: Mapping[ObjectKey, str]) -> View:
        """The same view with the true shapes of pending servers instead of their labels.

        Parameters
        ----------
        own_shapes
            By pod: id of its true shape (`OwnShapes`).
        """
        found = copy(self)
        found.own_shapes = own_shapes
        return found

    @cached_property
    def placeholders_of_node(self) -> dict[str, list[Placeholder]]:
        found: dict[str, list[Placeholder]] = {}
        for placeholder in self.placeholders.values():
            if not placeholder.is_pending:
                found.setdefault(placeholder.node, []).append(placeholder)
        return found

    @cached_property
    def placeholders_of_shape(self) -> dict[str, list[Placeholder]]:
        found: dict[str, list[Placeholder]] = {}
        for placeholder in self.placeholders.values():
            found.setdefault(placeholder.shape, []).append(placeholder)
        return found

    @cached_property
    def _reserved_for_others(self) -> dict[str, set[ObjectKey]]:
        """By shape, the servers for which its placeholders are reserved and whose own label does not name it."""
        found: dict[str, set[ObjectKey]] = {}
        for each in self.placeholders.values():
            if each.reservation is not None:
                key = ObjectKey(each.pod.namespace, each.reservation.pod)
                pod = self.users.get(key)
                if pod is None or pod.labels.get(names.SHAPE, "") != each.shape:
                    found.setdefault(each.shape, set()).add(key)
        return found

    def servers_of(self, shape: str) -> int:
        """The number of servers whose label names a shape, and of those for which its placeholders are reserved.

        Servers of ``dra-spawner try`` are not among them: they lower no target for users who are still to come.
        """
        trials = sum(pod.labels.get(names.SHAPE, "") == shape for pod in self._trials)
        return self._users_of_shape.get(shape, 0) - trials + len(self._reserved_for_others.get(shape, ()))

    def users_younger_than(self, limit: timedelta) -> Iterator[Pod]:
        """Users' servers younger than a limit or of unknown age."""
        since = (self.now - limit - timedelta(seconds=1)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for pod in self.users.values():
            # Stamps of API servers sort like times, which take longer to compare.
            if (pod.created >= since or not pod.created.endswith("Z")) and age(pod.created, self.now) < limit:
                yield pod

    def count_servers(self) -> tuple[Counter[str], Counter[str]]:
        """Users' servers with a node, and without one, by the shape in their label; empty for one without a shape."""
        pending = Counter(pod.labels.get(names.SHAPE, "") for pod in self._pending)
        return Counter(self._users_of_shape) - pending, pending

    @cached_property
    def pending_servers_of_others(self) -> list[Pod]:
        """Servers without a node in namespaces that this service does not serve, in the scheduler's order."""
        return _scheduler_order(self._other_pending)

    def pending_servers_of_all_hubs(self) -> Counter[str]:
        """Servers without a node in all namespaces, by the shape in their label."""
        pending = (*self._pending, *self._other_pending)
        return Counter(pod.labels.get(names.SHAPE, "") for pod in pending if not pod.is_deleted)

    @cached_property
    def terminating_soon(self) -> list[Pod]:
        """Terminating placeholders on nodes with a working kubelet."""
        return [pod for pod in self.terminating if self.has_kubelet(pod)]

    def has_kubelet(self, pod: Pod) -> bool:
        """Whether nothing is known against the kubelet of a pod's node, which ends the pod."""
        state = self.snapshot.nodes.get(pod.node_name)
        return state is None or state.node.is_ready

    @cached_property
    def pending_users(self) -> list[Pod]:
        """Users' pending pods in the scheduler's order: by priority, then by age."""
        return _scheduler_order(self._pending)

    @cached_property
    def holder_of(self) -> dict[ObjectKey, Placeholder]:
        """The placeholder by its warm claim."""
        return {key: each for each in self.placeholders.values() for key in each.claims}

    def shape_of(self, pod: Pod) -> str:
        """Id of the shape of a pending server; empty if it has none or a wrong one."""
        if self.own_shapes is not None:
            return self.own_shapes.get(ObjectKey.of(pod), "")
        return pod.labels.get(names.SHAPE, "")

    def reservation_unused(self, placeholder: Placeholder) -> bool:
        """Whether the pod exists but references none of its reserved claims."""
        reservation = placeholder.reservation
        return (
            reservation is not None
            and bool(placeholder.claims)
            and self.came_without_claims(placeholder.pod.namespace, reservation, placeholder.claims)
        )

    def came_without_claims(self, namespace: str, reservation: Reservation, claims: Collection[ObjectKey]) -> bool:
        """Whether the pod of a reservation exists but references none of its reserved claims.

        It was created without the answer, which came too late or never.
        """
        if reservation.since is None:
            return False
        pod = self.users.get(ObjectKey(namespace, reservation.pod))
        if pod is None or pod.is_deleted or not pod.created:
            return False
        # An older pod may have the same name. A pod's stamp has whole seconds.
        is_later = age(pod.created, reservation.since.replace(microsecond=0)) <= timedelta(0)
        return is_later and not any(ObjectKey(pod.namespace, each.claim or "") in claims for each in pod.claims)

    def warm(self, shape: str) -> list[Placeholder]:
        """Warm placeholders of a shape: running on nodes that are ready for users, and not reserved."""
        return [each for each in self.placeholders_of_shape.get(shape, ()) if each.state is PlaceholderState.WARM]

    def usable(self, shape: str) -> list[Placeholder]:
        """Placeholders of a shape that servers may get: with a node that is not drained, and not reserved."""
        drained = frozenset(self.drained_nodes())
        return [each for each in self.placeholders_of_shape.get(shape, ()) if each.is_free and each.node not in drained]

    def pods_naming(self, claim: ObjectKey) -> tuple[Pod, ...]:
        """Users' servers and placeholders that name a claim, the oldest first."""
        found = self.index.naming.get(claim, ())
        return tuple(sorted(found, key=lambda pod: (pod.created, ObjectKey.of(pod)))) if len(found) > 1 else found

    def _placeholder(self, key: ObjectKey, pod: Pod, reserved: Reservation | None) -> Placeholder:
        """A placeholder; the same object as in the last view, unless an object that it follows from has changed."""
        snapshot = self.snapshot
        known = self.index.seen_placeholders.get(key)
        # Where devices are tainted, a state follows from their slices, too.
        is_tainted = bool(self.index.tainted_slices)
        if known is None or reserved is not None or is_tainted:
            keys = tuple(ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim)
            doubts = self.doubts_of(pod.node_name)
            reservations = (reservation_of(snapshot.claims.get(each)) for each in keys)
            reservation = next((each for each in reservations if each is not None), None) or reserved
            state = seen_state(
                is_scheduled=bool(pod.node_name),
                is_started=is_proven(pod)
                and is_ready_for_users(snapshot.nodes.get(pod.node_name))
                and not is_held_in_doubt(doubts, snapshot, pod, keys)
                and not (is_tainted and why_closed(self.index, snapshot, keys)),
                is_reserved=reservation is not None,
                is_ended=False,
            )
            found = Placeholder(pod, pod.labels.get(names.SHAPE, ""), state, keys, reservation)
            known = found, bool(doubts.missing)
            if reserved is None and not is_tainted:
                self.index.seen_placeholders[key] = known
        if known[1]:
            self.doubtful.add(pod.node_name)
        return known[0]

    def _held(self, placeholder: Placeholder) -> Placeholder:
        """The placeholder; reserved if it is warm and held for a ticket."""
        ticket = self.tickets.by_uid.get(placeholder.pod.uid)
        if ticket is None or placeholder.state is not PlaceholderState.WARM:
            return placeholder
        state = following(PLACEHOLDER, placeholder.state, PlaceholderSeen.RESERVED)
        return replace(placeholder, state=state, ticket=ticket.id)

    def held_for(self, tickets: Collection[str], shape: str) -> Placeholder | None:
        """The placeholder of a shape that is held for one of these tickets, as it is without the hold; None if none."""
        for each in self.placeholders_of_shape.get(shape, ()):
            if each.ticket and each.ticket in tickets and each.reservation is None:
                return replace(each, state=following(PLACEHOLDER, each.state, PlaceholderSeen.RELEASED))
        return None

    def doubts_of(self, name: str) -> DeviceDoubts:
        """Doubts about the devices of a node."""
        return doubts_of(self.index, self.snapshot, name)

    def age_of_node(self, name: str) -> timedelta:
        """Age of a node; zero if that is not known."""
        created = self.index.created.get(name)
        return self.now - created if created is not None else timedelta(0)

    def nodes_younger_than(self, limit: timedelta) -> Iterator[NodeState]:
        """Nodes younger than a limit or of unknown age, the newest first."""
        since = self.now - limit
        for name in self.index.newest_nodes():
            moment = self.index.created[name]
            if moment is None or moment > since:
                yield self.snapshot.nodes[name]

    def drained_nodes(self) -> list[str]:
        """Names of nodes that are drained by order."""
        return [name for name, state in self.nodes_labelled(names.DRAINING) if is_drained(state)]

    def nodes_labelled(self, label: str) -> list[tuple[str, NodeState]]:
        """Nodes with a label that few nodes have, with any value."""
        return [(name, self.snapshot.nodes[name]) for name in sorted(self.index.labelled[label])]


def _scheduler_order(pods: Iterable[Pod]) -> list[Pod]:
    pending = [pod for pod in pods if not pod.is_deleted]
    return sorted(pending, key=lambda pod: (-pod.priority, pod.created, ObjectKey.of(pod)))


def _by_key(item: tuple[ObjectKey, object]) -> ObjectKey:
    return item[0]


def age(created: str, now: datetime) -> timedelta:
    """Age since a ``creationTimestamp``; zero if there is none."""
    try:
        return now - datetime.fromisoformat(created)
    except (ValueError, TypeError):
        return timedelta(0)


def wants_devices(pod: Pod) -> bool:
    """Whether a pod asks for devices, for which the scheduler does not preempt."""
    return bool(pod.claims) or any(is_extended_resource(name) for name in pod.requests)

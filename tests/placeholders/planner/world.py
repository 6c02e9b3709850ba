"""The service of a hub in a simulated cluster: the planner's decisions are made on a snapshot and carried out at once.

Thousands of rounds take a second. All worlds of the tests use the same words for the same acts: ``node``, ``pull``, ``user``, ``leave``,
``pass_time``, ``settle``; and for what can be seen: ``warm``, ``node_of``, ``users_on``, ``placeholders_on``, ``labelled``, ``ended``.
Each of them has what the others cannot have:

- `World` has snapshots alone, so whole days pass in a second; several hubs in it are `HubService`.
- `tests.placeholders.controller.world.PlaceholderWorld` has one reconciler on an API server with a scheduler: it shows that actions are
  carried out, and that watches bring the results.
- `tests.virtual_time.cluster_world.ClusterWorld` has a whole control plane and an autoscaler for a day; its clock jumps only while nothing
  happens, so that the schedulers' latencies count.
- `tests.service.chaos_world.ChaosWorld` has whole replicas of the service, each with a network of its own that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    ChangeTicket,
    CreatePlaceholder,
    DeleteClaim,
    DeletePlaceholder,
    LabelNode,
    LabelPod,
)
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.cluster.view import AwaitedServer, Placeholder, Reservation, View
from dra_spawner.placeholders.planner.decide import Decisions, decide
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge
from dra_spawner.simulator.model.pods import Pod
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.simulated_cluster import START, SimulatedCluster
from tests.presence import present
from tests.simulator.changes import reserve

SETTINGS = PlaceholderSettings(namespace=NAMESPACE)
#: The most rounds that a test's world may need to come to rest.
MAX_ROUNDS = 60


def policy_for(*shapes: tuple[Shape, int, int], **more: Any) -> Policy:
    """The least and the most placeholders of each shape."""
    replicas = {shape.id: ReplicaRange(minimum, maximum) for shape, minimum, maximum in shapes}
    return Policy(**{"shapes": {shape.id: shape for shape, _, _ in shapes}, "replicas": replicas, **more})


class HubService:
    """The service of one hub in a simulated cluster.

    Attributes
    ----------
    pending_records
        Users' pods that were pending in the last decision.
    quotas
        Returns the rest of the namespace's quotas.
    awaited
        Servers that are about to start.
    no_node
        The autoscaler's messages about pending pods, by uid.
    grace
        Time for which deleted placeholders are terminating.
    queue, change_ticket
        Returns the queue for devices, and writes into it.
    """

    def __init__(
        self, cluster: SimulatedCluster, policy: Policy, namespace: str = NAMESPACE, installation: str = ""
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.namespace = namespace
        self.installation = installation
        self.settings = PlaceholderSettings(
            namespace, labels={names.INSTALLATION: installation} if installation else {}
        )
        self.planner_state = PlannerState.fresh(cluster.now)
        self.index = ClusterIndex()
        self.log: list[tuple[datetime, Action]] = []
        self._last: Decisions | None = None
        self.pending_records: set[ObjectKey] = set()
        self.problem = ""
        self.reserved: dict[ObjectKey, Reservation] = {}
        self.stale = timedelta(0)
        self.knowledge: Mapping[Kind, Knowledge] = {}
        self.knows_quotas = True
        self.quotas: Callable[[], tuple[Quota, ...]] = lambda: ()
        self.awaited: list[AwaitedServer] = []
        self.no_node: dict[str, str] = {}
        self.queue: Callable[[], TicketQueue] = TicketQueue
        self.change_ticket: Callable[[ChangeTicket], None] = lambda action: None
        own = frozenset((namespace,))
        self.namespaces = Namespaces(own, own, own, installation)

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """As in a service, it is known what drivers prepare claims for, unless the test says it."""
        known = policy.drivers_prepare_for or drivers_prepare_for()
        self._policy = replace(policy, drivers_prepare_for=known)

    # --- decisions -------------------------------------------------------------------------------------------------

    def view(self, index: ClusterIndex | None = None) -> View:
        """The cluster as the service sees it now."""
        return View(
            self.cluster.snapshot,
            self.cluster.now,
            namespaces=self.namespaces,
            stale=self.stale,
            knowledge=self.knowledge,
            problem=self.problem,
            reserved=self.reserved,
            index=index or self.index,
            scheduler_message=lambda pod: self.cluster.refused.get(pod.name, ""),
            no_scale_up=lambda pod: self.no_node.get(pod.uid, ""),
            quotas=self.quotas(),
            knows_quotas=self.knows_quotas,
            awaited=self.awaited,
            tickets=self.queue(),
        )

    @property
    def searches(self) -> SearchLedger:
        """Costs of the searches of its rounds."""
        return self.planner_state.searches

    def decisions(self) -> Decisions:
        """Decide one round, without carrying it out."""
        view = self.view()
        self.pending_records = {ObjectKey.of(pod) for pod in view.pending_users}
        self._last = decided = decide(view, self.policy, self.planner_state)
        self.planner_state = decided.planner_state
        return decided

    def carry_out_all(self, decisions: Decisions) -> None:
        for action in decisions.actions:
            self.log.append((self.cluster.now, action))
            self.carry_out(action)

    def decide(self) -> Decisions:
        """Run one round, and carry it out."""
        decided = self.decisions()
        self.carry_out_all(decided)
        return decided

    def restart(self) -> None:
        """A new leader knows only the objects in the cluster."""
        self.planner_state = PlannerState.fresh(self.cluster.now)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        """The pod and its claims that would be created if a placeholder were deleted."""
        shape = self.policy.shapes[placeholder.labels[names.SHAPE]]
        return simulated_placeholder(shape, self.namespace, f"{placeholder.name}-again")

    @property
    def last(self) -> Decisions:
        """Decisions of the newest round."""
        return present(self._last)

    def carry_out(self, action: Action) -> None:
        """Act as the executor."""
        cluster, snapshot = self.cluster, self.cluster.snapshot
        match action:
            case CreatePlaceholder():
                self.create_placeholder(self.policy.shapes[action.shape], action)
            case DeletePlaceholder():
                pod = snapshot.pods[action.key]
                assert (pod.uid, pod.labels[names.COMPONENT]) == (action.uid, names.PLACEHOLDER)
                own = self.namespace, self.installation
                assert (pod.namespace, pod.labels.get(names.INSTALLATION, "")) == own, "it ends only its own"
                cluster.end_pod(action.key)
            case LabelNode():
                obj = cluster.objects["Node", ObjectKey("", action.node)]
                obj["metadata"]["labels"].pop(action.label, None)
                if action.value is not None:
                    obj["metadata"]["labels"][action.label] = action.value
                cluster.apply(obj)
            case LabelPod():
                cluster.relabel("Pod", action.key, {action.label: action.value})
            case AddConsumer():
                claim = snapshot.claims[action.claim]
                if action.owner:
                    snapshot.put(replace(claim, owner_uids=(*claim.owner_uids, action.pod_uid)))
                if action.consumer and claim.claim.is_allocated:
                    reserve(snapshot, action.claim, snapshot.pods[action.pod])
                if action.instead_of:
                    claim = snapshot.claims[action.claim]
                    left = tuple(each for each in claim.consumers if each.uid != action.instead_of)
                    snapshot.put(claim.with_consumers(left))
            case ChangeTicket():
                self.change_ticket(action)
            case DeleteClaim():
                assert snapshot.claims[action.claim].claim.uid == action.uid
                snapshot.remove_claim(action.claim)

    def create_placeholder(self, shape: Shape, action: CreatePlaceholder | None = None) -> None:
        """A placeholder is created, with its claims."""
        name, action = f"placeholder-{self.cluster.next_number()}", action or CreatePlaceholder(shape.id, "")
        for manifest in placeholder_claims(shape, name, self.settings, action.preferences):
            self.cluster.create(manifest)
        pod = placeholder_pod(shape, name, self.settings, action.avoid, action.unnamed, action.node, action.never)
        pod["spec"]["priority"] = -10
        self.cluster.create(pod)

    def placement(self, shape: Shape) -> Placement:
        """The answer to a server that is about to start."""
        return find_placement(self.view(), self.policy, shape, self.namespace)

    def reserve(self, claim: ObjectKey, pod: str, until: datetime | None = None) -> None:
        """Reserve a warm claim for a user, by default for half a minute."""
        begin = self.cluster.now
        since, end = (str(int(each.timestamp())) for each in (begin, until or begin + timedelta(seconds=30)))
        written = {names.RESERVED_FOR: pod, names.RESERVED_SINCE: since, names.RESERVED_UNTIL: end}
        self.cluster.relabel("ResourceClaim", claim, written)

    def reservation(self, placement: Placement, pod: str) -> str:
        """Act as `placeholders.placements`: reserve the warm placeholder for a user.

        Returns
        -------
        str
            Name of its claim; of the first claim if there are more.
        """
        kept = present(placement.placeholder)
        for key in kept.claims:
            self.reserve(key, pod)
            self.cluster.snapshot.put(replace(self.cluster.snapshot.claims[key], owner_uids=()))
        return kept.claims[0].name

    def set_replicas(self, shape: Shape, minimum: int, maximum: int, floor: int | None = None) -> None:
        """The target of one shape changes."""
        replicas = {**self.policy.replicas, shape.id: ReplicaRange(minimum, maximum, floor)}
        self.policy = replace(self.policy, replicas=replicas)

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of its placeholders."""
        return len(self.view().placeholders)

    def number(self, shape: Shape) -> int:
        """The number of its placeholders of a shape."""
        return len(self.view().placeholders_of_shape.get(shape.id, ()))

    def warm(self, shape: Shape) -> list[Placeholder]:
        return list(self.view().warm(shape.id))

    @property
    def pending_placeholders(self) -> list[Placeholder]:
        return [each for each in self.view().placeholders.values() if each.is_pending]

    @property
    def only(self) -> Placeholder:
        """The only placeholder."""
        (found,) = self.view().placeholders.values()
        return found

    def users_on(self, node: str) -> int:
        return len(self.view().users_of_node.get(node, ()))

    def placeholders_on(self, node: str) -> int:
        return len(self.view().placeholders_of_node.get(node, ()))

    def picture(self, *nodes: str) -> str:
        """``UUP+`` for each node: users, placeholders, free slots (by CPU)."""
        drawn = []
        for name in nodes:
            state = self.cluster.snapshot.nodes[name]
            free = (state.node.allocatable["cpu"] - state.requested.get("cpu", 0)) // 1000
            drawn.append("U" * self.users_on(name) + "P" * self.placeholders_on(name) + "+" * free)
        return " ".join(drawn)

    def actions(self, kind: type[Action]) -> list[Any]:
        return [action for _, action in self.log if isinstance(action, kind)]

    @property
    def made(self) -> int:
        """The number of created placeholders."""
        return len(self.actions(CreatePlaceholder))

    def ended(self, *causes: Cause) -> list[DeletePlaceholder]:
        """Deletions of placeholders for one of the causes; all, if none is given."""
        return [each for each in self.actions(DeletePlaceholder) if not causes or each.cause in causes]

    def written(self, label: str) -> list[str | None]:
        """The values of a node label, one after the other; None where the label was removed."""
        return [each.value for each in self.actions(LabelNode) if each.label == label]


class World(SimulatedCluster, HubService):
    """A cluster with one hub, whose scheduler and service take turns as time passes."""

    def __init__(self, policy: Policy, now: datetime = START) -> None:
        SimulatedCluster.__init__(self, now)
        HubService.__init__(self, self, policy)

    def settle(self, seconds: float = 1.0) -> None:
        """Scheduler and decisions take turns until nothing is left to do."""
        for _ in range(MAX_ROUNDS):
            self.schedule()
            done = self.decide()
            self.schedule()
            self.pass_time(seconds=seconds)
            if not done.actions:
                return
        raise AssertionError(f"did not come to rest: {self.log[-5:]}")

    def run(self, minutes: float, every_seconds: float = 5, each_round: Callable[[], object] = lambda: None) -> None:
        """Time passes, with a round every few seconds.

        Parameters
        ----------
        each_round
            Is called at the end of each round.
        """
        end = self.now + timedelta(minutes=minutes)
        while self.now < end:
            self.schedule()
            self.decide()
            self.schedule()
            each_round()
            self.pass_time(seconds=every_seconds)

    def fail_placeholders(self) -> None:
        """Kubelets end all placeholders on their nodes."""
        for pod in list(self.snapshot.pods.values()):
            if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER and pod.node_name and not pod.is_finished:
                self.fail(ObjectKey.of(pod))


def hub(
    *shapes: tuple[Shape, int, int], nodes: Iterable[str] = (), policy: Mapping[str, Any] | None = None, **node: Any
) -> World:
    """A cluster with the least and the most placeholders of each shape, and with equal nodes, at rest if there are any."""
    world = World(policy_for(*shapes, **(policy or {})))
    for name in nodes:
        world.node(name, **node)
    if nodes:
        world.settle()
    return world


def run_together(
    cluster: SimulatedCluster,
    services: Iterable[HubService],
    seconds: float = 60,
    *,
    at_once: bool = True,
    every: float = 1,
) -> None:
    """Time passes; the services decide at the same moments, or one after the other."""
    end = cluster.now + timedelta(seconds=seconds)
    services = tuple(services)
    while cluster.now < end:
        if at_once:
            for service, decisions in [(each, each.decisions()) for each in services]:
                service.carry_out_all(decisions)
        else:
            for service in services:
                service.decide()
        cluster.schedule()
        cluster.pass_time(seconds=every)

"""A simulated cluster with placeholders: the planner's decisions are made on a snapshot and carried out at once.

Thousands of rounds take a second. The effects of an API server are tested in `tests.placeholders.controller.world`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    CreatePlaceholder,
    DeleteClaim,
    DeletePlaceholder,
    LabelNode,
    LabelPod,
)
from dra_spawner.placeholders.planner.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.decide import Decisions, decide
from dra_spawner.placeholders.planner.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.placement import Placement
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.quotas import Quota
from dra_spawner.placeholders.planner.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import AwaitedServer, Reservation, View
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.pods import Pod
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.simulated_cluster import START, SimulatedCluster
from tests.presence import present
from tests.simulator.changes import reserve

SETTINGS = PlaceholderSettings(namespace=NAMESPACE)
#: The most rounds that a test's world may need to come to rest.
MAX_ROUNDS = 60


class World(SimulatedCluster):
    """See the module.

    Attributes
    ----------
    pending_records
        Users' pods that were pending in the last decision.
    quotas
        Returns the rest of the namespace's quotas.
    no_node
        The autoscaler's messages about pending pods, by uid.
    grace
        Time for which deleted placeholders are terminating.
    """

    def __init__(self, policy: Policy, now: datetime = START) -> None:
        super().__init__(now)
        self.policy = policy
        self.planner_state = PlannerState.fresh(now)
        self.index = ClusterIndex()
        self.searches = SearchLedger()
        self.log: list[tuple[datetime, Action]] = []
        self._last: Decisions | None = None
        self.pending_records: set[ObjectKey] = set()
        self.problem = ""
        self.reserved: dict[ObjectKey, Reservation] = {}
        self.stale = timedelta(0)
        self.quotas: Callable[[], tuple[Quota, ...]] = lambda: ()
        """The rest of the namespace's quotas."""
        self.awaited: list[AwaitedServer] = []
        """Servers that are about to start."""
        self.no_node: dict[str, str] = {}
        self.grace = timedelta(0)
        self._terminating: list[tuple[datetime, ObjectKey]] = []

    def pass_time(self, **time: float) -> None:
        super().pass_time(**time)
        for key in [key for end, key in self._terminating if end <= self.now]:
            self.remove_pod(key)
        self._terminating = [each for each in self._terminating if each[0] > self.now]

    # --- decisions -------------------------------------------------------------------------------------------------

    def view(self, index: ClusterIndex | None = None) -> View:
        return View(
            self.snapshot,
            self.now,
            namespaces={NAMESPACE},
            stale=self.stale,
            problem=self.problem,
            reserved=self.reserved,
            index=index or self.index,
            scheduler_message=lambda pod: self.refused.get(pod.name, ""),
            no_scale_up=lambda pod: self.no_node.get(pod.uid, ""),
            quotas=self.quotas(),
            awaited=self.awaited,
            searches=self.searches,
        )

    def decide(self) -> Decisions:
        """Run one round, and carry it out."""
        view = self.view()
        self.pending_records = {ObjectKey.of(pod) for pod in view.pending_users}
        self._last = decided = decide(view, self.policy, self.planner_state)
        self.planner_state = decided.planner_state
        for action in decided.actions:
            self.log.append((self.now, action))
            self.carry_out(action)
        return decided

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

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        """The pod and its claims that would be created if a placeholder were deleted."""
        shape = self.policy.shapes[placeholder.labels[names.SHAPE]]
        return simulated_placeholder(shape, NAMESPACE, f"{placeholder.name}-again")

    @property
    def last(self) -> Decisions:
        """Decisions of the newest round."""
        return present(self._last)

    def carry_out(self, action: Action) -> None:
        """Act as the executor."""
        match action:
            case CreatePlaceholder():
                self.create_placeholder(self.policy.shapes[action.shape], action.avoid)
            case DeletePlaceholder():
                assert self.snapshot.pods[action.key].uid == action.uid
                assert self.snapshot.pods[action.key].labels[names.COMPONENT] == names.PLACEHOLDER
                if self.grace:
                    self.snapshot.put(replace(self.snapshot.pods[action.key], is_deleted=True))
                    self._terminating.append((self.now + self.grace, action.key))
                else:
                    self.remove_pod(action.key)
            case LabelNode():
                obj = self.objects["Node", ObjectKey("", action.node)]
                obj["metadata"]["labels"].pop(action.label, None)
                if action.value is not None:
                    obj["metadata"]["labels"][action.label] = action.value
                self.apply(obj)
            case LabelPod():
                self.relabel("Pod", action.key, {action.label: action.value})
            case AddConsumer():
                claim = self.snapshot.claims[action.claim]
                if action.owner:
                    self.snapshot.put(replace(claim, owner_uids=(*claim.owner_uids, action.pod_uid)))
                if action.consumer and claim.claim.is_allocated:
                    reserve(self.snapshot, action.claim, self.snapshot.pods[action.pod])
            case DeleteClaim():
                assert self.snapshot.claims[action.claim].claim.uid == action.uid
                self.snapshot.remove_claim(action.claim)

    def create_placeholder(
        self, shape: Shape, avoid: Collection[str] = (), settings: PlaceholderSettings = SETTINGS
    ) -> None:
        """A placeholder is created, with its claims."""
        name = f"placeholder-{next(self._numbers)}"
        for manifest in placeholder_claims(shape, name, settings):
            self.create(manifest)
        pod = placeholder_pod(shape, name, settings, avoid)
        pod["spec"]["priority"] = -10
        self.create(pod)

    def reserve(self, claim: ObjectKey, pod: str, until: datetime) -> None:
        """Reserve a warm claim for a user."""
        since, end = (str(int(each.timestamp())) for each in (self.now, until))
        written = {names.RESERVED_FOR: pod, names.RESERVED_SINCE: since, names.RESERVED_UNTIL: end}
        self.relabel("ResourceClaim", claim, written)

    def reservation(self, placement: Placement, pod: str) -> str:
        """Act as `placeholders.placements`: reserve the warm placeholder for a user.

        Returns
        -------
        str
            Name of its claim; of the first claim if there are more.
        """
        kept = placement.placeholder
        assert kept is not None
        for key in kept.claims:
            self.reserve(key, pod, self.now + timedelta(seconds=30))
            self.snapshot.put(replace(self.snapshot.claims[key], owner_uids=()))
        return kept.claims[0].name

    def fail_placeholders(self) -> None:
        """Kubelets end all placeholders on their nodes."""
        for pod in list(self.snapshot.pods.values()):
            if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER and pod.node_name and not pod.is_finished:
                self.snapshot.put(replace(pod, phase="Failed"))

    # --- what can be seen ------------------------------------------------------------------------------------------

    def users_on(self, node: str) -> int:
        return len(self.view().users_of_node.get(node, ()))

    def placeholders_on(self, node: str) -> int:
        return len(self.view().placeholders_of_node.get(node, ()))

    def picture(self, *nodes: str) -> str:
        """``UUP+`` for each node: users, placeholders, free slots (by CPU)."""
        drawn = []
        for name in nodes:
            state = self.snapshot.nodes[name]
            free = (state.node.allocatable["cpu"] - state.requested.get("cpu", 0)) // 1000
            drawn.append("U" * self.users_on(name) + "P" * self.placeholders_on(name) + "+" * free)
        return " ".join(drawn)

    def actions(self, kind: type[Action]) -> list[Any]:
        return [action for _, action in self.log if isinstance(action, kind)]

    def is_ready(self, node: str) -> bool:
        return names.IMAGES_READY in self.snapshot.nodes[node].node.labels

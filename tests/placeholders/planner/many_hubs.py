"""Services of several hubs in one simulated cluster, each with its own namespace, view and state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.decide import Decisions, decide
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.view import View
from tests.placeholders.planner.world import World
from tests.presence import present


class HubService:
    """The service of one hub.

    Attributes
    ----------
    created, deleted
        Its placeholders, in the order of its actions.
    """

    def __init__(self, world: World, policy: Policy, namespace: str, installation: str = "dra-spawner") -> None:
        self.world = world
        self.policy = policy
        self.namespace = namespace
        self.installation = installation
        self.index = ClusterIndex()
        self.searches = SearchLedger()
        self.planner_state = PlannerState.fresh(world.now)
        self.created: list[CreatePlaceholder] = []
        self.deleted: list[DeletePlaceholder] = []
        self._last: Decisions | None = None

    @property
    def last(self) -> Decisions:
        """Decisions of the newest round."""
        return present(self._last)

    def view(self) -> View:
        """The cluster as the service sees it now."""
        own = frozenset((self.namespace,))
        within = Namespaces(own, own, own, self.installation)
        world = self.world
        return View(world.snapshot, world.now, namespaces=within, index=self.index, searches=self.searches)

    def decide(self) -> Decisions:
        """Decide one round, without carrying it out."""
        self._last = found = decide(self.view(), self.policy, self.planner_state)
        self.planner_state = found.planner_state
        return found

    def carry_out(self, decisions: Decisions) -> None:
        """Act as the executor of the service."""
        settings = PlaceholderSettings(self.namespace, labels={names.INSTALLATION: self.installation})
        for action in decisions.actions:
            if isinstance(action, CreatePlaceholder):
                self.created.append(action)
                self.world.create_placeholder(self.policy.shapes[action.shape], action.avoid, settings)
                continue
            if isinstance(action, DeletePlaceholder):
                self.deleted.append(action)
                pod = self.world.snapshot.pods[action.key]
                own = self.namespace, self.installation
                assert (pod.namespace, pod.labels.get(names.INSTALLATION)) == own, "it ends only its own"
            self.world.carry_out(action)

    @property
    def number(self) -> int:
        """The number of its placeholders."""
        return len(self.view().placeholders)


def run_together(
    world: World, services: Iterable[HubService], seconds: float = 60, *, at_once: bool = True, every: float = 1
) -> None:
    """Time passes; the services decide at the same moments, or one after the other."""
    end = world.now + timedelta(seconds=seconds)
    services = tuple(services)
    while world.now < end:
        if at_once:
            for service, decisions in [(each, each.decide()) for each in services]:
                service.carry_out(decisions)
        else:
            for service in services:
                service.carry_out(service.decide())
        world.schedule()
        world.pass_time(seconds=every)

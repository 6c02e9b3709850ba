"""A random day of a small cluster: its rehearsal, and then what happens, in virtual time."""

from __future__ import annotations

from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAheadSettings
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from tests.placeholders.planner.autoscaler import Autoscaler
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim, preferring
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.controller.following import Following
from tests.scale_ahead.rehearsal.announced_day import AnnouncedDay, come

#: Time after which a user who has no node waits for one.
SOON = timedelta(seconds=10)


class ComingDay:
    """The planner's and scale-ahead's decisions in a simulated cluster.

    Attributes
    ----------
    waited
        Users who had no node ten seconds after they came.
    """

    def __init__(self, day: AnnouncedDay) -> None:
        self.day = day
        self.following = found = Following(*day.entries(START), mode=day.mode, replicas=day.replicas)
        found.ahead.settings = ScaleAheadSettings(day.mode, DemandOptions(node_lead=day.boot + day.pull))
        found.slots.kinds = (day.kind,)
        self.world = world = found.world
        world.now = START - timedelta(minutes=1)
        for number in range(day.present):
            world.node(f"present-{number}", cpu="100", gpus=day.slots)
        world.settle()
        for number in range(day.running):
            self._arrive(f"running-{number}")
        self.autoscaler = Autoscaler(world, day.node_group) if day.has_autoscaler else None
        if self.autoscaler is not None:  # as if nodes were empty since the rehearsal
            self.autoscaler.unneeded += timedelta(minutes=1)
        self._decide()
        assert world.now < START
        world.now = START
        found.ahead.begin(START - timedelta(minutes=1))
        self.rehearsed = day.rehearse(START, GPU, world.view(), NAMESPACE)
        self.waited = 0

    def happen(self) -> None:
        """Let everything happen until the last user has come."""
        coming = list(enumerate(come(self.rehearsed)))
        minute, came = START, dict[str, datetime]()
        while coming or came:
            if self.world.now >= minute:
                minute += timedelta(minutes=1)
                self.following.advance()
            self._decide()
            for name in [name for name, at in came.items() if self.world.now - at >= SOON]:
                del came[name]
                self.waited += not self.world.node_of(name)
            while coming and coming[0][1] <= self.world.now:
                number, at = coming.pop(0)
                came[f"user-{number}"] = at
                self._arrive(f"user-{number}")
            self._decide()
            moments = [minute, *(at + SOON for at in came.values()), *(at for _, at in coming[:1])]
            moments += self.autoscaler.moments() if self.autoscaler is not None else ()
            self.world.now = min(each for each in moments if each > self.world.now)

    def _decide(self) -> None:
        self.world.schedule(_kind)
        for _ in range(20):
            acted = self.world.decide().actions
            self.world.schedule(_kind)
            if not (self.autoscaler is not None and self.autoscaler.run()) and not acted:
                return

    def _arrive(self, name: str) -> None:
        """A user comes, as a hub starts a server."""
        world = self.world
        found = find_placement(world.view(), world.policy, GPU, NAMESPACE)
        if found.state is AvailabilityState.READY and found.placeholder is not None:
            world.user(name, claim_names={"gpu": world.reservation(found, name)})
        else:
            world.user(name, {"gpu": gpu_claim()}, affinity=preferring(found.node) if found.node else {})
        self.following.launch(uid=name)
        assert ObjectKey(NAMESPACE, name) in world.snapshot.pods


def _kind(pod: Pod) -> tuple[bool, str]:
    """Users without a reservation are alike, and placeholders are."""
    is_placeholder = pod.labels.get(names.COMPONENT) == names.PLACEHOLDER
    return is_placeholder, "" if is_placeholder or any(each.template for each in pod.claims) else pod.name


def happens_as_rehearsed(day: AnnouncedDay) -> None:
    """Whether the verdicts of a day are right, and whether as many users wait as they say."""
    coming = ComingDay(day)
    coming.happen()
    day.check(coming.rehearsed, coming.waited)

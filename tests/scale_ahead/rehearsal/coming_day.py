"""A random day of a small cluster: its rehearsal, and then what happens, in virtual time."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions, ScaleAheadMode
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAheadSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import described_supplies
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from dra_spawner.scale_ahead.rehearsal.timetable import arrivals
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.autoscaler import Autoscaler, NodeGroup
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.controller.following import KIND, LEAD, Following, entry

PULL = timedelta(minutes=1)
STEP = timedelta(seconds=30)
SLOTS = 4


class ComingDay:
    """Nodes of four GPUs, of which some are there; one or two entries, perhaps too soon; a mode, perhaps an autoscaler.

    Attributes
    ----------
    waited
        Users who had no node half a minute after they came.
    """

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.acts, self.has_autoscaler = random.random() < 0.7, random.random() < 0.7
        present, most = random.randrange(3), random.randrange(3, 9)
        rate = random.choice((None, 1, 2))
        limit = random.choice((8, 60, 60))
        begins = [START + timedelta(minutes=random.choice((6, 15, 40, 60)))]
        if self.acts and self.has_autoscaler and random.random() < 0.6:
            begins.append(begins[0] + timedelta(minutes=random.choice((0, 3, 10, 40))))
        users = [random.randrange(1, 21) for _ in begins]
        ramp = random.choice((0, 5, 15))
        entries = [
            entry(f"{count} of gpu within {ramp} min", at, f"class {index}", minutes=60)
            for index, (count, at) in enumerate(zip(users, begins, strict=True))
        ]
        mode = ScaleAheadMode.ACT if self.acts else ScaleAheadMode.ADVISE
        self.following = found = Following(*entries, mode=mode, replicas=ReplicaRange(0, limit))
        found.ahead.settings = ScaleAheadSettings(mode, DemandOptions(node_lead=LEAD))
        kind = NodeKind(f"g{SLOTS}", SLOTS, (LEAD - PULL,), PULL, max_nodes=most, starts_per_minute=rate)
        found.slots.kinds = (kind,)
        self.world = world = found.world
        for number in range(present):
            world.node(f"present-{number}", cpu="100", gpus=SLOTS)
        group = NodeGroup("100", SLOTS, "", 0, most, LEAD - PULL, timedelta(0), PULL, rate)
        self.autoscaler = Autoscaler(world, group) if self.has_autoscaler else None
        world.settle()
        world.now = START
        self._expected = [
            ExpectedUsers("gpu", GPU, count, at, ramp=timedelta(minutes=ramp))
            for count, at in zip(users, begins, strict=True)
        ]
        settings = RehearsalSettings(
            max_placeholders=limit,
            not_prepared="" if self.acts else "scale-ahead only advises",
            has_autoscaler=self.has_autoscaler,
        )
        supplies = described_supplies(world.view(), (kind,), "gpu", KIND, {})
        self.rehearsed: list[Rehearsal] = rehearse_day(
            [
                Announced(f"class {index}", each, each.begins + timedelta(hours=1), supplies, settings)
                for index, each in enumerate(self._expected)
            ],
            world.view(),
            NAMESPACE,
        )
        self.waited = 0

    @property
    def predicted(self) -> int:
        """Users who wait, by the rehearsal."""
        done = self.acts and self.has_autoscaler
        return sum((each.with_orders if done else each.without_orders).users for each in self.rehearsed)

    def happen(self) -> None:
        """Let everything happen until half an hour after the last begin."""
        come = sorted(at for each in self._expected for at in arrivals(each.begins, each.ramp, each.users))
        last = max(each.begins for each in self._expected) + timedelta(minutes=30)
        before: list[str] = []
        number = 0
        while self.world.now < last:
            self.world.pass_time(seconds=STEP.total_seconds())
            if not self.world.now.second:
                self.following.advance()
            self._decide()
            self.waited += sum(not self.world.node_of(name) for name in before)
            before = []
            while come and come[0] <= self.world.now:
                del come[0]
                before.append(f"user-{number}")
                self._arrive(before[-1])
                number += 1
            self._decide()

    def _decide(self) -> None:
        self.world.schedule()
        for _ in range(20):
            acted = self.world.decide().actions
            self.world.schedule()
            if not (self.autoscaler is not None and self.autoscaler.run()) and not acted:
                return

    def _arrive(self, name: str) -> None:
        """A user comes, as a hub starts a server."""
        world = self.world
        found = find_placement(world.view(), world.policy, GPU, NAMESPACE)
        if found.state is AvailabilityState.READY and found.placeholder is not None:
            world.user(name, claim_names={"gpu": world.reservation(found, name)})
        else:
            world.user(name, {"gpu": gpu_claim()})
        self.following.launch(uid=name)
        world.schedule()
        assert ObjectKey(NAMESPACE, name) in world.snapshot.pods

"""A class that no entry announces, for the first time, with the product's rules: who waits, and what a choice beside it changes.

Run ``python -m tests.bench.unannounced_class``. The class is that of `tests.bench.class_that_failed`: 70 servers run, 250
users more come within 15 minutes. Here the forecast, the planner, and the rule by which a start takes another choice
(``instead`` with ``take_instead``) decide, and the simulator schedules pods and their claims. Only the autoscaler is a stand-in.

A node has two GPUs of 100 GiB, so ten servers with 20 GiB, each with 2 CPUs. What CPUs it has beside, servers without a GPU
can use. New nodes take ten minutes, five are ordered in a minute at most. Judged are launches from 17:00 to 17:30; a server
that does not run within 60 seconds waits. The demand of usual days is the same in all rows, and so are its idle placeholders.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.demand.policies import ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.spawner.availability.shown import ShownAvailability
from dra_spawner.spawner.instead_choice import first_available
from tests.bench.class_that_failed import BEGINS, KIND, scenario
from tests.bench.figures import options_parser
from tests.placeholders.planner.objects import NAMESPACE, Json, preferring, share_claim, user_shape
from tests.placeholders.planner.world import World, policy_for

__all__ = ["Choice", "Figures", "Setting", "UnannouncedClass"]

SEEDS: Final = (1, 2, 3)
_LEAD: Final = max(KIND.lead_times)
_STARTS: Final = 5
_JUDGED: Final = timedelta(minutes=30)
_LONGEST: Final = timedelta(seconds=60)
#: Seconds between two rounds of the service and of the scheduler.
_ROUND: Final = 10
_SLOTS: Final = 10
#: Placeholders that may be.
_MOST: Final = 400


@dataclass(frozen=True)
class Choice:
    """A choice of the form: its devices, and what it needs of a node beside them."""

    claims: dict[str, Json]
    cpu: str
    memory: str

    @property
    def shape(self) -> Shape:
        return user_shape(self.claims, self.cpu, memory=self.memory)


SLICE: Final = Choice({"gpu": share_claim("20Gi")}, "2", "8Gi")
QUARTER: Final = Choice({"gpu": share_claim("5Gi")}, "500m", "2Gi")
NO_GPU: Final = Choice({}, "1", "1Gi")
HALF_A_CPU: Final = Choice({}, "500m", "512Mi")


@dataclass(frozen=True)
class Setting:
    """What an administrator has set.

    Attributes
    ----------
    chosen
        The choice of the class; servers that run before it have 20 GiB.
    instead
        Choices that a start takes while the chosen one is not free, the best first; none: it waits.
    cpus
        CPUs of a node; ten servers use 20 of them.
    accept
        Share of users for whom another choice may be taken (the others have not ticked it).
    """

    name: str
    chosen: Choice = SLICE
    instead: tuple[Choice, ...] = ()
    cpus: int = 24
    accept: float = 1.0


_TAKEN: Final = (NO_GPU,)
SETTINGS: Final = (
    Setting("nothing set"),
    Setting("a quarter of a share is taken instead", instead=(QUARTER,)),
    Setting("the class chooses a quarter of a share", chosen=QUARTER),
    Setting("no GPU is taken instead, 4 CPUs free on each node", instead=_TAKEN),
    Setting("no GPU is taken instead, 8 CPUs free on each node", instead=_TAKEN, cpus=28),
    Setting("no GPU is taken instead, 16 CPUs free on each node", instead=_TAKEN, cpus=36),
    Setting("the same, half of the users have ticked it", instead=_TAKEN, cpus=36, accept=0.5),
    Setting("half a CPU is taken instead, 8 CPUs free on each node", instead=(HALF_A_CPU,), cpus=28),
)


@dataclass(frozen=True)
class Figures:
    """What happened.

    Attributes
    ----------
    waited
        Launches that did not run within 60 seconds.
    instead
        Launches that took another choice.
    """

    launches: int
    waited: int
    instead: int

    @property
    def share_waiting(self) -> float:
        return self.waited / self.launches


class UnannouncedClass(World):
    """See the module."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = setting
        self._choices = {"usual": SLICE, "chosen": setting.chosen}
        self._instead_names = [f"instead-{number}" for number in range(len(setting.instead))]
        self._choices |= dict(zip(self._instead_names, setting.instead, strict=True))
        shapes = {name: each.shape for name, each in self._choices.items()}
        self._shapes, self._own = shapes, shapes["usual"]
        super().__init__(policy_for((self._own, 0, _MOST), *((each, 0, 0) for each in shapes.values())), BEGINS)
        self.set_replicas(self._own, 0, _MOST)
        self._draw = Random(seed)
        self._asked: dict[str, datetime] = {}
        self._ends: dict[str, datetime] = {}
        self._ready: list[datetime] = []
        self._arrivals = self._departures = self._instead = self._late = 0
        trace = scenario(seed, 0, None).trace
        self._coming = trace.launches[minute_of(BEGINS) - trace.begin :]
        self._demand, self._target, running = _learned(seed)
        self._begin(running)

    # --- before the class ---------------------------------------------------------------------------------------------

    def _begin(self, running: Sequence[int]) -> None:
        """The nodes of servers and placeholders, packed, at the begin of the class."""
        for _ in range(-(-(len(running) + self._target) // _SLOTS)):
            self._node()
        for minutes in running:
            self._start_server("usual", self.now + timedelta(minutes=minutes))
        self._asked.clear()
        self.set_replicas(self._own, self._target, _MOST)
        self.schedule(_kind_of)
        self.settle()
        self.now = BEGINS

    def _node(self) -> None:
        self.node(f"node-{self.next_number():04}", cpu=str(self.setting.cpus), gpus=2, memory="100Gi")

    # --- the class ----------------------------------------------------------------------------------------------------

    def live(self) -> Figures:
        """Half an hour."""
        launches = 0
        while self.now < BEGINS + _JUDGED:
            minute = minute_of(self.now)
            coming = self._coming[minute - minute_of(BEGINS)]
            moments = sorted(self._draw.uniform(0, 60) for _ in range(coming))
            launches += coming
            for second in range(0, 60, _ROUND):
                self._nodes_come()
                self._servers_end()
                for _ in [each for each in moments if second <= each < second + _ROUND]:
                    self._launch()
                self._round()
                self.pass_time(seconds=_ROUND)
            self._next_minute(minute)
        self._late += sum(self.now - asked > _LONGEST for asked in self._asked.values())
        return Figures(launches, self._late, self._instead)

    @property
    def _waiting(self) -> list[Pod]:
        return [pod for pod in self.pending_pods() if pod.labels[names.COMPONENT] == names.USER_SERVER]

    def _launch(self) -> None:
        """A user starts a server, as the spawner does: with what is free now, if the own choice is not."""
        name = "chosen"
        if self.setting.instead and self._draw.random() < self.setting.accept:
            states = {each: ShownAvailability(self._state(each)) for each in (name, *self._instead_names)}
            name = first_available(name, self._instead_names, states)
        self._instead += name != "chosen"
        self._arrivals += self._choices[name] is SLICE
        self._start_server(name, self.now + timedelta(minutes=self._draw.expovariate(1 / 50)))
        self.schedule(_kind_of)

    def _state(self, name: str) -> AvailabilityState:
        return find_placement(self.view(), self.policy, self._shapes[name], NAMESPACE).state

    def _start_server(self, name: str, end: datetime) -> None:
        choice, server = self._choices[name], f"server-{self.next_number()}"
        found = find_placement(self.view(), self.policy, self._shapes[name], NAMESPACE)
        kind: Json = {"cpu": choice.cpu, "memory": choice.memory}
        if found.node:
            kind["affinity"] = preferring(found.node)
        if found.state is AvailabilityState.READY and found.placeholder is not None and found.placeholder.claims:
            self.user(server, claim_names=dict.fromkeys(choice.claims, self.reservation(found, server)), **kind)
        else:
            self.user(server, choice.claims, **kind)
        self._asked[server], self._ends[server] = self.now, end

    def _round(self) -> None:
        self.schedule(_kind_of)
        self.decide()
        self.schedule(_kind_of)
        for server, asked in list(self._asked.items()):
            if self.node_of(server):
                self._late += self.now - asked > _LONGEST
                del self._asked[server]

    def _servers_end(self) -> None:
        for server, end in list(self._ends.items()):
            if end <= self.now and self.node_of(server):
                self._departures += self.snapshot.pods[ObjectKey(NAMESPACE, server)].labels[names.SHAPE] == self._own.id
                self.leave(server)
                del self._ends[server]

    def _nodes_come(self) -> None:
        """The autoscaler: nodes for pods that have none, so many a minute, each after the lead time."""
        while self._ready and self._ready[0] <= self.now:
            self._ready.pop(0)
            self._node()
        wanted = -(-len(self.pending_pods()) // _SLOTS) - len(self._ready)
        started = sum(ready > self.now + _LEAD - timedelta(minutes=1) for ready in self._ready)
        self._ready += [self.now + _LEAD] * max(min(wanted, _STARTS - started), 0)

    def _next_minute(self, minute: int) -> None:
        own = [pod for pod in self.view().users.values() if pod.labels[names.SHAPE] == self._own.id and pod.node_name]
        free = len({pod.node_name for pod in own}) * _SLOTS - len(own)
        situation = replace(_situation(len(own), free), pending_spawns=len(self._waiting))
        answer = self._demand.step(minute, self._arrivals, self._departures, situation)
        self._arrivals = self._departures = 0
        self.set_replicas(self._own, min(answer.placeholders if answer is not None else 0, _MOST), _MOST)


def _situation(present: int, free: int) -> GroupSituation:
    return GroupSituation(_LEAD, present, slots_per_node=_SLOTS, free_slots=free, node_starts_per_minute=_STARTS)


@cache
def _lived(seed: int) -> tuple[GroupDemand, int, tuple[int, ...]]:
    """Four weeks before the class: what was learned, the target, and the minutes that each running server has left."""
    trace, begin = scenario(seed, 0, None).trace, minute_of(BEGINS)
    demand = GroupDemand(trace.begin, DemandSettings(), ForecastDemand())
    ends: Counter[int] = Counter()
    lengths, present, target = iter(trace.lengths or ()), 0, 0
    for minute, launches in trace.minutes():
        if minute >= begin:
            break
        ended = ends.pop(minute, 0)
        present += launches - ended
        ends.update(minute + next(lengths) for _ in range(launches))
        answer = demand.step(minute, launches, ended, _situation(present, -present % _SLOTS), served=(launches, 0))
        target = answer.placeholders if answer is not None else 0
    return demand, target, tuple(end - begin for end in ends.elements())


def _learned(seed: int) -> tuple[GroupDemand, int, tuple[int, ...]]:
    demand, target, running = _lived(seed)
    return deepcopy(demand), target, running


def _kind_of(pod: Pod) -> tuple[str, str]:
    return pod.labels[names.COMPONENT], pod.labels[names.SHAPE]


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS, help="drawings (%(default)s)")
    options = parser.parse_args()
    print("share of launches that wait more than 60 s, mean and worst; share with another choice")
    for setting in SETTINGS:
        found = [UnannouncedClass(setting, seed).live() for seed in options.seeds]
        waiting = [each.share_waiting for each in found]
        other = sum(each.instead for each in found) / sum(each.launches for each in found)
        print(f"  {setting.name:50} {sum(waiting) / len(waiting):6.1%} {max(waiting):6.1%} {other:6.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

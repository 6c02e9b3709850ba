"""A random cluster with nodes, an autoscaler or none, a mode, and the calendar entries of a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import pytest

from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, IN_TOTAL, Counts
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import described_supplies
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from dra_spawner.scale_ahead.rehearsal.timetable import arrivals
from tests.placeholders.planner.autoscaler import NodeGroup
from tests.scale_ahead.controller.following import KIND, entry


@dataclass(frozen=True)
class AnnouncedClass:
    """Users of one entry, some minutes after the day begins."""

    users: int
    minutes: int
    ramp: int
    counts: Counts


class AnnouncedDay:
    """See the module.

    Attributes
    ----------
    present, running
        Number of nodes that are there at the beginning, and of servers that run on them all the time.

    Parameters
    ----------
    is_short
        Whether it has one or two entries of the next half hour, with fewer users.
    """

    def __init__(self, seed: int, *, is_short: bool = False) -> None:
        random = Random(seed)
        self.mode = random.choice((*(ScaleAheadMode.ACT,) * 4, ScaleAheadMode.ADVISE, ScaleAheadMode.OBSERVE))
        self.has_autoscaler = random.random() < 0.75
        self.slots = random.choice((1, 2, 4, 8))
        self.present, self.most = random.randrange(4), random.randrange(3, 9)
        self.running = random.randrange(self.present * self.slots + 1) if random.random() < 0.5 else 0
        self.starts_per_minute = random.choice((None, 1, 2))
        self.replicas = ReplicaRange(random.choice((0, 0, 1, 3)), random.choice((8, 60, 60)))
        self.pull = timedelta(minutes=random.choice((1, 2, 4)))
        self.boot = timedelta(minutes=random.choice((3, 6, 9)))
        begins, self.classes = random.choice((6, 15, 25) if is_short else (6, 15, 40, 60)), []
        for _ in range(random.choice((1, 2) if is_short else (1, 1, 2, 3))):
            counts = IN_TOTAL if random.random() < 0.2 else ADDITIONAL
            self.classes.append(
                AnnouncedClass(random.randrange(1, 11 if is_short else 21), begins, random.choice((0, 5, 15)), counts)
            )
            begins += random.choice((0, 3, 10) if is_short else (0, 3, 10, 40))

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in vars(self).items())

    @property
    def kind(self) -> NodeKind:
        """The nodes that can come, as an administrator describes them."""
        return NodeKind(
            f"g{self.slots}",
            self.slots,
            (self.boot,),
            self.pull,
            max_nodes=self.most,
            starts_per_minute=self.starts_per_minute,
        )

    @property
    def node_group(self) -> NodeGroup:
        """The same nodes, for the autoscaler."""
        rate = self.starts_per_minute
        return NodeGroup("100", self.slots, "", 0, self.most, self.boot, timedelta(0), self.pull, rate)

    def entries(self, start: datetime) -> list[CalendarEntry]:
        """The calendar of a day that begins at a time in UTC."""
        return [
            entry(
                f"{each.users} of gpu {each.counts} within {each.ramp} min",
                start + timedelta(minutes=each.minutes),
                f"class {number}",
                minutes=90,
            )
            for number, each in enumerate(self.classes)
        ]

    def rehearse(
        self, start: datetime, shape: Shape, view: View, namespace: str, target: int | None = None
    ) -> list[Rehearsal]:
        """Rehearse all of it, as the service does, with the present target of placeholders."""
        settings = RehearsalSettings(
            max_placeholders=self.replicas.max,
            min_placeholders=self.replicas.min,
            not_prepared="" if self.mode is ScaleAheadMode.ACT else f"scale-ahead only {self.mode.value}s",
            has_autoscaler=self.has_autoscaler,
            target=target,
        )
        supplies = described_supplies(view, (self.kind,), "gpu", KIND, {})
        announced = []
        for number, each in enumerate(self.classes):
            begins = start + timedelta(minutes=each.minutes)
            expected = ExpectedUsers("gpu", shape, each.users, begins, each.counts, timedelta(minutes=each.ramp))
            announced.append(Announced(f"class {number}", expected, begins + timedelta(minutes=90), supplies, settings))
        return rehearse_day(announced, view, namespace)

    def check(self, rehearsed: Sequence[Rehearsal], waited: int) -> None:
        """Compare what was rehearsed with the number of users who then waited."""
        is_done = self.mode is ScaleAheadMode.ACT and self.has_autoscaler
        predicted = sum((each.with_orders if is_done else each.without_orders).users for each in rehearsed)
        verdicts = [each.verdict for each in rehearsed]
        assert all(each.is_possible for each in rehearsed) is (not waited), (waited, predicted, verdicts, str(self))
        assert waited == pytest.approx(predicted, rel=0.1, abs=2), (verdicts, str(self))


def come(rehearsed: Sequence[Rehearsal]) -> list[datetime]:
    """Times at which users come, in order: those who are not part of a number in total already."""
    return sorted(at for each in rehearsed for at in arrivals(each.expected.begins, each.expected.ramp, each.wanted))

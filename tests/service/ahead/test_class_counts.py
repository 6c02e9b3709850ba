"""How many came to a class, while replicas of the service come and go, as in an upgrade."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.settings import HistorySettings
from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.class_progress import progress_sentence
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.planner.objects import NAMESPACE, SHARE, user_manifest
from tests.placeholders.planner.simulated_cluster import START
from tests.service.ahead.acting_service import TwoNodes, controller

MINUTES_OF_CLASS = 60
WRITTEN = {"users": "20 of gpu-slice", "begins": f"{START:%Y-%m-%d %H:%M}", "minutes": MINUTES_OF_CLASS}


class Class:
    """A class of an hour that begins at `START`, on a service whose replicas lead one after the other."""

    def __init__(self) -> None:
        self.controller = controller()
        self._settings = Overrides().with_entry("lab", {**WRITTEN, "timezone": "UTC"}, "user ada", START)
        self._version = 0
        self._put({})
        self.at(-60)
        self.lead()

    def _put(self, outcomes: dict[str, ClassOutcome]) -> None:
        self._version += 1
        settings = replace(self._settings, classes=self._settings.classes.with_outcomes(outcomes))
        self._settings = settings
        version = {"resourceVersion": f"{self._version}"}
        self.controller.overrides.put({"metadata": version, "data": overrides_data(settings)})

    def at(self, minutes: float) -> None:
        """Let it be some minutes after the begin."""
        self.minutes = minutes
        self.controller.now = lambda: START + timedelta(minutes=minutes)

    def lead(self) -> None:
        """Let another replica lead from now on; what the last one has not stored is lost."""
        history = HistoryRecording(HistorySettings(keep=timedelta(0)), self.controller, DecisionLog())
        runner = ScaleAheadRunner(self.controller, history, Rehearsals(self.controller))
        runner.added.begin()
        self.figures = runner.class_figures
        self.figures.begin()

    def come(self, *users: str) -> None:
        """Servers of these users get a node now."""
        at = f"{START + timedelta(minutes=self.minutes):%Y-%m-%dT%H:%M:%SZ}"
        for user in users:
            pod = user_manifest(user, nodeName="a")
            pod["metadata"] |= {"uid": f"{user} at {at}", "creationTimestamp": at}
            pod["metadata"]["labels"][names.SHAPE] = SHARE.id
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
            self.watch.put(Kind.POD, {**pod, "status": {"conditions": [condition]}})

    def go(self, *users: str) -> None:
        for user in users:
            self.watch.remove(Kind.POD, ObjectKey(NAMESPACE, user))

    @property
    def watch(self) -> TwoNodes:
        assert isinstance(self.controller.watch, TwoNodes)
        return self.controller.watch

    def store(self) -> None:
        self._put(self.figures.current())

    def says(self) -> str:
        (time,) = self.controller.scale_ahead.calendars.occurrences(START, timedelta(hours=2))
        return progress_sentence(time, self.figures.progress([time])[time], self.controller.now())


def test_who_came_is_counted_across_a_change_of_the_leader() -> None:
    lab = Class()
    lab.at(1)
    lab.come(*"abcdefgh")
    lab.store()
    lab.at(5)
    lab.go(*"abcd")
    lab.store()
    lab.at(6)
    lab.come(*"ijk")  # no replica leads
    lab.at(7)
    lab.lead()
    lab.watch.is_read = False
    assert lab.says() == "8 of 20 have a server", "what is stored, until all is read"
    lab.watch.is_read = True
    assert lab.says() == "7 of 20 have a server"
    lab.at(20)
    lab.come("l")
    lab.store()
    lab.at(MINUTES_OF_CLASS - 1)
    lab.store()
    lab.at(MINUTES_OF_CLASS)
    assert lab.says() == "12 came, the longest waited 0 s"


def test_a_number_that_may_be_too_small_is_not_said_as_the_number() -> None:
    lab = Class()
    lab.at(1)
    lab.come(*"abcd")
    lab.store()
    lab.at(30)
    lab.go(*"ab")
    lab.come("e")
    lab.lead()
    lab.says()
    lab.store()
    lab.at(MINUTES_OF_CLASS)
    assert lab.says().startswith("At least 5 came, "), "some may have come and gone meanwhile"
    lab = Class()
    lab.at(1)
    lab.come(*"abcd")
    lab.store()
    lab.at(MINUTES_OF_CLASS + 5)
    lab.lead()
    assert lab.says().startswith("At least 4 came, "), "no replica counted at its end"


def test_a_class_that_nobody_has_counted() -> None:
    lab = Class()
    lab.at(MINUTES_OF_CLASS + 5)
    lab.lead()
    assert lab.says() == "It is not known how many came"
    lab = Class()
    lab.at(5)
    lab.store()
    lab.at(MINUTES_OF_CLASS - 2)
    lab.store()
    lab.at(MINUTES_OF_CLASS)
    assert lab.says() == "0 of 20 came", "a replica counted, and no user came"

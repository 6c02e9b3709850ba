"""Scale-ahead of a replica: it learns from the history, and reports problems of its settings."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.history.settings import HistorySettings
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.scale_ahead.controller.demand_learning import CountedMinute
from dra_spawner.scale_ahead.controller.policy_settings import read_policies
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner, read_past
from dra_spawner.service.history_recording import HistoryRecording
from tests.placeholders.controller.objects import shape
from tests.polling import eventually
from tests.service.unstarted_watch import unstarted_controller

NOW = datetime(2026, 3, 2, 9, 0, 30, tzinfo=UTC)


def test_policies_of_choices_that_do_not_exist_are_reported() -> None:
    policies = read_policies({"gpu-slce": {"kind": "buffer", "placeholders": 3}, "*": {"kind": "calendar"}})
    ahead = ScaleAhead(ScaleAheadSettings(policies=policies))
    controller = unstarted_controller(scale_ahead=ahead, now=lambda: NOW)
    history = HistoryRecording(HistorySettings(keep=timedelta(0)), controller, DecisionLog())
    runner = ScaleAheadRunner(controller, history, Rehearsals(controller))
    assert runner.problems() == (), "nothing is published yet"
    controller.shapes.put(published_config_map(PublishedShapes({"gpu-slice": shape({})}), "hub", {}))
    (problem,) = runner.problems()
    assert problem.startswith("Scale-ahead: ")
    assert "gpu-slce" in problem


async def test_a_database_that_is_away_at_the_start_is_learned_from_when_it_is_back(tmp_path: Path) -> None:
    """And what was stored there is not replaced by the little that was seen since."""
    path = tmp_path / "volume" / "history.sqlite"
    moment = [NOW]
    settings = ControllerSettings("hub", replicas={"gpu": ReplicaRange(0, 5)})
    controller = unstarted_controller(settings, scale_ahead=ScaleAhead(ScaleAheadSettings()), now=lambda: moment[0])
    controller.shapes.put(published_config_map(PublishedShapes({"gpu": shape({})}), "hub", {}))
    history = HistoryRecording(HistorySettings(f"sqlite:///{path}"), controller, DecisionLog())
    runner = ScaleAheadRunner(controller, history, Rehearsals(controller))
    controller.scale_ahead.begin(NOW)
    history.recorder.resume(threaded=False)
    history.recorder.work()
    assert history.recorder.problem
    await runner.learning.learn()
    assert not list(controller.scale_ahead.learned())
    path.parent.mkdir()
    database = HistoryDatabase.open(f"sqlite:///{path}")
    database.add(Launch(str(day), NOW - timedelta(days=day), profile="gpu", choice="gpu") for day in range(1, 20))
    database.close()
    moment[0] += timedelta(minutes=5)
    await eventually(lambda: history.recorder.work() and not history.recorder.problem, "it is open")
    await runner.learning.learn()
    (learned,) = controller.scale_ahead.learned()
    assert json.loads(learned.state)["begin"] == minute_of(NOW - timedelta(days=19))


def test_the_past_is_counted_by_choice_until_the_minute_begins(tmp_path: Path) -> None:
    database = HistoryDatabase.open(f"sqlite:///{tmp_path}/history.sqlite")
    began = NOW - timedelta(days=2)
    database.add(
        [
            Launch("a", began, profile="gpu", choice="gpu/memory=large", ended=began + timedelta(minutes=5)),
            Launch("b", began + timedelta(seconds=20), profile="gpu", choice="gpu/memory=large"),
            Launch("imported", began, profile="gpu", source="csv"),
            Launch("too old", NOW - timedelta(days=60), profile="gpu", choice="gpu"),
            Launch("this minute", NOW - timedelta(seconds=10), profile="gpu", choice="gpu"),
            NodeLeadTime("n", "node-1", "a100", began),
        ]
    )
    past, nodes = read_past(database, NOW)
    database.close()
    minute = minute_of(began)
    assert sorted(past, key=lambda each: (each.minute, each.choice)) == [
        CountedMinute(minute, "gpu", 1),
        CountedMinute(minute, "gpu/memory=large", 2),
        CountedMinute(minute + 5, "gpu/memory=large", departures=1),
    ]
    assert [each.node for each in nodes] == ["node-1"]

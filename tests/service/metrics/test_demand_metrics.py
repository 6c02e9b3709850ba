"""The quality of forecasts as metrics: hits, idle hours, calibration, and forecasts against launches."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.service.metrics.demand_metrics import register_demand
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.controller.following import LEAD, Following, entry

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "service.md").read_text()


class Measured(Following):
    """A world with the metrics of its forecasts."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.registry = CollectorRegistry()
        register_demand(self.registry, self.ahead)
        self.world.node("a", cpu="100", gpus=60)

    def value(self, name: str, **labels: str) -> float | None:
        found: float | None = self.registry.get_sample_value(f"dra_spawner_{name}", {"profile": "gpu", **labels})
        return found


def test_the_hit_rate_of_the_pool() -> None:
    found = Measured()
    found.minutes(1)
    assert [found.value("pool_launches_total", outcome=each) for each in ("hit", "miss")] == [0, 0], (
        "from the beginning"
    )
    for is_warm in (True, True, True, False, None):
        found.launch(bound=found.world.now, warm=is_warm)
    found.launch(choice="another", bound=found.world.now, warm=True)
    found.minutes(1)
    assert [found.value("pool_launches_total", outcome=each) for each in ("hit", "miss")] == [3, 1]


def test_idle_hours_of_placeholders() -> None:
    """Three warm ones for half an hour are an hour and a half; one that has no node yet is not idle."""
    found = Measured(replicas=ReplicaRange(3, 3))
    found.minutes(2)
    assert len(found.world.view().warm(found.groups[0].shape)) == 3
    before = found.value("idle_placeholder_seconds_total")
    assert before is not None
    found.minutes(30)
    assert found.value("idle_placeholder_seconds_total") == pytest.approx(before + 3 * 30 * 60)
    found.world.remove_node("a")
    found.minutes(30)
    after = found.value("idle_placeholder_seconds_total")
    assert after == pytest.approx(before + 3 * 30 * 60)


def test_a_forecast_is_judged_by_the_launches_within_its_lead_time() -> None:
    """Nothing is expected, and seven come within one lead time: the forecasts before it were short."""
    lead = round(LEAD / timedelta(minutes=1))
    found = Measured(replicas=ReplicaRange(0, 40))
    found.minutes(2 * lead)
    assert found.value("forecasts_total", outcome="short") == 0
    enough = found.value("forecasts_total", outcome="enough")
    assert enough is not None
    assert lead - 1 <= enough <= lead + 1, "each once its lead time is over"
    for _ in range(7):
        found.launch()
    found.minutes(1)
    assert found.value("forecast_growth_expected") == 0
    assert found.value("forecast_growth_actual") == 7
    assert (found.value("forecasts_total", outcome="short"), found.value("forecasts_total", outcome="enough")) == (
        1,
        enough,
    )
    found.minutes(lead)
    expected = found.value("forecast_growth_expected")
    assert expected is not None
    assert expected > 0, "of the forecasts after the rush"
    assert found.value("forecast_growth_actual") == 0
    short = found.value("forecasts_total", outcome="short")
    assert short == lead, "all that did not foresee it"
    factor = found.value("forecast_safety_factor")
    assert factor is not None
    assert factor > 0


def test_the_present_number_of_a_forecast() -> None:
    found = Measured(entry("30 of gpu", START + timedelta(minutes=12)))
    found.minutes(1)
    assert found.value("forecast_placeholders") == 30


def test_a_former_leader_shows_counters_alone() -> None:
    found = Measured(entry("30 of gpu", START + timedelta(minutes=12)))
    found.minutes(30)
    hours = found.value("idle_placeholder_seconds_total")
    found.ahead.end()
    assert found.value("forecast_placeholders") is None
    assert found.value("idle_placeholder_seconds_total") == hours, "a counter never falls"


def test_each_is_documented_with_its_labels() -> None:
    found = Measured()
    for _ in range(3):
        found.launch(bound=found.world.now, warm=True)
    found.minutes(15)
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `dra_spawner_")]
    for family in found.registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        (row,) = [each for each in rows if re.search(rf"`{name}\b", each)]
        assert family.samples, name
        labels = ",".join(family.samples[0].labels)
        assert f"{name}{{{labels}}}".removesuffix("{}") in row, name
        assert len(row.split("|")[2]) > 30, "the description"

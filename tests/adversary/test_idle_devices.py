"""Users who hold devices by pretending: what it gains them, and that it costs nobody else a server."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.fairness.idle.decisions import IdleAction
from dra_spawner.fairness.idle.metrics import MetricQuery, TellsApart, read_metrics
from dra_spawner.fairness.idle.notices import KeepRefused, keep
from dra_spawner.fairness.idle.samples import Sample
from dra_spawner.fairness.idle.server_answers import InvalidServerAnswer, read_activity
from dra_spawner.fairness.idle.verdicts import Verdict, judge
from tests.all_of_them import all_of_them
from tests.fairness.idle.looks import BEGIN, GAP, MINUTE, POLICY, Looks, at, sample

GPU = DeviceId("gpu.nvidia.com", "n1", "gpu-0")


def test_an_endless_loop_holds_the_device_in_full_view() -> None:
    looks = Looks()
    for minute in range(24 * 60):
        looks.look(minute, sample("busy", 0.0))
    assert looks.decided == [], "a kernel that computes is never stopped"
    assert looks.judgement is not None
    assert looks.judgement.unused_since == BEGIN, "the list says that its GPU was not used all day"


def test_a_cell_a_minute_holds_the_device_in_full_view() -> None:
    looks = Looks()
    for minute in range(24 * 60):
        looks.look(minute, sample(last=BEGIN + minute * MINUTE))
    assert looks.decided == []
    assert looks.judgement is not None
    assert looks.judgement.unused_since == BEGIN


def test_holding_by_renewing_is_bounded_and_counted() -> None:
    looks, kept, minute = Looks(), 0, 0
    while not any(action is IdleAction.STOP for _, action in looks.decided):
        looks.look(minute, sample())
        if looks.notice.warned_at is not None and looks.notice.stopped_at is None:
            try:
                looks.notice = keep(looks.notice, POLICY, at(minute).wall)
                kept += 1
            except KeepRefused:
                assert kept == POLICY.keeps
        minute += 1
        assert minute < 24 * 60, "an idle server is stopped in the end"
    longest = POLICY.after + POLICY.notice + POLICY.keeps * (POLICY.keep + POLICY.notice) + 5 * MINUTE
    assert minute * MINUTE <= longest
    assert looks.notice.kept == POLICY.keeps, "an administrator sees how often"


@all_of_them("changed", {
    "a report that says nothing": {"kernels": [], "terminals": None, "connections": 0},
    "times in the future": {"kernels": [{"execution_state": "idle", "last_activity": "2036-01-01T00:00:00Z"}]},
    "another word": {"kernels": [{"execution_state": "resting", "last_activity": "2026-01-01T00:00:00Z"}]},
    "deep": {"kernels": json.loads("[" * 500 + "]" * 500)},
    "many": {"kernels": [{"execution_state": "idle", "last_activity": "2026-01-01T00:00:00Z"}] * 5000},
})  # fmt: skip
def test_a_report_of_nonsense_keeps_the_own_server_alone(changed: dict[str, Any]) -> None:
    report = {"kernels": [], "terminals": [], "connections": 0, **changed}
    try:
        found = Sample(read_activity(report), devices=sample().devices)
    except InvalidServerAnswer as error:
        found = Sample(None, str(error), sample().devices)
    looks = Looks()
    for minute in range(120):
        looks.look(minute, found)
    assert looks.judgement is not None
    assert looks.judgement.verdict is Verdict.UNKNOWN, "an administrator sees it"
    assert looks.decided == []


def test_a_report_of_a_thousand_kernels_is_kept_short_and_decides_the_same() -> None:
    """A user with many servers, each with a thousand kernels, must not make the hub's answer to the service too long."""
    rng = Random(7)

    def times() -> list[dict[str, Any]]:
        minutes = [rng.choice((-90, -30, -1, 1, 9)) for _ in range(rng.choice((0, 1, 3, 1000)))]
        return [{"last_activity": (BEGIN + each * MINUTE).isoformat()} for each in minutes]

    for _ in range(60):
        words = rng.sample(["idle", "busy", "dead", "odd"], rng.randint(1, 4))
        kernels = [{**each, "execution_state": rng.choice(words)} for each in times()]
        found = read_activity({"kernels": kernels, "terminals": times(), "connections": 3})
        assert len(found.in_short.kernels) + len(found.in_short.terminals) <= 5
        for devices in ((), sample().devices, sample(percent=None).devices):
            long, short = (judge(None, Sample(each, devices=devices), at(0), GAP) for each in (found, found.in_short))
            assert long == short


def series(labels: object, value: object) -> dict[str, Any]:
    return {"metric": labels, "value": [1.0, value]}


def test_series_that_a_tenant_pushes_cannot_make_another_one_idle() -> None:
    """Who may write series, such as by a Pushgateway, invents labels of another user's pod."""
    victim = {"namespace": "hub", "pod": "jupyter-ada"}
    true = series(victim, "80")
    hostile = [
        series({**victim, "job": "push"}, "0"),
        series({"exported_namespace": "hub", "exported_pod": "jupyter-ada", "namespace": "tenant", "pod": "p"}, "0"),
        series({**victim, "driver": GPU.driver, "pool": GPU.pool, "device": GPU.device}, "NaN"),
        series({**victim, "pod": "jupyter-ada\u0000"}, "0"),
        series({"namespace": ["hub"], "pod": {}}, "0"),
        series({**victim, "x" * 10_000: "y" * 10_000}, "0"),
    ]
    for order in ([true, *hostile], [*hostile, true]):
        answer = {"data": {"resultType": "vector", "result": order}}
        percent, _ = read_metrics(MetricQuery("q", apart=TellsApart.POD), answer).of(
            "hub", "jupyter-ada", GPU, is_shared=True
        )
        assert percent is None or percent >= 80, "used, or not known; never idle"
    # And a kernel that computes is busy, whatever a metric says.
    looks = Looks()
    looks.look(0, sample("busy", 0.0))
    assert looks.judgement is not None
    assert looks.judgement.verdict is Verdict.BUSY


def test_a_metric_that_vanishes_stops_nothing() -> None:
    looks = Looks()
    for minute in range(39):
        looks.look(minute, sample())
    for minute in range(39, 24 * 60):
        looks.look(minute, sample(percent=None if minute % 20 else math.nextafter(0, 1)))
    assert IdleAction.STOP not in [action for _, action in looks.decided]


def test_a_clock_that_is_set_again_and_again_stops_nothing() -> None:
    looks = Looks()
    for minute in range(24 * 60):
        looks.look(minute, sample(), set_by=timedelta(hours=minute // 10))
    assert looks.decided == []


def test_a_keep_without_a_warning_gains_nothing() -> None:
    looks = Looks()
    looks.look(0, sample())
    with pytest.raises(KeepRefused):
        keep(looks.notice, POLICY, BEGIN)

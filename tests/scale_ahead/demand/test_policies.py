"""Policies: which one applies at which time, and its number of placeholders."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import Forecast, GroupSituation
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.demand.policies import (
    Buffer,
    CalendarOnly,
    Chain,
    DemandPolicy,
    ForecastDemand,
    OrForecast,
    PercentBuffer,
    Question,
    Scheduled,
    Webhook,
    WebhookAnswer,
    Window,
)
from dra_spawner.scale_ahead.demand.settings import DemandSettings

NOW = datetime(2026, 11, 24, 17, tzinfo=UTC)  # a Tuesday
WORK = Window(frozenset({1, 3}), time(16), time(18))


def ask(
    policy: DemandPolicy, at: datetime = NOW, answers: dict[str, WebhookAnswer] | None = None, **more: Any
) -> int | None:
    """The number, or None."""
    answer = answer_of(policy, at, answers, **more)
    return None if answer is None else answer.placeholders


def answer_of(
    policy: DemandPolicy, at: datetime = NOW, answers: dict[str, WebhookAnswer] | None = None, **more: Any
) -> Forecast | None:
    minute = minute_of(at)
    record = DemandRecord(minute - 1, DemandSettings())
    record.observe(minute - 1, 0)
    situation = GroupSituation(timedelta(minutes=8), **more)
    return policy(Question(minute, situation, record, answers or {}))


def test_a_buffer_is_always_the_same() -> None:
    assert ask(Buffer(5), present=1000) == 5


def test_a_percentage_is_of_servers_that_run() -> None:
    """Of no server; rounded up; at least; at most."""
    assert ask(PercentBuffer(10), present=0) == 0
    assert ask(PercentBuffer(10), present=101) == 11
    assert ask(PercentBuffer(10, least=3), present=5) == 3
    assert ask(PercentBuffer(50, most=20), present=100) == 20


@pytest.mark.parametrize("policy", [Buffer(2), PercentBuffer(0), Webhook()])
def test_no_policy_is_below_pending_spawns_and_reservations(policy: DemandPolicy) -> None:
    answers = {"webhook": WebhookAnswer(0, NOW)}
    answer = answer_of(policy, answers=answers, pending_spawns=4, reserved=3, floor=1)
    assert answer is not None
    assert (answer.placeholders, answer.decided_by) == (7, Source.PENDING)


def test_no_policy_exceeds_the_limit() -> None:
    assert ask(Buffer(50), most=9) == 9


def test_no_policy_is_below_the_floor() -> None:
    assert ask(Buffer(1), floor=4) == 4


def november(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def test_a_schedule_applies_in_its_windows() -> None:
    """A minute before, at its begin, at its end, another day, its other day."""
    policy = Scheduled((WORK,), Buffer(8))
    moments = {
        november(24, 15, 59): None,
        november(24, 16): 8,
        november(24, 18): None,
        november(25, 17): None,
        november(26, 17): 8,
    }
    assert {at: ask(policy, at) for at in moments} == moments


def test_a_window_may_go_over_midnight() -> None:
    """The evening of its day, the morning after, the morning before, the next evening."""
    window = Window(frozenset({1}), time(22), time(6))
    moments = {november(24, 23): True, november(25, 3): True, november(24, 3): False, november(25, 23): False}
    assert {at: window.contains(at) for at in moments} == moments


def test_a_window_is_in_local_time() -> None:
    window = Window(frozenset({1}), time(17), time(18), ZoneInfo("Europe/Berlin"))
    assert window.contains(datetime(2026, 11, 24, 16, 30, tzinfo=UTC))  # winter
    assert window.contains(datetime(2026, 6, 23, 15, 30, tzinfo=UTC))  # summer
    assert not window.contains(datetime(2026, 6, 23, 16, 30, tzinfo=UTC))


def test_a_webhook_counts_while_its_answer_is_young() -> None:
    answers = {"scaler": WebhookAnswer(12, NOW - timedelta(minutes=10))}
    policy = Webhook("scaler")
    assert ask(policy, answers=answers) == 12
    assert ask(policy, NOW + timedelta(minutes=1), answers) is None
    assert ask(Webhook("other"), answers=answers) is None


def test_a_chain_takes_the_first_that_applies() -> None:
    chain = Chain((Webhook(), Scheduled((WORK,), Buffer(8)), Buffer(2)))
    assert ask(chain, answers={"webhook": WebhookAnswer(0, NOW)}) == 0
    assert ask(chain) == 8
    assert ask(chain, NOW + timedelta(hours=5)) == 2


def test_a_chain_of_policies_that_do_not_apply_does_not_apply() -> None:
    assert ask(Chain((Webhook(), Chain(())))) is None


def test_where_a_policy_does_not_apply_the_forecast_does() -> None:
    policy = OrForecast(Scheduled((WORK,), Buffer(8), "lab"))
    assert policy.name == "lab"
    assert ask(policy) == 8
    answer = answer_of(policy, NOW + timedelta(hours=5), floor=3)
    assert answer is not None
    assert (answer.placeholders, answer.decided_by) == (3, Source.FLOOR)


def test_the_forecast_learns_while_another_policy_applies() -> None:
    minute = minute_of(NOW)
    learning, other = DemandRecord(minute, DemandSettings()), DemandRecord(minute, DemandSettings())
    policies: tuple[DemandPolicy, ...] = (OrForecast(Buffer(8)), ForecastDemand())
    for now in range(minute + 1, minute + 300):
        for record, policy in zip((learning, other), policies, strict=True):
            record.observe(now - 1, arrivals=(now // 7) % 4)
            policy(Question(now, GroupSituation(timedelta(minutes=8)), record))
    question = Question(minute + 300, GroupSituation(timedelta(minutes=8)), learning)
    learning.observe(minute + 299, 1)
    other.observe(minute + 299, 1)
    found = ForecastDemand()(question)
    assert found == ForecastDemand()(Question(minute + 300, question.situation, other))
    assert found.placeholders > 8


def test_the_default_needs_no_configuration() -> None:
    assert ask(ForecastDemand()) == 0
    assert ask(CalendarOnly(), floor=2) == 2


def test_the_reason_names_the_policy() -> None:
    answer = answer_of(PercentBuffer(20, name="lab"), present=30)
    assert answer is not None
    assert answer.reason == "6 placeholders: fixed (lab, 20 % of 30)"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Buffer(-1), id="negative buffer"),
        pytest.param(lambda: PercentBuffer(-5), id="negative percentage"),
        pytest.param(lambda: PercentBuffer(5, least=3, most=2), id="least above most"),
        pytest.param(lambda: Window(frozenset(), time(1), time(2)), id="no day"),
        pytest.param(lambda: Window(frozenset({7}), time(1), time(2)), id="an eighth day"),
        pytest.param(lambda: Window(frozenset({1}), time(1), time(1)), id="empty window"),
        pytest.param(lambda: WebhookAnswer(-1, NOW), id="negative answer"),
        pytest.param(lambda: WebhookAnswer(1, NOW.replace(tzinfo=None)), id="answer without time zone"),
    ],
)
def test_invalid_policies_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|least <= most|begins and ends|no time zone"):
        make()

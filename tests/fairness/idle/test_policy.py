"""What a policy is worth on sessions that are drawn by published figures; ``python -m tests.bench.idle`` has the table."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner.fairness.idle.policy import IdlePolicy, IdleSettings
from tests.bench.idle import Outcome, sessions, simulate

MINUTE = timedelta(minutes=1)


def test_idle_hours_come_back_and_nothing_that_computes_is_stopped() -> None:
    policy = IdlePolicy(30 * MINUTE, 15 * MINUTE)
    found = sum((simulate(each, policy) for each in sessions(40)), Outcome())
    assert found.idle / found.held >= 0.7, "as was published: most of the time nothing computes"
    assert found.back / found.idle >= 0.6
    assert (found.busy_stopped, found.found_nothing) == (0, 0)
    assert found.after_stop <= 0.01 * (found.returns + found.later)


def test_the_policy_of_a_profile() -> None:
    own, others = IdlePolicy(5 * MINUTE), IdlePolicy(60 * MINUTE)
    settings = IdleSettings(policies={"gpu": own, "*": others})
    assert (settings.policy_of("gpu"), settings.policy_of("cpu")) == (own, others)
    assert IdleSettings(policies={"gpu": own}).policy_of("cpu") is None

"""What users read of their own use; of others, nothing."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner.fairness.budget_replay import Standing
from dra_spawner.fairness.budgets import Budget, Per
from dra_spawner.fairness.standing_text import behind_sentence, standing_sentences

WEEK, DAY = timedelta(days=7), timedelta(days=1)
BORROWS = "While no device is free, users within their budget come first. You can start as long as any is free."


def test_sentences() -> None:
    own = Standing("3f0c", 12.34, Budget(40, WEEK))
    assert list(standing_sentences([own, own])) == ["You have used 12.3 of your 40 device-hours in the last 7 days."], (
        "the hashed name is in none"
    )
    over = Standing("3f0c", 2_000.0, Budget(1_999.5, DAY, driver="gpu.example.com"))
    assert list(standing_sentences([over])) == [
        "You have used 2,000 of your 1,999.5 device-hours of gpu.example.com in the last 24 hours.",
        BORROWS,
    ]
    almost = Standing("3f0c", 39.99, Budget(40, timedelta(hours=1)))
    assert list(standing_sentences([almost])) == ["You have used 39.9 of your 40 device-hours in the last hour."]
    assert behind_sentence(Standing("x", 41, Budget(40, WEEK))) == (
        "You have used 41 of your 40 device-hours in the last 7 days. "
        "No device is free at the moment, so users within their budget come first."
    )


def test_nobody_learns_how_much_the_others_of_a_group_used() -> None:
    for hours, state in ((3.0, "is within"), (50.0, "has used up")):
        group = Standing("maths", hours, Budget(40, WEEK, ("maths",), per=Per.GROUP))
        first, *more = standing_sentences([group])
        assert first == f"Your group maths {state} its device-hours of the last 7 days."
        assert not any(each.isdecimal() for each in first.replace("7 days", ""))
        assert more == ([BORROWS] if hours >= 40 else [])

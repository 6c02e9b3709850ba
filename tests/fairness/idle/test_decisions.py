"""Warnings and stops: which server, when, and what never happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.fairness.idle.decisions import IdleAction
from dra_spawner.fairness.idle.notices import KeepRefused, Notice, keep
from dra_spawner.fairness.idle.samples import Sample
from tests.fairness.idle.looks import BEGIN, MINUTE, POLICY, Looks, at, sample

WARN, WITHDRAW, STOP = IdleAction.WARN, IdleAction.WITHDRAW, IdleAction.STOP


def idle_for(minutes: int, **more: Any) -> Looks:
    looks = Looks(**more)
    for minute in range(minutes + 1):
        looks.look(minute, sample())
    return looks


def test_a_warning_and_then_a_stop() -> None:
    looks = idle_for(42)
    # The warning is seen by the look after it.
    assert looks.decided == [(30, WARN), (41, STOP), (42, STOP)]
    assert looks.notice.stopped_at == BEGIN + 42 * MINUTE
    assert idle_for(60, policy=None).decided == []


def test_use_of_any_kind_withdraws_the_warning() -> None:
    for seen in (
        sample("busy"),
        sample(percent=50.0),
        sample(percent=None),
        Sample(None),
        sample(last=BEGIN + 34 * MINUTE),
    ):
        looks = idle_for(34)
        looks.look(35, seen)
        assert looks.decided == [(30, WARN), (35, WITHDRAW)], seen
        assert looks.notice == Notice()
    looks = idle_for(34)
    looks.policy = None
    looks.look(35, sample())
    assert looks.decided[-1] == (35, WITHDRAW), "the policy was taken away"


def test_the_notice_is_as_long_as_it_can_be_seen() -> None:
    looks = idle_for(34)
    for minute in range(35, 45):
        looks.look(minute, sample(), hub_answers=False)
    assert {action for _, action in looks.decided} == {WARN}
    assert looks.notice.stops_at is not None
    assert looks.notice.stops_at >= BEGIN + 48 * MINUTE, "its end is corrected, as the hub shows nothing"
    for minute in range(45, 52):
        looks.look(minute, sample())
    assert [minute for minute, action in looks.decided if action is STOP] == [51], "3 minutes, and then 7"

    looks = idle_for(39)
    looks.new_leader()
    for minute in range(40, 82):
        looks.look(minute, sample())
    assert looks.decided == [(30, WARN), (40, WITHDRAW), (70, WARN), (81, STOP)], "a new leader begins anew"


def test_keeping_is_bounded_and_outlives_a_leader() -> None:
    looks = idle_for(32)
    for time in (1, 2):
        looks.notice = keep(looks.notice, POLICY, at(32).wall)
        assert (looks.notice.kept, looks.notice.keeps_left) == (time, 2 - time)
        looks.new_leader()
        looks.decided = []
        for minute in range(33, 92):
            looks.look(minute, sample())
        assert looks.decided == [], "it is kept for an hour"
        looks.look(92, sample())
        assert looks.decided == [(92, WARN)]
        looks.new_leader()
        looks.notice = replace(looks.notice, warned_at=at(30).wall)
    with pytest.raises(KeepRefused, match="This server was kept 2 times already"):
        keep(looks.notice, POLICY, at(32).wall)
    for notice in (Notice(), replace(looks.notice, kept=0, stopped_at=BEGIN)):
        with pytest.raises(KeepRefused, match="This server is not about to be stopped"):
            keep(notice, POLICY, BEGIN)


def test_a_time_that_nobody_could_set_keeps_nothing() -> None:
    looks = Looks(notice=Notice(kept_until=BEGIN + timedelta(days=4000), kept=1))
    for minute in range(31):
        looks.look(minute, sample())
    assert looks.decided == [(30, WARN)]


_EVENTS = ("busy", "used", "no value", "silent", "gap", "hub away", "leader", "set forward", "set back", "keep")


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(_EVENTS)), min_size=4, max_size=12))
def test_what_never_happens(events: list[tuple[int, str]]) -> None:
    """A stop only after idle looks without a gap, a jump or a new leader for the whole time, and a seen warning."""
    looks, minute, set_by = Looks(), 0.0, timedelta(0)
    since = seen_since = kept_until = -1.0
    hub_away = kept = 0
    looked = [each for idle, event in events for each in (*("idle",) * idle, event)]
    for event in looked:
        minute += 4.0 if event == "gap" else 1.0
        seen = {
            "busy": sample("busy"),
            "used": sample(percent=9.0),
            "no value": sample(percent=None),
            "silent": Sample(None),
        }
        if event == "leader":
            looks.new_leader()
        if event in ("set forward", "set back"):
            set_by += timedelta(hours=3 if event == "set forward" else -3)
        may_keep = looks.notice.warned_at is not None and looks.notice.stopped_at is None
        if event == "keep" and may_keep and looks.notice.kept < POLICY.keeps:
            looks.notice = keep(looks.notice, POLICY, at(minute, set_by=set_by).wall)
            kept, kept_until = kept + 1, minute + 60
        begins_anew = event in seen or event in ("gap", "leader", "set forward", "set back")
        since = minute if begins_anew or since < 0 else since
        warned = looks.notice.warned_at
        found = looks.look(minute, seen.get(event, sample()), hub_answers=event != "hub away", set_by=set_by)
        if looks.notice.warned_at != warned:
            seen_since, hub_away = minute, 0
        hub_away += event == "hub away"
        if found is not None and found.action is STOP:
            assert event not in seen
            assert minute - since >= 30
            assert minute - seen_since - hub_away >= 10
            assert minute >= kept_until or set_by
        assert looks.notice.kept == kept <= POLICY.keeps

"""The forecast: the largest of its inputs, never below the need, up at once, down late, and with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import (
    Forecast,
    GroupSituation,
    calendar_only,
    forecast,
    usual_launches,
)
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, MINUTES_A_WEEK, datetime_of, minute_of
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from tests.all_of_them import all_of_them
from tests.examples import example_count

BEGIN = minute_of(datetime(2026, 11, 2, tzinfo=UTC))  # a Monday
LEAD = timedelta(minutes=8)
IDLE = GroupSituation(LEAD)


class Host:
    """A host's steps each minute: observe, ask, note."""

    def __init__(self, **settings: Any) -> None:
        self.record = DemandRecord(BEGIN, DemandSettings(**settings))
        self.now = BEGIN

    def minutes(
        self,
        number: int,
        launches: int | Callable[[int], int] = 0,
        situation: GroupSituation = IDLE,
        departures: int = 0,
    ) -> Forecast:
        """Let minutes pass; returns the last forecast."""
        for _ in range(number):
            came = launches if isinstance(launches, int) else launches(self.now)
            self.record.observe(self.now, came, departures)
            self.now += 1
            answer = forecast(self.record, situation, self.now)
        return answer

    def entry(self, users: int, begins_in: int, **more: Any) -> Occurrence:
        begins = datetime_of(self.now + begins_in)
        return Occurrence("physics", "gpu", begins, begins + timedelta(hours=1), users, **more)


def test_an_unused_hub_has_no_placeholders() -> None:
    assert Host().minutes(100).placeholders == 0


def test_the_forecast_follows_the_rate_and_adds_safety() -> None:
    answer = Host().minutes(200, 2)
    assert answer.expected == pytest.approx(16.0)
    assert answer.decided_by is Source.REACTIVE
    assert answer.placeholders == int(16 + answer.factor * answer.deviation + 0.5) > 16


def test_the_forecast_rises_at_once() -> None:
    host = Host()
    before = host.minutes(200, 1).placeholders
    assert host.minutes(3, 8).placeholders > 1.5 * before


def test_the_forecast_falls_only_after_the_hold() -> None:
    host = Host(hold=4.0)
    busy = host.minutes(200, 2).placeholders
    on_hold = host.minutes(32)
    assert (on_hold.placeholders, on_hold.is_held) == (busy, True)
    assert host.minutes(1).placeholders < busy
    assert host.minutes(300).placeholders == 0


def test_departures_free_capacity_but_bursts_stay_possible() -> None:
    growing, steady = Host().minutes(200, 2), Host().minutes(200, 2, departures=2)
    assert steady.expected == pytest.approx(0.0, abs=1e-6)
    assert 0 < steady.placeholders < growing.placeholders


def test_past_weeks_are_expected_again() -> None:
    def mornings(minute: int) -> int:
        return 2 if 600 <= (minute - BEGIN) % MINUTES_A_WEEK < 700 else 0

    host = Host()
    host.minutes(14 * 1440 + 590, mornings)
    answer = host.minutes(2, mornings)
    assert answer.decided_by is Source.SEASONAL
    assert answer.expected > 4.0


def test_usual_launches_of_the_coming_hours() -> None:
    host = Host()
    assert usual_launches(host.record, host.now + 60, 60) is None
    host.minutes(8 * 1440, lambda minute: 2 if minute % 1440 >= 600 else 0)
    morning, noon = (usual_launches(host.record, host.now + hour * 60, 60) for hour in (3, 12))
    assert morning == 0.0
    assert noon == pytest.approx(120, rel=0.05)


def test_a_class_that_came_three_times_is_expected_again() -> None:
    """Two crowds may be a coincidence, unless an entry announces the third."""

    def weekly(minute: int) -> int:
        since = (minute - BEGIN) % MINUTES_A_WEEK - 1000
        return 20 if 0 <= since < 5 else 0

    host = Host(recurring_margin=0.0)
    host.minutes(2 * MINUTES_A_WEEK + 980, weekly)
    announced = replace(IDLE, occurrences=(host.entry(100, 20),))
    assert forecast(host.record.later(), announced, host.now + 10).decided_by is Source.CALENDAR
    answer = host.minutes(10, weekly)
    assert (answer.placeholders < 100, answer.decided_by) == (True, Source.SEASONAL)
    answer = host.minutes(MINUTES_A_WEEK, weekly)
    assert (answer.placeholders, answer.decided_by) == (100, Source.RECURRING)


def test_vacations_lower_the_expectation_of_past_weeks() -> None:
    """A steady number stays until following launches is a tenth cheaper, which takes some days."""
    host = Host()
    before = host.minutes(14 * 1440, 2).placeholders
    after = host.minutes(4 * 1440)
    assert after.placeholders < 0.5 * before


def test_a_known_holiday_lowers_the_forecast_at_once() -> None:
    def weekly(minute: int) -> int:
        return 20 if 0 <= (minute - BEGIN) % MINUTES_A_WEEK - 1000 < 5 else 0

    days = frozenset({date(2026, 11, 23)})
    plain, on_holiday = Host(), Host(holidays=days, holiday_share=0.2)
    for host in (plain, on_holiday):
        host.minutes(3 * MINUTES_A_WEEK + 985, weekly)
    assert plain.minutes(5).placeholders == 110
    assert on_holiday.minutes(5).placeholders == 22


def test_a_class_is_known_after_a_break_of_named_holidays() -> None:
    """Four weeks with the class, three without: what nobody attended on holidays is no sign that the class is over."""
    first, now = datetime_of(BEGIN + 1000).date(), BEGIN + 7 * MINUTES_A_WEEK + 990
    days = frozenset(first + timedelta(weeks=each) for each in (4, 5, 6))

    def placeholders(settings: DemandSettings) -> int:
        record = DemandRecord(BEGIN, settings)
        for minute in range(4 * 5):
            record.counts.record(BEGIN + minute // 5 * MINUTES_A_WEEK + 1000 + minute % 5, 20)
        record.observe(now - 1, 0)
        return forecast(record, GroupSituation(LEAD), now).placeholders

    assert placeholders(DemandSettings(holidays=days)) == 110
    assert placeholders(DemandSettings()) < 30


def test_yesterday_is_the_example_of_the_first_week() -> None:
    """Users who come from ten to twelve: on the second day, some placeholders are there before ten."""
    yesterday, without = Host(), Host(weeks=0)
    for host in (yesterday, without):
        host.minutes(MINUTES_A_DAY + 595, lambda minute: 600 <= (minute - BEGIN) % MINUTES_A_DAY < 720)
    found = yesterday.minutes(1)
    assert (found.decided_by, without.minutes(1).placeholders) == (Source.SEASONAL, 0)
    assert found.placeholders >= 10
    announced = Host()
    announced.minutes(595)
    situation = GroupSituation(LEAD, occurrences=(announced.entry(60, 5),))
    announced.minutes(10, 10, situation)
    announced.minutes(MINUTES_A_DAY - 10)
    assert announced.minutes(1).placeholders == 0, "a class that was announced is no season"


def test_an_entry_is_there_before_it_begins_and_gone_after_the_last_has_joined() -> None:
    host = Host()
    host.minutes(60)
    situation = GroupSituation(LEAD, occurrences=(host.entry(100, 60),))
    assert host.minutes(46, 0, situation).placeholders == 0
    answer = host.minutes(1, 0, situation)
    assert (answer.placeholders, answer.decided_by) == (100, Source.CALENDAR)
    host.minutes(13, 0, situation)
    assert host.minutes(5, 15, situation).placeholders == 25
    assert host.minutes(2, 10, situation).placeholders == 5


def test_the_rush_of_an_entry_is_not_carried_on() -> None:
    """Of a burst that no entry announces, the minutes before it is known as one are."""
    announced, surprised = Host(hold=4.0), Host(hold=4.0)
    for host in (announced, surprised):
        host.minutes(300, lambda minute: minute % 2)
    usual = announced.minutes(1, 0).placeholders
    situation = GroupSituation(LEAD, occurrences=(announced.entry(100, 1),))
    announced.minutes(1, 0, situation)
    surprised.minutes(2)
    announced.minutes(5, 20, situation)
    surprised.minutes(5, 20)
    assert announced.minutes(40, 0).placeholders <= usual
    assert usual < surprised.minutes(33, 0).placeholders < 3 * usual


def test_an_entry_comes_on_top_of_usual_launches() -> None:
    host = Host()
    usual = host.minutes(300, 1)
    answer = host.minutes(1, 1, GroupSituation(LEAD, occurrences=(host.entry(100, 5),)))
    assert answer.placeholders == pytest.approx(100 + usual.placeholders, abs=1)


def test_in_total_counts_running_servers() -> None:
    host = Host()
    host.minutes(10)
    occurrences = (host.entry(100, 5, counts="in total"),)
    assert host.minutes(1, 0, GroupSituation(LEAD, present=70, occurrences=occurrences)).placeholders == 30


@pytest.mark.parametrize(
    ("situation", "number", "source"),
    [
        pytest.param(GroupSituation(LEAD, floor=3), 3, Source.FLOOR, id="floor"),
        pytest.param(
            GroupSituation(LEAD, pending_spawns=4, reserved=2), 6, Source.PENDING, id="spawns and reservations"
        ),
        pytest.param(GroupSituation(LEAD, floor=3, pending_spawns=5), 5, Source.PENDING, id="the larger"),
    ],
)
def test_the_forecast_is_never_below_the_need(situation: GroupSituation, number: int, source: Source) -> None:
    answer = Host().minutes(10, 0, situation)
    assert (answer.placeholders, answer.decided_by) == (number, source)


def test_a_limit_is_shown_where_it_is_reached() -> None:
    answer = Host().minutes(1, 0, GroupSituation(LEAD, floor=30, most=12))
    assert (answer.placeholders, answer.limited_to) == (12, 12)
    assert answer.reason == "12 placeholders: floor; limited to 12"
    assert Host().minutes(1, 0, GroupSituation(LEAD, floor=12, most=12)).limited_to is None


def test_the_rest_of_a_node_is_filled_where_that_is_wanted() -> None:
    situation = GroupSituation(LEAD, present=5, floor=3, slots_per_node=10)
    assert Host().minutes(1, 0, situation).placeholders == 3
    answer = Host(fill_nodes=True).minutes(1, 0, situation)
    assert (answer.placeholders, answer.filled) == (5, 2)
    assert "2 of them fill the last node" in answer.reason
    nothing = replace(situation, floor=0)
    assert Host(fill_nodes=True).minutes(1, 0, nothing).placeholders == 0, "no placeholders fill no node"


def shared_nodes(present: int) -> GroupSituation:
    return GroupSituation(LEAD, present=present, floor=3, slots_per_node=10)


def test_free_slots_of_nodes_that_are_needed_anyway_get_no_placeholder() -> None:
    """As few placeholders as need the same nodes, but enough for the launches of a minute, and for users who are known.

    A node on which servers run stays: what fits its free slots needs no placeholder, however many these are.
    """
    rate = [1 if minute % 4 == 0 else 0 for minute in range(400)]
    host = Host()
    shared = GroupSituation(LEAD, present=42, slots_per_node=10)
    answer = host.minutes(400, lambda minute: rate[(minute - BEGIN) % 400], shared)
    own = replace(shared, free_slots=8)

    def asked(unused: int = 0, **changes: Any) -> Forecast:
        record = host.record.later()
        record.unused = unused
        return forecast(record, replace(own, **changes), host.now)

    full, at_once = answer.placeholders, 2
    assert 4 < full <= 8
    assert asked().placeholders == at_once
    assert asked().spared == full - asked().placeholders
    assert "fewer, as the same nodes have free slots for them" in asked().reason
    # As many further nodes as all of the placeholders would need.
    found = [asked(free_slots=free).placeholders for free in range(30)]
    assert found == [max(free + 1, at_once) if free < full else at_once for free in range(30)]
    # What is there is deleted slowly; what a launch takes is not made anew.
    assert [asked(unused).placeholders for unused in (1, 3, full + 9)] == [at_once, 3, full]
    assert host.minutes(1, 1, own).placeholders == full - 2
    full = asked(free_slots=None).placeholders
    assert asked(pending_spawns=1).placeholders == full, "servers wait for nodes"
    assert asked(floor=4).placeholders >= 4
    assert asked(occurrences=(host.entry(2, 5),)).placeholders >= full, "until the entry begins it only rises"


def test_a_node_is_kept_for_a_while_after_its_servers_have_ended() -> None:
    host = Host(node_hold=1.0)
    assert host.minutes(10, 0, shared_nodes(16)).placeholders == 3
    answer = host.minutes(1, 0, shared_nodes(12))
    assert (answer.placeholders, answer.kept) == (7, 4)
    assert answer.reason == "7 placeholders: floor; 4 of them keep a node for a while"
    assert host.minutes(6, 0, shared_nodes(12)).kept == 4
    assert host.minutes(2, 0, shared_nodes(12)).kept == 0


def test_a_lower_floor_is_no_node_to_keep() -> None:
    host = Host(node_hold=1.0)
    assert host.minutes(10, 0, replace(shared_nodes(16), floor=5)).placeholders == 5
    answer = host.minutes(1, 0, shared_nodes(16))
    assert (answer.placeholders, answer.kept) == (3, 0)


def test_placeholders_that_keep_a_node_need_no_extra_safety() -> None:
    host = Host()
    host.minutes(10, 0, shared_nodes(16))
    kept = host.minutes(1, 0, shared_nodes(12)).kept
    host.minutes(8, 0, shared_nodes(12))
    assert host.record.judged is not None
    assert host.record.judged.expected == kept == 4


def test_no_more_than_half_a_node_is_kept_when_a_class_is_over() -> None:
    host = Host()
    host.minutes(10, 0, shared_nodes(200))
    assert host.minutes(1, 0, shared_nodes(5)).placeholders == 3 + 5


@all_of_them("before, after, kept", {"none are left": (200, 0, 0), "one of others ends, too": (206, 5, 1)})
def test_servers_that_end_with_their_entry_keep_no_node(before: int, after: int, kept: int) -> None:
    host = Host(node_hold=1.0)
    entry = host.entry(200, 10)
    for number in range(90):
        present = 0 if number < 10 else before if number < 75 else after  # some stay for five minutes
        coming = (entry,) if number < 70 else ()
        answer = host.minutes(1, 0, replace(shared_nodes(present), occurrences=coming))
        assert number < 75 or answer.kept == (kept if number < 83 else 0), number


def test_a_busy_hub_keeps_as_many_as_launches_usually_differ_by() -> None:
    host = Host()
    before = host.minutes(200, 10, shared_nodes(480), departures=10)
    answer = host.minutes(1, 10, shared_nodes(300), departures=10)
    assert answer.kept == round(before.deviation) > 10


def test_a_limit_goes_before_keeping_a_node() -> None:
    host = Host()
    host.minutes(10, 0, shared_nodes(16))
    answer = host.minutes(1, 0, replace(shared_nodes(12), most=5))
    assert (answer.placeholders, answer.limited_to) == (5, 5)


@pytest.mark.parametrize(
    ("slots", "settings"),
    [
        pytest.param(None, {}, id="unknown slots"),
        pytest.param(1, {}, id="one slot"),
        pytest.param(10, {"node_hold": 0.0}, id="not wanted"),
    ],
)
def test_nodes_that_are_not_kept(slots: int | None, settings: dict[str, float]) -> None:
    host = Host(**settings)
    host.minutes(10, 0, replace(shared_nodes(16), slots_per_node=slots))
    assert host.minutes(1, 0, replace(shared_nodes(12), slots_per_node=slots)).placeholders == 3


def test_the_reason_is_one_line_with_the_inputs() -> None:
    host = Host()
    assert host.minutes(200, 1).reason.startswith(
        "19 placeholders: recent launches: about 8.0 expected within 8 min, and a safety of "
    )
    answer = host.minutes(1, 1, GroupSituation(LEAD, occurrences=(host.entry(100, 5),)))
    assert answer.reason == "119 placeholders: calendar (physics: 100 to come)"
    assert {each.source for each in answer.estimates} >= {Source.REACTIVE, Source.SEASONAL, Source.CALENDAR}


def test_a_longer_lead_time_needs_more() -> None:
    short, long = (Host().minutes(300, 1, GroupSituation(timedelta(minutes=lead))) for lead in (4, 16))
    assert long.expected == pytest.approx(4 * short.expected)
    assert long.placeholders > 2 * short.placeholders


def test_a_pause_in_the_record_is_a_time_without_launches() -> None:
    host = Host()
    host.minutes(300, 2)
    host.now += 600
    assert host.minutes(1).placeholders == 0


def test_calendar_only_learns_nothing() -> None:
    host = Host()
    host.minutes(300, 3)
    situation = GroupSituation(LEAD, floor=2, occurrences=(host.entry(10, 600),))
    assert calendar_only(host.record, situation, host.now).placeholders == 2
    situation = GroupSituation(LEAD, floor=2, occurrences=(host.entry(10, 5),))
    assert calendar_only(host.record, situation, host.now).placeholders == 10


def test_the_hit_rate_is_that_of_the_settings() -> None:
    high, low = (Host(hit_rate=rate).minutes(200, 2).placeholders for rate in (0.999, 0.8))
    assert high > low


def test_settings_outside_of_their_range_are_refused() -> None:
    rows: tuple[tuple[dict[str, Any], str], ...] = (
        ({"hit_rate": 1.0}, "hit_rate is 1.0"),
        ({"memory": 0.0}, "memory is 0.0"),
        ({"hold": -1.0}, "hold is -1.0"),
        ({"node_hold": -1.0}, "node_hold is -1.0"),
        ({"weeks": 6}, "at most 5 weeks"),
        ({"burstiness": float("nan")}, "burstiness is nan"),
        ({"calendar_margin": timedelta(-1)}, "calendar_margin"),
    )
    for settings, problem in rows:
        with pytest.raises(ValueError, match=problem):
            DemandSettings(**settings)


@all_of_them("seed", range(example_count(100)))
def test_the_target_of_an_entry_rises_only_until_it_begins(seed: int) -> None:
    """Whatever is learned of nodes meanwhile, and however launches beside it come and go."""
    random, host = Random(seed), Host()
    host.minutes(40, lambda now: random.choice((0, 0, 0, 1)))
    entries = (host.entry(random.randrange(1, 99), 90), host.entry(random.randrange(1, 99), 92))
    targets = []
    while host.now < minute_of(entries[0].begins) - 5:
        lead, slots = timedelta(minutes=random.randrange(3, 12)), random.choice((None, 1, 4, 16))
        situation = GroupSituation(lead, occurrences=entries, slots_per_node=slots, node_starts_per_minute=2)
        targets.append(host.minutes(1, random.choice((0, 0, 1)), situation))
    awaiting = [each for each in targets if each.decided_by is Source.CALENDAR]
    assert awaiting == targets[-len(awaiting) :], "once it is ordered, it stays"
    numbers = [each.placeholders - each.kept for each in awaiting]
    assert numbers == sorted(numbers)
    assert numbers[-1] >= sum(each.users for each in entries)


def test_bursts_do_not_want_many_times_what_ever_came() -> None:
    """Batches at random: neither a burst nor a safety factor that few have taught asks for many times what they needed."""
    random, host, largest = Random(1), Host(), 0
    above = []
    for minute in range(10 * MINUTES_A_DAY):
        came = random.randrange(5, 61) if random.random() < 18 / MINUTES_A_DAY else 0
        answer = host.minutes(1, came)
        largest = max(largest, host.record.counts.largest_growth(host.now, 8))
        if minute > MINUTES_A_WEEK:
            above.append(answer.placeholders - 1.5 * largest)
    assert max(above) < 1

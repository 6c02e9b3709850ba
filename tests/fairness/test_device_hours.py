"""Device-hours in windows: worked examples, and the running sums against a sum over all parts."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.fairness.device_hours import ALL_DRIVERS, UseOverTime, held_times
from tests.history.records import after, launch

HOUR = 3600.0


def test_what_servers_held() -> None:
    half = {"devices": {"gpu.example.com": 0.5, "nic.example.com": 1.0}, "choice": "gpu/memory=large"}
    launches = [
        launch("1", 0, bound=after(HOUR), ended=after(3 * HOUR), **half),
        launch("2", 0, bound=after(0), **half),
        launch("waits", 0, devices=None),
        launch("no devices", 0, bound=after(0), devices={}),
        launch("old record", 0, bound=after(0)),
        launch("from the future", 0, bound=after(9 * HOUR), **half),
    ]
    found, unknown = held_times(launches, after(4 * HOUR))
    assert [(each.end - each.begin) / HOUR for each in found] == [2, 4], "one that runs holds its devices until now"
    assert (found[0].number(ALL_DRIVERS), found[0].number("gpu.example.com"), found[0].number("other")) == (1.5, 0.5, 0)
    assert unknown == 1


def test_a_window_cuts_what_reaches_over_its_ends() -> None:
    start = after(0).timestamp()
    use = UseOverTime([(start, start + 4 * HOUR, 0.5), (start + 2 * HOUR, start + 3 * HOUR, 2.0)])
    assert use.within(start, start + 4 * HOUR) == 4.0
    assert use.within(start + HOUR, start + 2 * HOUR) == 0.5
    assert use.within(start - HOUR, start + 2.5 * HOUR) == 2.25
    assert use.within(start + 9 * HOUR, start + 10 * HOUR) == 0
    assert UseOverTime([]).within(0, start) == 0


MOMENTS = st.integers(0, 400).map(lambda hours: (after(0) + timedelta(hours=hours)).timestamp())
PARTS = st.lists(
    st.tuples(MOMENTS, MOMENTS, st.sampled_from([0.125, 1.0, 8.0])).map(lambda found: (*sorted(found[:2]), found[2]))
)


@given(PARTS, MOMENTS, MOMENTS)
def test_any_window(parts: list[tuple[float, float, float]], one: float, other: float) -> None:
    begin, end = sorted((one, other))
    summed = sum(number * max(min(last, end) - max(first, begin), 0) for first, last, number in parts) / HOUR
    assert abs(UseOverTime(parts).within(begin, end) - summed) < 1e-6

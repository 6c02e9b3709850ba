"""Samples of placeholders, minute by minute."""

from __future__ import annotations

from dra_spawner.service.ahead.placeholder_samples import PlaceholderSamples, Sample

SAMPLE = Sample(warm=1, reserved=0, coming=1, target=2, forecast=None, servers=3, pending=0)


def test_a_day_of_minutes() -> None:
    samples, calls = PlaceholderSamples(), []
    assert samples.first is None
    samples.on_add = lambda: calls.append(1)
    for minute in (5, 5, 4, *range(6, 2000)):
        samples.add(minute, {"gpu": SAMPLE})
    minutes = [minute for minute, _ in samples.between(0, 10_000)]
    assert (minutes[0], minutes[-1], len(minutes), len(calls)) == (560, 1999, 1440, 1995)
    assert samples.first == 560
    assert [minute for minute, _ in samples.between(1000, 1002)] == [1000, 1001]

"""What is busy, idle or unknown, and since when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner.fairness.idle.samples import DeviceUse, Sample
from dra_spawner.fairness.idle.verdicts import Verdict, judge
from tests.all_of_them import all_of_them
from tests.fairness.idle.looks import BEGIN, GAP, MINUTE, at, sample

BUSY, IDLE, UNKNOWN = Verdict.BUSY, Verdict.IDLE, Verdict.UNKNOWN
SHARED = sample(percent=40.0, is_own=False)


@all_of_them("seen, verdict, reason", {
    "idle": (sample(), IDLE, "No kernel computes, and its devices are not used."),
    "a kernel computes beside an unused device": (sample("busy"), BUSY, "A kernel computes."),
    "a kernel computes while no metric answers": (sample("busy", None), BUSY, "A kernel computes."),
    "the device is used": (sample(percent=37.5), BUSY, "gpu-0 is used (37.5)."),
    "the device is used, and the server is silent": (
        Sample(None, "gone", (DeviceUse("gpu-0", 5.0),)), BUSY, "gpu-0 is used (5).",
    ),
    "one of two devices is used": (
        replace(sample(), devices=(DeviceUse("gpu-0", 0.0), DeviceUse("gpu-1", 9.0))), BUSY, "gpu-1 is used (9).",
    ),
    "at the limit": (sample(percent=1.0), IDLE, "No kernel computes, and its devices are not used."),
    "no value": (sample(percent=None), UNKNOWN, "The metric of gpu-0 has no value."),
    "the server is silent": (Sample(None, "it has not reported"), UNKNOWN, "Its kernels are not known: it has not reported."),
    "others use the shared GPU": (
        SHARED, UNKNOWN, "gpu-0 is used, and its metric does not tell the shares of servers apart.",
    ),
    "nobody uses the shared GPU": (
        sample(percent=0.0, is_own=False), IDLE, "No kernel computes, and its devices are not used.",
    ),
    "a word that no kernel says": (sample("unknown"), UNKNOWN, "The state of a kernel is not understood."),
    "a dead kernel": (sample("dead"), IDLE, "No kernel computes, and its devices are not used."),
    "no metric": (sample(has_metric=False), IDLE, "No kernel computes, and no metric tells of its devices."),
    "a terminal, and no metric": (
        sample(has_metric=False, terminals=(BEGIN,)), UNKNOWN,
        "A terminal is open, and no metric tells whether it computes.",
    ),
    "a terminal beside an unused device": (
        sample(terminals=(BEGIN,)), IDLE, "No kernel computes, and its devices are not used.",
    ),
    "times in the future": (sample(last=BEGIN + 5 * MINUTE), UNKNOWN, "The server's times are in the future."),
})  # fmt: skip
def test_one_look(seen: Sample, verdict: Verdict, reason: str) -> None:
    found = judge(None, seen, at(0), GAP)
    assert (found.verdict, found.reason) == (verdict, reason)
    assert (found.since is not None) == (verdict is IDLE)


def test_the_time_counts_from_the_first_look_or_the_last_activity() -> None:
    found = judge(None, sample(), at(0), GAP)
    assert found.since == BEGIN, "what nobody has looked at is not idle"
    found = judge(found, sample(), at(1), GAP)
    assert found.idle_for == MINUTE
    found = judge(found, sample(last=BEGIN + 1.5 * MINUTE), at(2), GAP)
    assert found.idle_for == 0.5 * MINUTE, "a cell has run between two looks"
    found = judge(found, sample(last=BEGIN + 2 * MINUTE, terminals=(BEGIN + 2.5 * MINUTE,)), at(3), GAP)
    assert found.idle_for == 0.5 * MINUTE, "and then a command in a terminal"


@all_of_them("minutes, seen, set_by", {
    "a gap": (2.6, sample(), timedelta(0)),
    "the metric vanishes": (1, sample(percent=None), timedelta(0)),
    "the server is silent": (1, Sample(None), timedelta(0)),
    "the clock is set forward": (1, sample(), timedelta(hours=2)),
    "the clock is set back": (1, sample(), timedelta(hours=-2)),
    "busy for a moment": (1, sample("busy"), timedelta(0)),
})  # fmt: skip
def test_what_begins_the_time_anew(minutes: float, seen: Sample, set_by: timedelta) -> None:
    found = judge(judge(None, sample(), at(0), GAP), sample(), at(1), GAP)
    found = judge(found, seen, at(1 + minutes, set_by=set_by), GAP)
    found = judge(found, sample(), at(2 + minutes, set_by=set_by), GAP)
    assert found.idle_for <= MINUTE
    assert found.verdict is IDLE


def test_devices_that_are_unused_while_kernels_seem_busy() -> None:
    found = judge(None, sample("busy"), at(0), GAP)
    for minute in range(1, 61):
        found = judge(found, sample("busy"), at(minute), GAP)
    assert (found.verdict, found.unused_since) == (BUSY, BEGIN), "an administrator sees who fakes a busy kernel"
    assert judge(found, sample("busy", None), at(61), GAP).unused_since is None
    assert judge(found, SHARED, at(61), GAP).unused_since is None

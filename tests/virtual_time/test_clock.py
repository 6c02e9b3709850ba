"""The clock that jumps, and real stamps as times of this clock."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest

from tests.set_clock import SetClock
from tests.virtual_time.api import Stamps
from tests.virtual_time.clock import JumpingClock, StandingClock

REAL = datetime(2026, 5, 5, 12, 0, 0, 200_000, UTC)
MORNING = datetime(2026, 3, 2, 7, tzinfo=UTC)


@pytest.fixture
def real() -> SetClock[datetime]:
    return SetClock(REAL)


@pytest.fixture
def clock(real: SetClock[datetime]) -> JumpingClock:
    return JumpingClock(MORNING, real)


def stamp(moment: datetime) -> str:
    """As the API server writes it: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def after(seconds: float) -> str:
    return stamp(MORNING + timedelta(seconds=seconds))


def test_a_standing_clock_goes_by_its_jumps_alone(real: SetClock[datetime]) -> None:
    clock = StandingClock(MORNING, real)
    real.now += timedelta(seconds=3)
    assert clock.now() == MORNING
    clock.jump_to(MORNING + timedelta(seconds=5))
    real.now += timedelta(seconds=2)
    assert clock.now() == MORNING + timedelta(seconds=5)
    assert clock.at(REAL + timedelta(seconds=1)) == MORNING


def test_the_clock_goes_as_fast_as_real_time_and_jumps(clock: JumpingClock, real: SetClock[datetime]) -> None:
    assert clock.now() == MORNING
    real.now += timedelta(seconds=3)
    assert clock.now() == MORNING + timedelta(seconds=3)
    clock.jump_to(MORNING + timedelta(hours=1))
    assert clock.now() == MORNING + timedelta(hours=1)
    real.now += timedelta(seconds=2)
    assert clock.now() == MORNING + timedelta(hours=1, seconds=2)


def test_the_clock_never_goes_back(clock: JumpingClock, real: SetClock[datetime]) -> None:
    real.now += timedelta(seconds=10)
    clock.jump_to(MORNING)
    assert clock.now() == MORNING + timedelta(seconds=10)


def test_the_clock_knows_which_time_it_showed(clock: JumpingClock, real: SetClock[datetime]) -> None:
    for hour in (1, 2):
        real.now += timedelta(seconds=10)
        clock.jump_to(MORNING + timedelta(hours=hour))
    real.now += timedelta(seconds=10)
    shown = {5: timedelta(seconds=5), 15: timedelta(hours=1, seconds=5), 25: timedelta(hours=2, seconds=5)}
    for seconds, passed in shown.items():
        assert clock.at(REAL + timedelta(seconds=seconds)) == MORNING + passed
    assert clock.at(REAL - timedelta(seconds=5)) == MORNING - timedelta(seconds=5), "before it began"


def pod(created: datetime, uid: str = "1", **metadata: str) -> dict[str, object]:
    return {"kind": "Pod", "metadata": {"uid": uid, "name": "a", "creationTimestamp": stamp(created), **metadata}}


def created_of(stamps: Stamps, obj: dict[str, object]) -> str:
    return str(stamps.translate(obj)["metadata"]["creationTimestamp"])


def test_an_object_created_after_a_jump_within_the_same_second_is_not_older(
    clock: JumpingClock, real: SetClock[datetime]
) -> None:
    stamps = Stamps(clock)
    assert created_of(stamps, pod(REAL)) == after(0)
    real.now += timedelta(seconds=0.1)
    clock.jump_to(MORNING + timedelta(minutes=5))
    real.now += timedelta(seconds=0.1)
    assert created_of(stamps, pod(REAL, uid="2")) == after(300)


def test_a_stamp_is_translated_once_and_for_all(clock: JumpingClock, real: SetClock[datetime]) -> None:
    stamps = Stamps(clock)
    seen = created_of(stamps, pod(REAL))
    for minutes in (5, 50):
        real.now += timedelta(seconds=0.3)
        clock.jump_to(MORNING + timedelta(minutes=minutes))
        assert created_of(stamps, pod(REAL)) == seen


def test_an_object_that_is_seen_late_counts_from_its_creation(clock: JumpingClock, real: SetClock[datetime]) -> None:
    real.now += timedelta(seconds=10)
    clock.jump_to(MORNING + timedelta(hours=1))
    assert created_of(Stamps(clock), pod(REAL + timedelta(seconds=4))) == after(4.8)


def test_a_deletion_after_a_grace_is_in_the_future(clock: JumpingClock, real: SetClock[datetime]) -> None:
    clock.jump_to(MORNING + timedelta(hours=1))
    obj = pod(REAL, deletionTimestamp=stamp(REAL + timedelta(seconds=30)))
    assert Stamps(clock).translate(obj)["metadata"]["deletionTimestamp"] == after(3629.8)


def test_all_stamps_of_controllers_in_a_list_are_translated(clock: JumpingClock, real: SetClock[datetime]) -> None:
    clock.jump_to(MORNING + timedelta(hours=1))
    real.now += timedelta(seconds=1)
    now = stamp(REAL)
    status = {
        "startTime": now,
        "conditions": [{"type": "Ready", "lastTransitionTime": now}, {"type": "Other", "lastTransitionTime": None}],
    }
    answer = {"items": [{**pod(REAL, uid=uid), "status": deepcopy(status)} for uid in "12"], "metadata": {}}
    for item in Stamps(clock).translate(answer)["items"]:
        assert item["metadata"]["creationTimestamp"] == after(3600.9)
        assert item["status"]["startTime"] == after(3600.9)
        assert item["status"]["conditions"][0]["lastTransitionTime"] == after(3600.9)
        assert item["status"]["conditions"][1]["lastTransitionTime"] is None


def test_times_that_others_write_as_text_stay(clock: JumpingClock, real: SetClock[datetime]) -> None:
    clock.jump_to(MORNING + timedelta(hours=1))
    obj = pod(REAL)
    obj["metadata"] |= {"labels": {"until": "1772000000"}, "annotations": {"at": stamp(REAL)}}  # type: ignore[operator]
    translated = Stamps(clock).translate(obj)["metadata"]
    assert translated["labels"] == {"until": "1772000000"}
    assert translated["annotations"] == {"at": stamp(REAL)}

"""How far a class is: whose servers are whose, and what is said before, during and after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.calendars.class_progress import (
    ClassProgress,
    SeenServer,
    member_sentence,
    nearest,
    outcome_key,
    progress_of_classes,
    progress_sentence,
    time_text,
)
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

BEGIN = datetime(2026, 3, 2, 14, tzinfo=ZoneInfo("Europe/Berlin"))
NOW = BEGIN.astimezone(UTC)
MARGIN = timedelta(minutes=5)


def lab(users: int = 2, hours: float = 0, name: str = "lab") -> Occurrence:
    begins = BEGIN + timedelta(hours=hours)
    return Occurrence(name, "gpu", begins, begins + timedelta(hours=1), users)


def asked(minutes: float, seconds: float = 1.0, *, has_node: bool = True, runs: bool = True) -> SeenServer:
    return SeenServer(NOW + timedelta(minutes=minutes), seconds, has_node, runs)


def test_servers_and_placeholders_of_classes() -> None:
    early, late = lab(), lab(hours=0.5, name="late")
    servers = [asked(-6), asked(-5), asked(1, 9.0, runs=False), asked(40), asked(41, 30.0, has_node=False)]
    servers += [asked(30), asked(59.9), asked(70), asked(200)]
    found = progress_of_classes([late, early], servers, 1, MARGIN, NOW + timedelta(minutes=45))
    first, second = found[early], found[late]
    assert (first.came, first.running, first.waiting, first.longest_seconds) == (2, 1, 0, 9.0)
    # Two of its own, and all who came beyond the announced numbers.
    assert (second.came, second.waiting, second.longest_seconds) == (4, 1, 30.0)
    before = progress_of_classes([late, early], [asked(-1)], 2, MARGIN, NOW)
    assert [before[each].prepared for each in (early, late)] == [1, 1]
    assert progress_of_classes([early], [], 9, MARGIN, early.ends)[early].prepared == 0


def test_sentences() -> None:
    time, during = lab(60), BEGIN + timedelta(minutes=10)
    ready = ClassProgress(60, NOW - timedelta(minutes=15))
    came = ClassProgress(came=58, counted_until=time.ends - timedelta(minutes=9))
    cases = {
        "": (ClassProgress(), NOW - MARGIN),
        "12 of 60 prepared": (ClassProgress(12), NOW - MARGIN),
        "60 of 60 prepared, ready since 13:45": (ready, NOW - MARGIN),
        "2 of 60 have a server, 58 more are prepared, ready since 13:45": (
            replace(ready, prepared=58, came=2, running=2),
            NOW - MARGIN,
        ),
        "60 of 60 have a server": (replace(ready, prepared=0, came=60, running=60), NOW - MARGIN),
        "1 of 60 has a server, 1 waits": (ClassProgress(came=1, running=1, waiting=1), NOW - MARGIN),
        "2 servers are prepared at present, for anyone and not for this class": (
            ClassProgress(for_anyone=2),
            NOW - MARGIN,
        ),
        "47 of 60 have a server, 3 wait: no machine has such a device now": (
            ClassProgress(
                came=50, running=47, waiting=3, because="no machine has such a device now", counted_until=NOW
            ),
            during,
        ),
        "47 of 60 have a server, 1 waits": (ClassProgress(running=47, waiting=1, counted_until=NOW), during),
        "58 came, the longest waited 9 s": (replace(came, longest_seconds=9.2), time.ends),
        "58 came, the longest waited 4 min": (replace(came, longest_seconds=250), time.ends),
        "0 of 60 came": (replace(came, came=0), time.ends),
        "It is not known who has a server": (ClassProgress(), during),
        "It is not known how many came": (ClassProgress(), time.ends),
        "At least 58 came, the longest wait that is known was 9 s": (
            replace(came, longest_seconds=9.2, is_partial=True),
            time.ends,
        ),
        "At least 58 came, the longest wait that is known was 0 s": (
            replace(came, counted_until=time.ends - timedelta(minutes=11)),
            time.ends,
        ),
    }
    assert {progress_sentence(time, *each) for each in cases.values()} == set(cases)


def test_classes_that_are_written_alike_are_counted_one_after_the_other() -> None:
    classes = [replace(lab(), users=2, entry_id=each) for each in ("a", "b")]
    servers = [SeenServer(BEGIN + timedelta(seconds=each), 1.0) for each in range(3)]
    found = progress_of_classes(classes, servers, 1, MARGIN, BEGIN)
    assert [(found[each].came, found[each].prepared) for each in classes] == [(2, 0), (1, 1)]
    assert len(set(map(outcome_key, classes))) == 2


def test_the_nearest_times() -> None:
    times = [lab(hours=each) for each in (-48, -24, 0, 24)]
    assert nearest(iter(times), BEGIN + timedelta(minutes=30)) == (times[2], times[1])
    assert nearest(iter(times), times[3].ends) == (None, times[3])
    assert nearest(iter(times), BEGIN - timedelta(days=9)) == (times[0], None)
    assert len({outcome_key(each) for each in (*times, lab(name="lab\0gpu"))}) == 5


AT = datetime(2026, 3, 3, 14, tzinfo=timezone(timedelta(hours=1), "CET"))
CLASS = Occurrence("Lab", "gpu-whole", AT, AT + timedelta(hours=2), 60)
BEFORE = datetime(2026, 3, 3, 12, tzinfo=UTC)
CHOOSE = "Choose “A whole GPU” when you start your server."
READY = ClassProgress(60, ready_at=BEFORE)
BUSY = ClassProgress(came=50, running=47, waiting=3, because="no machine has such a device now")


def test_what_members_of_its_group_read() -> None:
    cases = {
        f"{CHOOSE} Everything is prepared.": (READY, -1.0, False),
        CHOOSE: (ClassProgress(12), -1.0, False),
        f"It has begun. {CHOOSE}": (READY, 0.5, True),
        f"It has begun, and some wait for a server. {CHOOSE}": (BUSY, 0.5, False),
        f"Perhaps not all can start at the same time, and some have to wait. {CHOOSE}": (READY, -1.0, True),
    }
    for sentence, (progress, hours, may_wait) in cases.items():
        at = AT + timedelta(hours=hours)
        assert member_sentence(CLASS, progress, "A whole GPU", at, may_wait=may_wait) == sentence
        assert not any(part in sentence for part in ("60", "47", "gpu-whole", "no machine"))
    for hours in (-25, 2):
        assert member_sentence(CLASS, READY, "A whole GPU", AT + timedelta(hours=hours), may_wait=True) == ""
    assert time_text(AT) == "Tue 2026-03-03 14:00 CET"

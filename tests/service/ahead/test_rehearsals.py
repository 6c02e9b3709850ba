"""Rehearsals by the service: on a copy of the cluster, beside its other work."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.exc import OperationalError

from dra_spawner import names
from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode, read_calendar_entries
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.policies import Buffer
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal
from dra_spawner.service.ahead.rehearsals import Rehearsals, TooManyRehearsals
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.service.traits.node_kind_settings import read_node_kinds
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import SHARE, node_objects
from tests.placeholders.planner.simulated_cluster import START
from tests.presence import present
from tests.service.ahead.acting_service import PHYSICS, announce, controller

IN_AN_HOUR = START + timedelta(hours=1)


def entry(profile: str = "gpu-slice", users: int = 20) -> Occurrence:
    return Occurrence("physics", profile, IN_AN_HOUR, IN_AN_HOUR + timedelta(hours=1), users)


LINE: Final = "20 of gpu-slice at 10:00"
TWO_NEW_NODES: Final = read_node_kinds([{"name": "g2", "slots": 8, "lead_minutes": 8, "max_nodes": 2}])


async def alone(rehearsals: Rehearsals, entry: Occurrence) -> Rehearsal | None:
    """An entry after its rehearsal."""
    return (await rehearsals.of_day([entry])).get(entry)


async def rehearsed_entries(service: ScaleAheadController, *entries: object, **more: Any) -> RehearsedEntries:
    """The entries of a calendar after their rehearsals."""
    announce(service, *entries)
    found = RehearsedEntries(service, Rehearsals(service, **more))
    await found.refresh()
    return found


@pytest.mark.promise("Each class of a calendar is rehearsed, and its problems are reported.")
async def test_entries_are_rehearsed_and_their_problems_are_reported() -> None:
    rehearsed = await rehearsed_entries(
        controller(most=100),
        {"users": "20 of gpu-slice", "begins": "2026-03-02 10:00", "name": "small"},
        {"users": "400 of gpu-slice", "begins": "2026-03-02 11:00", "name": "large"},
        {"users": "5 of gpu-slice", "begins": "2026-03-02 08:50", "name": "has begun"},
        {"users": "400 of gpu-slice", "begins": "2026-03-04 10:00", "name": "later"},
        {"users": "400 of another", "begins": "2026-03-02 10:00", "name": "of nobody"},
    )
    found = {each.name: result.is_possible for each, result in rehearsed.results.items()}
    assert found == {"small": True, "large": False}
    (problem,) = rehearsed.problems()
    assert problem.startswith("Scale-ahead: calendar entry 'large' at 2026-03-02 11:00 UTC: No: ")
    assert "only 100 servers can be prepared in advance" in problem
    rehearsed.forget()
    assert rehearsed.problems() == ()


async def test_entries_that_announce_the_same_are_rehearsed_as_several() -> None:
    rehearsed = await rehearsed_entries(controller(most=30), PHYSICS, PHYSICS, {**PHYSICS, "users": "5 of gpu-slice"})
    assert [(each.users, each.entry_id, result.is_possible) for each, result in rehearsed.results.items()] == [
        (20, "", True),
        (20, "2", False),
        (5, "3", False),
    ]


async def test_no_calendar_and_no_event_uses_up_all_rehearsals() -> None:
    """What is left out is said."""

    def entries(name: str, number: int, apart: int) -> list[dict[str, Any]]:
        begins = [START + timedelta(hours=1, minutes=each * apart) for each in range(number)]
        return [
            {"users": f"{each % 4 + 1} of gpu-slice", "begins": f"{at:%Y-%m-%d %H:%M}", "name": name, "minutes": 5}
            for each, at in enumerate(begins)
        ]

    service = controller()
    book = CalendarBook(read_calendar_entries([*entries("lines", 4, 0), *entries("many", 110, 10)], UTC))
    book.added = read_calendar_entries(entries("physics", 2, 40), UTC)
    service.scale_ahead.calendars = book
    rehearsed = RehearsedEntries(service, Rehearsals(service))
    await rehearsed.refresh()
    names = Counter(each.name for each in rehearsed.results)
    assert names == {"lines": 1, "many": 97, "physics": 2}
    assert rehearsed.problems() == (
        "Scale-ahead: 16 of the coming day's calendar entries are not rehearsed, as at most 100 are.",
    )


async def test_entries_of_one_time_are_rehearsed_together() -> None:
    """Two nodes of eight, and eight at most: 64 servers. The last of many is rehearsed, too."""
    kinds = read_node_kinds([{"name": "g2", "slots": 8, "lead_minutes": 8, "max_nodes": 8}])

    async def verdicts(*begins: str, users: int = 40) -> list[str]:
        entries = [
            {"users": f"{users} of gpu-slice", "begins": f"2026-03-02 {at}", "name": f"class {number}", "minutes": 60}
            for number, at in enumerate(begins)
        ]
        rehearsed = await rehearsed_entries(controller(), *entries, kinds=kinds)
        return [each.verdict.partition(" at ")[0] for each in rehearsed.results.values()]

    both = ["Yes: 40 users can start", "No: 16 of 40 users cannot start"]
    assert await verdicts("10:00", "10:00") == both
    assert await verdicts("10:00", "10:10") == both
    assert await verdicts("10:00", "11:10") == ["Yes: 40 users can start"] * 2, "the first class has ended"
    many = await verdicts(*(f"{10 + number // 4}:{number % 4 * 15:02}" for number in range(25)), users=17)
    assert many == (["Yes: 17 users can start"] * 3 + ["No: 4 of 17 users cannot start"]) + many[4:]
    assert len(many) == 25


@all_of_them(
    "joined, expected",
    {
        "by the time that has passed": (None, "No: 4 of 12 users cannot start"),
        "as they were counted": (4, "No: 8 of 12 users cannot start"),
        "all have joined": (16, "Yes: 12 users can start"),
    },
)
async def test_users_of_a_class_that_has_begun_are_beside_the_next_one(joined: int | None, expected: str) -> None:
    """The placeholders that wait for them are not for others. Servers that run are no part of it."""
    service = controller()
    announce(
        service,
        {"users": "16 of gpu-slice within 30 min", "begins": "2026-03-02 08:50", "name": "going on"},
        {"users": "12 of gpu-slice", "begins": "2026-03-02 09:30", "name": "next"},
        {"users": "400 of gpu-slice", "begins": "2026-03-02 07:30", "name": "over"},
    )
    if joined is not None:
        service.scale_ahead.begin(START - timedelta(minutes=12))
        for number in range(joined):
            service.scale_ahead.record(Launch(f"{number}", START - timedelta(minutes=9), "gpu-slice", "gpu-slice"))
        service.advance_forecasts()
    rehearsals = Rehearsals(service, kinds=TWO_NEW_NODES)
    rehearsed = RehearsedEntries(service, rehearsals)
    await rehearsed.refresh()
    ((entry, result),) = rehearsed.results.items()
    line = await rehearsals.of_users(rehearsals.expected_by("12 of gpu-slice at 09:31", UTC))
    assert entry.name == "next"
    assert result.verdict.startswith(expected), result.verdict
    assert line.is_possible is False, "the next class is beside it"
    if joined == 16:
        changed = replace(entry, begins=entry.begins + timedelta(minutes=1), ends=entry.ends + timedelta(minutes=1))
        book = service.scale_ahead.calendars
        book.entries, book.added = (book.entries[0], book.entries[2]), (book.entries[1],)
        then = rehearsals.expected_by("12 of gpu-slice at 09:31", UTC)
        found = await rehearsals.of_users(then, None, changed, added=())
        assert found.is_possible, "nothing is beside it where it takes the place of that class"


async def test_a_class_in_the_hour_that_the_clock_shows_twice_is_beside_others() -> None:
    """It lasts from 2:30 to 2:30 of the clock, which is an hour."""
    service, night = controller(), {"begins": "2026-10-25 02:30", "minutes": 60, "timezone": "Europe/Berlin"}
    announce(service, {"users": "16 of gpu-slice", "name": "night", **night})
    rehearsals = Rehearsals(service, kinds=TWO_NEW_NODES)

    async def verdict(users: int, at: str) -> str:
        line = f"{users} of gpu-slice at 2026-10-25 {at}"
        return (await rehearsals.of_users(rehearsals.expected_by(line, ZoneInfo("Europe/Berlin")))).verdict

    assert "12 of 12 users cannot start" in await verdict(12, "02:45")
    assert "12 users can start" in await verdict(12, "03:00"), "the class has ended"
    assert (await verdict(16, "02:30")).startswith("Yes: 16 users can start"), "they are the class"


async def test_a_verdict_stays_while_other_rehearsals_wait() -> None:
    go = threading.Event()

    def quotas() -> tuple[Quota, ...]:
        assert go.wait(60)
        return ()

    service = controller()
    announce(service, {"users": "20 of gpu-slice", "begins": "2026-03-02 10:00"})
    rehearsals = Rehearsals(service, quotas=quotas)
    rehearsed = RehearsedEntries(service, rehearsals)
    others = [asyncio.create_task(rehearsals.of_users(rehearsals.expected_by(LINE, UTC))) for _ in range(8)]
    await asyncio.sleep(0)
    task = asyncio.create_task(rehearsed.refresh())
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(task, *others)
    assert [each.is_possible for each in rehearsed.results.values()] == [True]


@all_of_them(
    "given, expected",
    {
        "it acts": ({}, "Yes: 20 users can start at 10:00; 1 node of g2 is ordered at 09:45."),
        "it advises": ({"mode": ScaleAheadMode.ADVISE}, "Only if 1 node of g2 is ordered at 09:45: 20 users can"),
        "no autoscaler": ({"has_autoscaler": False}, "Only if 1 node of g2 is added by 09:55: 20 users can start"),
        "another policy": ({"policies": {"gpu-slice": Buffer(3)}}, "Only if 1 node of g2 is ordered at 09:45: 20"),
    },
)
async def test_what_the_service_does_not_do_is_a_condition(given: dict[str, Any], expected: str) -> None:
    rehearsed = await rehearsed_entries(controller(**given), PHYSICS)
    (result,) = rehearsed.results.values()
    assert result.verdict.startswith(expected)
    assert bool(rehearsed.problems()) is expected.startswith("Only if")


async def test_an_entry_of_a_calendar() -> None:
    rehearsals = Rehearsals(controller())
    found = present(await alone(rehearsals, entry()))
    assert found.verdict == "Yes: 20 users can start at 10:00; 1 node of g2 is ordered at 09:45."
    assert found.first_order_at == IN_AN_HOUR - timedelta(minutes=15)
    unread = "ResourceQuotas of namespace hub are not checked"
    assert unread in [each.message for each in found.problems]
    assert await alone(rehearsals, entry("unknown")) is None


async def test_limits_quotas_and_lead_times_of_the_service() -> None:
    database = HistoryDatabase.open("sqlite://")
    images = START + timedelta(minutes=7)
    database.add([NodeLeadTime(str(each), "n", "g2", START, images=images) for each in range(3)])
    quotas = (Quota("q", left={"pods": 12 * NANO_PER_UNIT}),)
    found = present(await alone(Rehearsals(controller(), lambda: database, lambda: quotas), entry()))
    assert [(each.code.value, each.users) for each in found.problems] == [("quota", 8)]
    found = present(await alone(Rehearsals(controller(17), lambda: database, lambda: ()), entry(users=40)))
    assert [each.code.value for each in found.problems] == ["placeholder-limit"]
    assert found.orders[0].supply.lead == timedelta(minutes=7)
    database.close()


async def test_a_history_that_is_away_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Away(HistoryDatabase):
        def __init__(self) -> None:
            pass

        def lead_times(self, *arguments: Any, **more: Any) -> Any:
            raise OperationalError("SELECT", {}, Exception("disk I/O error"))

    rehearsals = Rehearsals(controller(), Away)
    for _ in range(3):  # as for each entry, every ten minutes
        assert present(await alone(rehearsals, entry())).is_possible
    assert caplog.text.count("Lead times cannot be read") == 1


# --- a cluster that is scaled to zero ---------------------------------------------------------------------------------


async def test_an_entry_on_a_cluster_without_nodes_is_not_proved_and_the_reason_is_reported() -> None:
    service = controller(nodes="")
    rehearsed = await rehearsed_entries(service, PHYSICS)
    (problem,) = rehearsed.problems()
    assert problem == (
        "Scale-ahead: calendar entry 'physics' at 2026-03-02 10:00 UTC: Not known whether 20 of 20 users can start at "
        "10:00: no known node can run a server of this choice. In detail: no known kind of node can run a server "
        "of gpu-slice: no node is present or remembered. If nodes of another kind can come, describe the kinds of nodes "
        "(node_kinds of the service, --nodes of the command)."
    )
    # A description of a kind of node answers the question.
    kinds = read_node_kinds([{"name": "g2", "slots": 8, "lead_minutes": [6, 8], "image_minutes": 2, "max_nodes": 40}])
    described = await rehearsed_entries(service, PHYSICS, kinds=kinds)
    assert described.problems() == ()
    (result,) = described.results.values()
    assert result.verdict == (
        "Yes, if a node of g2 runs 8 servers: 20 users can start at 10:00; 3 nodes of g2 are ordered at 09:45."
    )


async def test_nodes_that_were_there_are_remembered() -> None:
    service = controller(nodes="a")
    node, _ = node_objects("a", "10", 2, "40Gi", SHARE.images, START.isoformat(), {names.IMAGES_READY: names.TRUE})
    service.watch.put(Kind.NODE, node)
    kinds = read_node_kinds([{"name": "g2", "slots": 50, "lead_minutes": 9, "max_nodes": 2}])
    rehearsals, described = Rehearsals(service), Rehearsals(service, kinds=kinds)
    for each in (rehearsals, described):
        each.look()
    service.watch.remove(Kind.RESOURCE_SLICE, ObjectKey("", "a-gpus"))
    service.watch.remove(Kind.NODE, ObjectKey("", "a"))
    found = present(await alone(rehearsals, entry()))
    assert found.verdict == "Yes: 20 users can start at 10:00; 3 nodes of g2 are ordered at 09:45."
    assert found.problems[0].message.startswith("new nodes of g2 are assumed to be like a, which was last seen at ")
    found = present(await alone(described, entry()))
    most = "the maximum is 2 nodes of g2, and more are needed"
    assert found.verdict == f"No: 4 of 20 users cannot start at 10:00: {most}."
    assert [each.code for each in found.problems if each.blocks] == [ProblemCode.MAX_NODES]


async def test_other_kinds_than_the_described_ones_do_not_come() -> None:
    kinds = read_node_kinds([{"name": "t4", "profiles": ["other"], "slots": 8, "lead_minutes": 9}])
    found = present(await alone(Rehearsals(controller(), kinds=kinds), entry()))
    assert [(each.code, each.users) for each in found.problems if each.blocks] == [(ProblemCode.NO_NODE_KIND, 4)]


async def test_the_loop_goes_on_and_the_cluster_may_change() -> None:
    """The thread waits while the loop works; changes meanwhile do not disturb the rehearsal."""
    service, go = controller(), threading.Event()

    def quotas() -> tuple[Quota, ...]:
        assert go.wait(60)
        return ()

    task = asyncio.create_task(alone(Rehearsals(service, quotas=quotas), entry()))
    for name in "cdef":
        await asyncio.sleep(0)
        for obj in node_objects(name, "10", 2, "40Gi", (), ""):
            service.watch.put(Kind(obj["kind"]), obj)
    assert not task.done()
    before = service.watch.version
    go.set()
    found = present(await task)
    assert found.free + found.free_without_image == 16, "as it was when its turn came"
    assert service.watch.version == before
    assert len(service.watch.snapshot.nodes) == 6


async def test_garbage_is_not_collected_meanwhile() -> None:
    """A collection would stop the event loop for as long as it takes to look at the copy."""
    meanwhile: list[bool] = []

    def quotas() -> tuple[Quota, ...]:
        meanwhile.append(gc.isenabled())
        return ()

    assert gc.isenabled()
    assert await alone(Rehearsals(controller(), quotas=quotas), entry()) is not None
    assert (meanwhile, gc.isenabled()) == ([False], True)


async def test_one_after_the_other_and_not_too_many() -> None:
    go = threading.Event()

    def quotas() -> tuple[Quota, ...]:
        assert go.wait(60)
        return ()

    rehearsals = Rehearsals(controller(), quotas=quotas)
    tasks = [asyncio.create_task(rehearsals.of_users(rehearsals.expected_by(LINE, UTC))) for _ in range(9)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = [task for task in tasks if task.done()]
    with pytest.raises(TooManyRehearsals):
        refused.result()
    go.set()
    found = await asyncio.gather(*(task for task in tasks if task is not refused))
    assert len(found) == 8
    assert len({present(each).verdict for each in found}) == 1
    assert await rehearsals.of_users(rehearsals.expected_by(LINE, UTC)) == found[0]

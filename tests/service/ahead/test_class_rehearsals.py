"""Rehearsals of announced classes and of requests, in turns of a few."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome, ClassRequest
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal
from dra_spawner.service.ahead.added_entries import AddedEntries
from dra_spawner.service.ahead.announced_classes import AnnouncedClasses, Announcer
from dra_spawner.service.ahead.class_rehearsals import ClassRehearsals
from dra_spawner.service.ahead.rehearsals import Rehearsals
from tests.placeholders.planner.simulated_cluster import START
from tests.presence import present
from tests.service.ahead.acting_service import controller

ADA = "user ada"


async def previewed(rehearsals: ClassRehearsals, entry: CalendarEntry) -> Rehearsal | None:
    """What a form says of a class that is added or changed."""
    return await rehearsals.of_time(present(rehearsals.next_time(entry)), entry)


def written(choice: str, days: int) -> dict[str, str]:
    return {"users": f"2 of {choice}", "begins": f"{START + timedelta(days=days):%Y-%m-%d %H:%M}", "timezone": "UTC"}


async def test_classes_without_a_rehearsal_keep_no_other_from_one() -> None:
    """An administrator has removed their choice, or they are over before somebody answers."""
    settings = Overrides()
    for number in range(6):
        settings = settings.with_entry(f"gone-{number}", written("gone", 3), ADA, START)
    settings = settings.with_entry("lab", written("gpu-slice", 4), ADA, START)
    asked = {f"over-{number:02}": written("gpu-slice", -1) for number in range(25)}
    asked |= {f"removed-{number:02}": written("gone", 5) for number in range(25)} | {"open": written("gpu-slice", 5)}
    requests = {
        name: ClassRequest(each, ADA, START - timedelta(days=2) + timedelta(minutes=number))
        for number, (name, each) in enumerate(asked.items())
    }
    service = controller()
    data = overrides_data(replace(settings, classes=replace(settings.classes, requests=requests)))
    service.overrides.put({"metadata": {"resourceVersion": "1"}, "data": data})
    added = AddedEntries(service, lambda: None, has_history=False)
    rehearsals = ClassRehearsals(service, Rehearsals(service), added)
    await rehearsals.refresh()
    assert [each.profile for each in rehearsals.of_entries] == ["gpu-slice"]
    assert set(rehearsals.of_requests) == {"open"}


async def test_a_verdict_that_a_form_has_found_is_kept_and_one_of_another_number_is_not() -> None:
    """Also for a request: it is rehearsed once, and keeps its verdict when it is approved."""
    service = controller()
    store, asked = service.overrides, Overrides()
    added = AddedEntries(service, lambda: None, has_history=False)
    rehearsals = ClassRehearsals(service, Rehearsals(service), added)

    def put(settings: Overrides, version: int) -> None:
        store.put({"metadata": {"resourceVersion": f"{version}"}, "data": overrides_data(settings)})

    lab = {**written("gpu-slice", 4), "name": "Lab"}
    time = rehearsals.next_time(added.read(lab))
    assert time is not None
    found = await rehearsals.of_time(time)
    put(replace(asked, classes=asked.classes.with_request("lab", ClassRequest(lab, ADA, START))), 1)
    await rehearsals.refresh()
    assert rehearsals.of_requests["lab"] is found
    put(asked.with_entry("lab", lab, ADA, START), 2)
    assert rehearsals.last(time) is found, "at once"
    await rehearsals.refresh()
    assert list(rehearsals.of_entries.values()) == [found]
    # Its outcome is stored by name and time, whatever the number of users is.
    outcome = ClassOutcome(time.begins).rehearsed("Yes.", START, is_possible=True)
    classes = asked.classes.with_outcomes({outcome_key(replace(time, entry_id="lab")): outcome})
    put(replace(asked, classes=classes).with_entry("lab", {**lab, "users": "90 of gpu-slice"}, ADA, START), 3)
    await rehearsals.refresh()
    assert [each.users for each in rehearsals.of_entries] == [90]
    rehearsals.renew("lab")
    assert not rehearsals.of_entries
    rehearsals.forget()
    await rehearsals.refresh()
    assert not rehearsals.of_entries, "what an earlier leader has stored counts"


async def test_classes_that_are_written_alike_are_two_classes() -> None:
    """Of two teachers, or of two groups: each has a verdict and an owner of its own, and users of both are counted."""
    service = controller(most=30)
    settings = Overrides()
    for by in ("user ada", "user ben"):
        settings = settings.with_entry(
            f"lab-of-{by[5:]}", {**written("gpu-slice", 4), "users": "20 of gpu-slice"}, by, START
        )
    service.overrides.put({"metadata": {"resourceVersion": "1"}, "data": overrides_data(settings)})
    added = AddedEntries(service, lambda: None, has_history=False)
    added.begin()
    rehearsals = ClassRehearsals(service, Rehearsals(service), added)
    times = [present(rehearsals.next_time(each.entry)) for each in added.items]
    await rehearsals.refresh()
    assert [present(rehearsals.last(each)).is_possible for each in times] == [True, False]
    of_a_form = replace(added.items[0].entry, id="")
    assert not present(await previewed(rehearsals, of_a_form)).is_possible, "a third one"
    second = replace(of_a_form, id=added.items[1].id)
    assert not present(await previewed(rehearsals, second)).is_possible, "the second one, changed"
    assert len(set(map(outcome_key, times))) == 2
    assert list(map(AnnouncedClasses(service, added).owner_of_time, times)) == ["user ada", "user ben"]


async def test_a_preview_has_the_place_and_the_verdict_that_the_class_has_when_it_is_saved() -> None:
    """Of classes at one time the first by title gets servers first: also one that is edited, new, or asked for."""
    service = controller(most=30)
    settings, version = Overrides(), 0

    def put(settings: Overrides) -> None:
        nonlocal version
        version += 1
        service.overrides.put({"metadata": {"resourceVersion": f"{version}"}, "data": overrides_data(settings)})

    def lab(name: str, users: str = "20 of gpu-slice", minutes: int = 60) -> dict[str, object]:
        return {**written("gpu-slice", 4), "users": users, "name": name, "minutes": minutes}

    for name in "bd":
        settings = settings.with_entry(name, lab(name), ADA, START)
    put(settings)
    added = AddedEntries(service, lambda: None, has_history=False)
    added.begin()
    rehearsals, classes = ClassRehearsals(service, Rehearsals(service), added), AnnouncedClasses(service, added)

    async def verdicts(name: str, change: dict[str, object]) -> list[bool]:
        """That of the preview, and that after saving, as a rehearsal of all finds it."""
        preview = classes.preview(change, name, Announcer(ADA, None))
        found = [present(await previewed(rehearsals, preview)).is_possible]
        put(settings.with_entry(name or "new", change, ADA, START))
        time = present(rehearsals.next_time(next(each.entry for each in added.items if each.id == (name or "new"))))
        day = await Rehearsals(service).of_day([*service.scale_ahead.calendars.occurrences(START, timedelta(days=9))])
        found.append(day[time].is_possible)
        put(settings)
        return found

    assert await verdicts("b", lab("b", minutes=90)) == [True, True], "longer: it stays the first"
    assert await verdicts("b", lab("e")) == [False, False], "its title puts it behind the other"
    assert await verdicts("d", lab("a")) == [True, True], "and before it"
    assert await verdicts("", lab("a")) == [True, True], "a new one"
    assert await verdicts("", lab("c")) == [False, False]
    request = ClassRequest(lab("a"), ADA, START)
    put(replace(settings, classes=settings.classes.with_request("asked", request)))
    await rehearsals.refresh()
    assert rehearsals.of_requests["asked"].is_possible


async def test_a_preview_counts_users_as_the_class_that_it_changes() -> None:
    """A class that was written as "in total" stays so, which a form cannot say."""
    service = controller()
    line = {**written("gpu-slice", 4), "users": "20 of gpu-slice in total"}
    data = overrides_data(Overrides().with_entry("lab", line, ADA, START))
    service.overrides.put({"metadata": {"resourceVersion": "1"}, "data": data})
    added = AddedEntries(service, lambda: None, has_history=False)
    preview = AnnouncedClasses(service, added).preview(written("gpu-slice", 4), "lab", Announcer(ADA, None))
    assert (preview.id, preview.demand.users, preview.demand.counts) == ("lab", 2, "in total")

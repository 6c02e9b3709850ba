"""When calendar entries and classes are rehearsed again: after a drain has begun or ended, without its polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome, ClassRequest
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind, Overrides
from dra_spawner.scale_ahead.calendars.calendar_book import ADDED_ENTRIES
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.added_entries import AddedEntries
from dra_spawner.service.ahead.class_rehearsals import ClassRehearsals
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.jumping_loop import let_pass, run_jumping
from tests.placeholders.planner.objects import SHARE, node_objects
from tests.placeholders.planner.simulated_cluster import START
from tests.service.ahead.acting_service import controller

DRAIN = Override(OverrideKind.DRAINING, "a", "user ada", START)


class CountedRehearsals(Rehearsals):
    """Counts when it is asked, and answers nothing."""

    def __init__(self, service: ScaleAheadController, takes_seconds: float = 0) -> None:
        super().__init__(service)
        self.asked_at: list[int] = []
        self._takes_seconds = takes_seconds
        self._began = asyncio.get_running_loop().time()

    async def of_day(self, *_: Any, **__: Any) -> dict[Any, Any]:
        self.asked_at.append(round(asyncio.get_running_loop().time() - self._began))
        await asyncio.sleep(self._takes_seconds)
        return {}


def put(service: ScaleAheadController, version: int, settings: Overrides) -> None:
    service.overrides.put({"metadata": {"resourceVersion": f"{version}"}, "data": overrides_data(settings)})


@contextlib.contextmanager
def running(work: Any) -> Iterator[None]:
    task = asyncio.ensure_future(work.run())
    try:
        yield
    finally:
        task.cancel()


def rehearsed_at(*changes: tuple[float, Overrides]) -> list[int]:
    """Seconds at which entries are rehearsed, with each change of the settings so many seconds after the one before."""

    async def scene() -> list[int]:
        service = controller()
        rehearsals = CountedRehearsals(service)
        with running(RehearsedEntries(service, rehearsals)):
            for number, (after, settings) in enumerate(changes):
                await let_pass(after)
                put(service, number + 1, settings)
            await let_pass(100)
        return rehearsals.asked_at

    return run_jumping(scene())


def test_entries_are_rehearsed_soon_after_a_drain_begins_or_ends_and_after_no_other_change() -> None:
    drained = Overrides().with_setting(DRAIN)
    paused = drained.with_setting(replace(DRAIN, kind=OverrideKind.PAUSED))
    assert rehearsed_at((100, drained), (100, paused), (100, Overrides())) == [32, 102, 302]


def test_a_drain_that_begins_just_before_a_rehearsal_is_in_the_next_one() -> None:
    """The cluster does not show it yet."""
    drained = Overrides().with_setting(DRAIN)
    assert rehearsed_at((100, drained), (1.8, drained.with_setting(replace(DRAIN, name="b")))) == [32, 102, 104]


def cordon(service: ScaleAheadController, *, is_closed: bool, message: str = "") -> None:
    """What a watch tells after ``kubectl cordon a``, with a heartbeat of the node."""
    node, _ = node_objects("a", "10", 2, "40Gi", SHARE.images, START.isoformat())
    node["status"] |= {"conditions": [{"type": "Ready", "status": "True", "message": message}]}
    service.watch.put(Kind.NODE, {**node, "spec": {**node.get("spec", {}), "unschedulable": is_closed}})


def test_entries_are_rehearsed_soon_after_a_cordon_and_after_no_other_change_of_a_node() -> None:
    async def scene() -> None:
        service = controller()
        rehearsals = CountedRehearsals(service)
        with running(RehearsedEntries(service, rehearsals)):
            for is_closed in (False, True, True, False):
                await let_pass(100)
                cordon(service, is_closed=is_closed, message=f"{asyncio.get_running_loop().time()}")
            await let_pass(100)
        assert rehearsals.asked_at == [32, 202, 402]

    run_jumping(scene())


def test_nodes_that_are_closed_one_after_the_other_make_the_service_no_busier() -> None:
    async def scene() -> None:
        service = controller()
        rehearsals = CountedRehearsals(service, takes_seconds=10)
        with running(RehearsedEntries(service, rehearsals)):
            for number in range(300):
                await let_pass(1)
                cordon(service, is_closed=number % 2 == 0)
        assert rehearsals.asked_at == [32, 134, 236]

    run_jumping(scene())


def test_what_a_drain_made_impossible_is_rehearsed_again_when_the_drain_ends() -> None:
    """A class of which all can start is left alone: drains of today say little about it."""

    async def scene() -> None:
        service = controller()
        classes, known = Overrides(), AddedEntries(service, lambda: None, has_history=False)
        for name, is_possible in (("no", False), ("yes", True)):
            begins = f"{START + timedelta(days=4):%Y-%m-%d %H:%M}"
            written = {"users": "2 of gpu-slice", "begins": begins, "timezone": "UTC", "name": name}
            classes = classes.with_entry(name, written, "user ada", START)
            (time,) = replace(known.read(written), id=name).occurrences(START, START + timedelta(days=9), ADDED_ENTRIES)
            outcome = ClassOutcome(time.begins).rehearsed("As it is.", START, is_possible=is_possible)
            records = classes.classes.with_outcomes({outcome_key(time): outcome})
            classes = replace(classes, classes=records)
        request = ClassRequest({**written, "name": "requested"}, "user ada", START)
        classes = replace(classes, classes=classes.classes.with_request("request", request))
        put(service, 1, classes.with_setting(DRAIN))
        asked = list[str]()

        class Rehearsed(ClassRehearsals):
            async def of_time(self, occurrence: Occurrence, *_: Any, **__: Any) -> Any:
                asked.append(occurrence.name)
                return SimpleNamespace(now=START, is_possible=False) if occurrence.name == "requested" else None

        found = Rehearsed(service, Rehearsals(service), known)
        with running(found):
            await let_pass(60)
            before: Collection[str] = list(asked)
            put(service, 2, classes)
            await let_pass(10)
            drained = len(asked)
            cordon(service, is_closed=True)
            await let_pass(10)
        assert (before, set(asked[1:])) == (["requested"], {"no", "requested"})
        assert len(asked) > drained, "also after a cordon"

    run_jumping(scene())

"""Availability is computed again only after a change, or after a while."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dra_spawner.service.profile_answers import ProfileAnswers
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.service.unstarted_watch import UnstartedWatch, unstarted_controller


class Asking:
    """Asks for availability, which takes some seconds to compute."""

    def __init__(self, duration: float = 0.0) -> None:
        self.clock, self.computed, self.duration = 0.0, list[str](), duration
        self.watch, self.answers = UnstartedWatch(), ProfileAnswers(lambda: self.clock)
        self.controller = unstarted_controller(watch=self.watch)

    async def ask(self, name: str = "") -> int:
        """The number of the computation whose answer is given."""

        async def compute() -> list[dict[str, Any]]:
            await asyncio.sleep(0)
            self.computed.append(name)
            self.clock += self.duration
            return [{"number": len(self.computed)}]

        found = await self.answers.answer(self.controller, name, compute)
        assert json.loads(found.body) == {"items": found.items, "continue": "", "total": 1, "problem": ""}
        return int(found.items[0]["number"])

    def change(self) -> None:
        self.watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": f"n{len(self.watch.snapshot.nodes)}"}})


async def test_answers_are_remembered_until_something_changes() -> None:
    service = Asking()
    found = await asyncio.gather(*(service.ask() for _ in range(5)))
    assert (found, service.computed) == ([1] * 5, [""]), "callers at the same time share one"
    await service.ask("gpu")
    assert service.computed == ["", "gpu"]
    service.change()
    assert await service.ask() == 3
    assert await service.ask() == 3
    service.clock = 9.9
    assert await service.ask() == 3
    service.clock = 10.1
    assert await service.ask() == 4, "waits have passed"


async def test_an_answer_that_takes_long_is_given_again_while_the_next_is_computed() -> None:
    service = Asking(duration=0.3)
    assert await service.ask() == 1
    service.change()
    service.clock = 2.9
    assert await service.ask() == 1, "less than ten times as old as it took"
    service.clock = 3.1
    assert await service.ask() == 1, "the next one is being computed"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await service.ask() == 2
    service.change()
    service.clock = 60
    assert await service.ask() == 3, "an old one is not given"


async def test_a_failed_computation_is_tried_again() -> None:
    service = Asking()

    async def fail() -> list[dict[str, Any]]:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await service.answers.answer(service.controller, "", fail)
    assert await service.ask() == 1


async def test_invented_names_are_not_kept_and_evict_nothing() -> None:
    service = Asking()

    async def nothing() -> list[dict[str, Any]]:
        return []

    await service.ask()
    tasks = len(asyncio.all_tasks())
    for number in range(200):
        await service.answers.answer(service.controller, f"no-such-choice-{number}", nothing)
    await service.ask()
    assert service.computed == [""], "all forms share it"
    for number in range(200):
        await service.ask(f"choice-{number}")
    await service.ask()
    assert service.computed.count("") == 1, "nor do names that exist evict it"
    assert all(len(each) <= 64 for each in vars(service.answers).values() if isinstance(each, dict))
    assert len(asyncio.all_tasks()) == tasks

"""Availability as JSON: computed again after something has changed, but only in a part of the time.

On a big cluster one answer takes longer to compute than hundreds of questions take to answer. So such an answer
is given again for ten times as long as it took, and while the next one is computed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.common.owned_tasks import begin_task
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController

#: Age after which an answer is computed again although nothing has changed: waits pass.
_MAX_SECONDS: Final = 10.0
#: Time for which an answer is given although something has changed, as a multiple of the time to compute it.
_REST: Final = 10.0
#: Seconds to compute an answer below which it is computed again at once.
_SHORT: Final = 0.1
#: Limit of that time, in seconds.
_MAX_REST: Final = 5.0
#: Limit of names that are remembered.
_MAX_NAMES: Final = 64

_Items = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ProfileAnswer:
    """The answer for one name.

    Attributes
    ----------
    items
        The choices; not to be changed.
    body
        The encoded answer with all of them.
    computed
        When its computation began, by the clock of `ProfileAnswers`.
    took
        Seconds until it was computed.
    problem
        Why the shapes that the hub publishes are not known; empty if they are.
    ground
        What it was computed from.
    """

    items: _Items
    body: bytes
    computed: float
    took: float
    problem: str
    ground: tuple[object, ...]


class ProfileAnswers:
    """Remembers the last answer for each name; callers at the same time share one computation.

    Parameters
    ----------
    seconds
        Returns the seconds of a monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._known: dict[str, ProfileAnswer] = {}
        self._working: dict[str, asyncio.Task[ProfileAnswer]] = {}

    async def answer(
        self, controller: ScaleAheadController, name: str, compute: Callable[[], Awaitable[_Items]]
    ) -> ProfileAnswer:
        """The answer.

        Parameters
        ----------
        name
            Of one published choice; empty for all.
        """
        known = self._known.get(name)
        if known is not None:
            age = self.age(known)
            rest = min(_REST * known.took, _MAX_REST) if known.took >= _SHORT else 0.0
            if age < rest or (age <= _MAX_SECONDS and known.ground == _ground(controller)):
                return known
        work = self._working.get(name)
        if work is None or work.done():
            work = begin_task(self._compute(controller, name, compute), "availability")
            self._working[name] = work
            work.add_done_callback(lambda done: self._note_end(name, done))
        if known is not None and age < 2 * rest:
            return known
        return await asyncio.shield(work)

    @property
    def latest(self) -> ProfileAnswer | None:
        """The last answer about all choices; None before the first."""
        return self._known.get("")

    def age(self, answer: ProfileAnswer) -> float:
        """Seconds since an answer was computed."""
        return self._seconds() - answer.computed

    async def _compute(
        self, controller: ScaleAheadController, name: str, compute: Callable[[], Awaitable[_Items]]
    ) -> ProfileAnswer:
        ground, began = _ground(controller), self._seconds()
        items = await compute()
        problem = _problem_of(controller)
        body = {"items": items, "continue": "", "total": len(items), "problem": problem}
        encoded = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        found = ProfileAnswer(items, encoded, began, self._seconds() - began, problem, ground)
        self._known.pop(name, None)
        # A name that nobody publishes is not remembered: anybody can invent any number.
        if items or not name:
            self._known[name] = found
        if len(self._known) > _MAX_NAMES:
            # All forms share the answer about all choices.
            del self._known[next(each for each in self._known if each)]
        return found

    def _note_end(self, name: str, work: asyncio.Task[ProfileAnswer]) -> None:
        if self._working.get(name) is work:
            del self._working[name]


def _problem_of(controller: ScaleAheadController) -> str:
    return controller.shapes.problem if controller.is_on else ""


def _ground(controller: ScaleAheadController) -> tuple[object, ...]:
    policy = controller.policy
    return controller.watch.version, controller.changes, controller.queue(), _Same(policy), _problem_of(controller)


class _Same:
    """Equals only a holder of the same object."""

    def __init__(self, item: object) -> None:
        self._item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._item is other._item

    def __hash__(self) -> int:
        return id(self._item)

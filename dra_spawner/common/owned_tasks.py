"""Tasks with an owner that awaits them: none ends unseen, and one that fails is begun again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from prometheus_client import Counter

log = logging.getLogger(__name__)

#: Metric of the hub and of the service. A task has its series from its first begin on, so that an alert sees the
#: first failure.
TASK_FAILURES: Final = Counter("dra_spawner_task_failures", "Failures of tasks by a defect", ["task"])

#: Pause after a failure; it doubles with each further one.
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
#: A task that has run for this time since its last failure has no problem any more.
_WELL_SECONDS: Final = 60.0

_T = TypeVar("_T")


@dataclass(slots=True)
class _Failure:
    """The last failure of a task.

    Attributes
    ----------
    error
        The cause, for people.
    begun_at
        When the task was begun again, by the loop's clock; infinite while it pauses.
    """

    error: str
    begun_at: float = math.inf


async def all_of(gathering: asyncio.Future[_T]) -> _T:
    """Await an ``asyncio.gather``, and end with a cancellation that came at the time of a failure.

    ``gather`` alone then raises the failure, and the cancellation is lost: a task that goes on after failures would
    never end.

    Raises
    ------
    asyncio.CancelledError
        If this task is cancelled.
    """
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    before = task.cancelling()
    try:
        return await gathering
    except Exception as error:
        if task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise


def note_failure(
    name: str,
    error: BaseException,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    then: str = "",
) -> None:
    """Log and count the failure of a task.

    Parameters
    ----------
    name
        Of the task, without names of users: each one is a series of the metric.
    then
        What follows, for the log: begins with a blank.
    """
    TASK_FAILURES.labels(name).inc()
    log.error("A task has failed%s: task=%s", then, name, exc_info=error)


async def run_again(
    work: Callable[[], Awaitable[None]],
    name: str,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger] = log,
    *,
    on_failure: Callable[[str], None] = lambda error: None,
    on_begin: Callable[[], None] = lambda: None,
) -> None:
    """Run work until it returns or is cancelled; after a defect it is logged and begun again, with back-off.

    Parameters
    ----------
    name
        Name of the work in the log.
    on_failure, on_begin
        Called with the cause after each failure, and before each begin.
    """
    loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
    TASK_FAILURES.labels(name)
    while True:
        began = loop.time()
        on_begin()
        try:
            await work()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure: BaseException = error  # of something that the work awaits; nobody cancelled the work itself
        except Exception as error:
            failure = error
        else:
            return
        if loop.time() - began > _WELL_SECONDS:
            pause = _FIRST_PAUSE_SECONDS
        note_failure(name, failure, log, f" and is begun again in {pause:g} s")
        on_failure(f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def begin_task(
    work: Coroutine[Any, Any, _T],
    name: str,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger] = log,
) -> asyncio.Task[_T]:
    """Begin a task whose result its owner awaits, or not: a defect is logged with the task's name in any case."""
    TASK_FAILURES.labels(name)
    task = asyncio.get_running_loop().create_task(work, name=name)

    def note_end(done: asyncio.Task[_T]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            note_failure(name, error, log)

    task.add_done_callback(note_end)
    return task


class OwnedTasks:
    """Tasks of a term, a replica or a hub.

    It is an asynchronous context manager, which may be entered again after its end. At its end it cancels its tasks,
    and waits for their end. A task that fails is begun again, and harms no other.
    """

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failures: dict[str, _Failure] = {}
        self._clock: Callable[[], float] = lambda: -math.inf

    def begin(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin a task; after a defect `work` is called again.

        Parameters
        ----------
        name
            Name of the task in the log and in `problems`; another one for each task.
        """
        assert self._group is not None, "enter the context first"

        def remember(error: str) -> None:
            self._failures[name] = _Failure(error)

        def note_begin() -> None:
            if name in self._failures:
                self._failures[name].begun_at = self._clock()

        task = run_again(work, name, on_failure=remember, on_begin=note_begin)
        self._tasks.append(self._group.create_task(task, name=name))

    def problems(self) -> tuple[str, ...]:
        """Tasks that have failed and do not run well again, as sentences."""
        now = self._clock()
        return tuple(
            f"The task {name!r} has failed, and is begun again: {failure.error}."
            for name, failure in self._failures.items()
            if not now - failure.begun_at > _WELL_SECONDS
        )

    async def __aenter__(self) -> Self:
        assert self._group is None, "it is entered already"
        self._clock = asyncio.get_running_loop().time
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group, tasks = self._group, self._tasks
        assert group is not None
        for task in tasks:
            task.cancel()
        try:
            # Without the body's error, which the group would put into a group of errors.
            await group.__aexit__(None, None, None)
        finally:
            self._group, self._tasks, self._failures = None, [], {}

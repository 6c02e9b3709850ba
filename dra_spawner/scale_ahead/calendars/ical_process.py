"""Reads iCal calendars in a process of its own, which is ended when it takes too long.

The event loop only waits. A calendar that costs the process its time or memory costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from datetime import datetime, tzinfo
from typing import Final

from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading, CalendarUnreadable
from dra_spawner.scale_ahead.calendars.ical_worker import SECONDS, question_of, reading_of

_WORKER: Final = "dra_spawner.scale_ahead.calendars.ical_worker"
#: Limit of the time, also on a machine that is busy.
_TIMEOUT_SECONDS: Final = 2.0 * SECONDS
_MAX_ANSWER_BYTES: Final = 16 * 2**20
#: Variables that Python and its libraries need. The process gets no other one, as some are secrets.
_PASSED_ON: Final = ("PATH", "LANG", "TZ", "TZDIR", "VIRTUAL_ENV")
_PASSED_ON_BEGIN: Final = ("PYTHON", "LC_", "LD_")


async def read_in_process(
    text: str,
    begins: datetime,
    ends: datetime,
    *,
    source: str,
    zone: tzinfo,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> CalendarReading:
    """Read the events between two times, as `read_ical`. The process ends with this call, also if it is cancelled.

    Raises
    ------
    CalendarUnreadable
        If the text is not a calendar, is too large, or takes too long.
    OSError
        If no process can be started.
    """
    question = question_of(text, begins, ends, source, zone)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # not from the current directory
        "-m",
        _WORKER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_environment(),
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            answer = await _ask(process, question)
            code = await process.wait()
    except TimeoutError:
        raise CalendarUnreadable(f"reading it takes more than {timeout_seconds:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if len(answer) > _MAX_ANSWER_BYTES:
        raise CalendarUnreadable("reading it gives too many occurrences")
    if code < 0:
        what = f"more than {SECONDS} s of processor time, or too much memory"
        raise CalendarUnreadable(f"reading it needs {what} (signal {-code})")
    try:
        return await asyncio.to_thread(reading_of, answer, source)
    except CalendarUnreadable:
        raise
    except (ValueError, TypeError, KeyError):
        raise CalendarUnreadable("its reader gave no answer") from None


async def _ask(process: asyncio.subprocess.Process, question: bytes) -> bytes:
    """The answer of a process, as far as its limit."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended, and its code says why
        process.stdin.write(question)
        await process.stdin.drain()
        process.stdin.close()
    answer = b""
    while len(answer) <= _MAX_ANSWER_BYTES and (more := await process.stdout.read(2**16)):
        answer += more
    if len(answer) > _MAX_ANSWER_BYTES:
        process.kill()
    return answer


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_BEGIN)
    }

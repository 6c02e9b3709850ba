"""Rehearsals of calendar entries until they begin, so that obstacles are known in time.

They are periodic, and come after a drain or a cordon.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from dra_spawner.common.log_once import LogOnce
from dra_spawner.kube.cordons import on_cordon
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal
from dra_spawner.service.ahead.rehearsals import Rehearsals

log = logging.getLogger(__name__)

#: Begin of a problem about one entry.
OF_ENTRIES: Final = "Scale-ahead: calendar entry "
#: Entries that begin later are not rehearsed yet.
_AHEAD: Final = timedelta(days=1)
_INTERVAL_SECONDS: Final = 600.0
#: Time after a drain begins or ends until the cluster shows it.
SETTLE_SECONDS: Final = 2.0
#: Nodes may be closed one after the other for hours: rehearsals after these take this part of the time at most.
_MOST_OF_ITS_TIME: Final = 0.1
#: Limit of rehearsed entries; a rehearsal takes seconds on a big cluster.
_MAX: Final = 100
#: Time for the first calendars and nodes to be read.
_INITIAL_DELAY_SECONDS: Final = 30.0


class RehearsedEntries:
    """The last rehearsal of each entry that begins within a day."""

    def __init__(self, controller: ScaleAheadController, rehearsals: Rehearsals) -> None:
        self._controller = controller
        self._rehearsals = rehearsals
        self._log_once = LogOnce(log)
        self._left_out = 0
        self._is_closed_anew = asyncio.Event()
        controller.overrides.on_change_of(lambda each: each.closed, self._is_closed_anew.set)
        on_cordon(controller.watch, self._is_closed_anew.set)
        self.results: Mapping[Occurrence, Rehearsal] = {}

    async def run(self) -> None:
        """Rehearse periodically, and when a drain or a cordon begins or ends, until cancelled."""
        await asyncio.sleep(_INITIAL_DELAY_SECONDS)
        clock = asyncio.get_running_loop().time
        while True:
            # Before the pause: the cluster may not show a drain that begins in it.
            self._is_closed_anew.clear()
            await asyncio.sleep(SETTLE_SECONDS)
            began = clock()
            try:
                await self.refresh()
            except Exception:  # a defect here must not end the service
                log.exception("Calendar entries are not rehearsed.")
            await asyncio.sleep((clock() - began) * (1 / _MOST_OF_ITS_TIME - 1))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self._is_closed_anew.wait()

    async def refresh(self) -> None:
        """Rehearse all entries that have not begun, each beside those before it."""
        controller, ahead = self._controller, self._controller.scale_ahead
        now = controller.now()
        coming = [each for each in ahead.calendars.occurrences(now, _AHEAD) if each.begins > now]
        turns = set(_by_turns(coming)[:_MAX])
        chosen = [each for each in coming if each in turns]
        self.results = await self._rehearsals.of_day(chosen)
        self._left_out = len(coming) - len(chosen)
        self._log_once.present(self.problems())

    def forget(self) -> None:
        """Forget all results: another replica leads, and rehearses."""
        self.results, self._left_out = {}, 0

    def problems(self) -> tuple[str, ...]:
        """Entries whose users cannot all start in time, as sentences by their begin; and how many are left out."""
        now = self._controller.now()
        found = [
            f"{OF_ENTRIES}{entry.name!r} at {entry.begins:%Y-%m-%d %H:%M %Z}: {_verdict(result)}"
            for entry, result in self.results.items()
            if not result.is_possible and entry.begins > now
        ]
        if self._left_out:
            number = f"{self._left_out} of the coming day's calendar entries"
            found.append(f"Scale-ahead: {number} are not rehearsed, as at most {_MAX} are.")
        return tuple(found)


def _by_turns(entries: Sequence[Occurrence]) -> list[Occurrence]:
    """Entries in the order of their begin, but all calendars and all their events take turns: none uses up a limit."""
    of_event: Counter[tuple[str, str, datetime]] = Counter()
    of_source: Counter[tuple[str, int]] = Counter()
    ranked: list[tuple[int, int, Occurrence]] = []
    for each in entries:
        event = each.source, each.name, each.begins
        line = of_event[event]
        ranked.append((line, of_source[each.source, line], each))
        of_event[event] += 1
        of_source[each.source, line] += 1
    return [each for _, _, each in sorted(ranked, key=itemgetter(0, 1))]


def _verdict(result: Rehearsal) -> str:
    """The verdict; where something is not known, with what an administrator can do."""
    unknown = next((each for each in result.problems if each.blocks and each.code is ProblemCode.NOT_KNOWN), None)
    return f"{result.verdict} In detail: {unknown.message}." if unknown is not None else result.verdict

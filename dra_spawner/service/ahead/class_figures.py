"""Figures of classes while a replica leads: placeholders that are ready, users who came, verdicts with their times.

They are stored when they have changed, so a class that is over keeps them, and the next leader goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.common.log_once import LogOnce
from dra_spawner.placeholders.controller.answers.pending_servers import pending_servers
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer
from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.scale_ahead.calendars.class_progress import (
    UNCOUNTED,
    ClassProgress,
    SeenServer,
    outcome_key,
    progress_of_classes,
    stored_progress,
)
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.class_rehearsals import ClassRehearsals
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod

log = logging.getLogger(__name__)

_AHEAD: Final = timedelta(days=1)
#: Time before a class from which warm placeholders count as prepared for it.
_PREPARED_AHEAD: Final = timedelta(hours=2)
#: Servers are remembered as long as the longest class.
_REMEMBERED: Final = timedelta(days=7, hours=2)
_MAX_SERVERS: Final = 20_000
_SECONDS: Final = 30.0
#: Time after which it is stored that servers were counted, although their number has not changed.
_COUNTED: Final = UNCOUNTED / 2
_FRESH: Final = timedelta(seconds=3)


class ClassFigures:
    """See the module.

    Parameters
    ----------
    rehearsed, announced
        Have the last rehearsals, of the coming day and of classes that were announced for later.
    """

    def __init__(
        self, controller: ScaleAheadController, rehearsed: RehearsedEntries, announced: ClassRehearsals
    ) -> None:
        self._controller = controller
        self._rehearsed = rehearsed
        self._announced = announced
        self._seen: dict[str, tuple[str, SeenServer]] = {}
        """Id of the shape, and what is known, of each server by its pod's UID."""
        self._before: dict[str, tuple[int, bool]] = {}
        """By class: users who came and left before this replica led, and whether no replica counted for some time."""
        self._leads = False
        self._began = controller.now()
        self._near: tuple[datetime, Mapping[Occurrence, ClassProgress]] | None = None
        self._log_once = LogOnce(log, "Figures of classes cannot be stored: error=%s")
        controller.launch_waits.on_launch(self._note)
        controller.overrides.on_change(self._forget_near)

    def begin(self) -> None:
        """Count from now on: this replica leads."""
        self._seen, self._before, self._leads = {}, {}, True
        self._began = self._controller.now()

    def end(self) -> None:
        """Another replica leads."""
        self._leads = False

    async def run(self) -> None:
        """Store what has changed, periodically, until cancelled."""
        while True:
            try:
                await self.store()
            except Exception:  # a defect here must not end the service
                log.exception("Figures of classes are not stored.")
            await asyncio.sleep(_SECONDS)

    @property
    def outcomes(self) -> Mapping[str, ClassOutcome]:
        """What is stored, by `outcome_key`."""
        return self._controller.overrides.present.classes.outcomes

    async def store(self) -> None:
        """Store outcomes that have changed."""
        changed = {key: each for key, each in self.current().items() if _differs(each, self.outcomes.get(key))}
        if not changed or self._controller.overrides.unknown_because:
            return
        try:
            await self._controller.overrides.change(
                lambda present: replace(present, classes=present.classes.with_outcomes(changed))
            )
        except OverridesUnavailable as error:
            self._log_once.present({"store": error})
            return
        self._log_once.present(())

    def near(self) -> Mapping[Occurrence, ClassProgress]:
        """How far the classes are that are near in time; at most some seconds old, as many pages ask."""
        now = self._controller.now()
        if self._near is None or not timedelta(0) <= now - self._near[0] < _FRESH:
            self._near = now, self.progress(self._controller.scale_ahead.calendars.occurrences(now, _AHEAD))
        return self._near[1]

    def _forget_near(self) -> None:
        self._near = None

    def current(self) -> dict[str, ClassOutcome]:
        """Outcomes of classes that are near in time, as they are now."""
        now, found = self._controller.now(), {}
        occurrences = self._controller.scale_ahead.calendars.occurrences(now, _AHEAD)
        progress = self.progress(occurrences)
        for each in dict.fromkeys((*occurrences, *self._announced.of_entries)):
            outcome = self.outcome_of(each)
            if self._leads and each.ends > now and (seen := progress.get(each)) is not None:
                outcome = replace(
                    outcome,
                    prepared=seen.prepared if now < each.begins else outcome.prepared,
                    ready_at=seen.ready_at,
                    came=seen.came,
                    longest_seconds=max(seen.longest_seconds, outcome.longest_seconds),
                    counted_until=seen.counted_until,
                    is_partial=seen.is_partial,
                )
            found[outcome_key(each)] = outcome
        return found

    @property
    def _counts(self) -> bool:
        """Whether this replica counts: what it has not read yet did not go."""
        return self._leads and self._controller.watch.synced and not self._controller.overrides.unknown_because

    def outcome_of(self, time: Occurrence) -> ClassOutcome:
        """What is known of a time of a class, with its last rehearsal: a verdict that stays the same is not stored."""
        outcome = self.outcomes.get(outcome_key(time)) or ClassOutcome(time.begins.astimezone(UTC))
        found = filter(None, (self._rehearsed.results.get(time), self._announced.last(time)))
        rehearsal = max(found, key=lambda each: each.now, default=None)
        if rehearsal is None or (outcome.rehearsed_at is not None and rehearsal.now <= outcome.rehearsed_at):
            return outcome
        at = rehearsal.now.astimezone(UTC)
        return outcome.rehearsed(rehearsal.verdict, at, is_possible=rehearsal.is_possible)

    def progress(self, occurrences: Iterable[Occurrence]) -> dict[Occurrence, ClassProgress]:
        """How far classes are; of those that are over, and on a standby, what is stored."""
        now, view = self._controller.now(), self._controller.view()
        found: dict[Occurrence, ClassProgress] = {}
        by_shape: dict[str, list[Occurrence]] = {}
        shapes = self._controller.published.shapes
        for each in occurrences:
            choice = find_choice(each.profile, shapes)
            if self._counts and choice is not None and now < each.ends and each.begins - now < _PREPARED_AHEAD:
                by_shape.setdefault(shapes[choice].id, []).append(each)
            else:
                found[each] = self.stored(each)
        if by_shape:
            self._look(view)
        for shape, classes in by_shape.items():
            servers = [each for known, each in self._seen.values() if known == shape]
            warm, margin = len(view.warm(shape)), self._controller.scale_ahead.settings.options.settings.calendar_margin
            for each, made in progress_of_classes(classes, servers, warm, margin, now).items():
                found[each] = self._completed(each, made, shape)
        return found

    def _completed(self, occurrence: Occurrence, made: ClassProgress, shape: str) -> ClassProgress:
        key, now = outcome_key(occurrence), self._controller.now()
        stored = self.outcomes.get(key)
        margin = self._controller.scale_ahead.settings.options.settings.calendar_margin
        opens = occurrence.begins.astimezone(UTC) - margin
        if key not in self._before:
            until = (stored.counted_until if stored is not None else None) or opens
            # Those who came since then, and are there, are no part of the stored number.
            gone = stored.came - sum(at <= until for at in made.placed) if stored is not None else 0
            self._before[key] = max(gone, 0), self._began - until > UNCOUNTED
        before, is_partial = self._before[key]
        made.came += before
        made.is_partial = is_partial or (stored is not None and stored.is_partial)
        made.counted_until = now if now >= opens else None
        if stored is not None:
            made.longest_seconds = max(made.longest_seconds, stored.longest_seconds)
        if self._controller.choice_not_prepared_because(occurrence.profile):
            made.prepared, made.for_anyone = 0, made.prepared
        is_ready = made.prepared + made.came >= occurrence.users
        if now < occurrence.begins:
            made.ready_at = ((stored.ready_at if stored is not None else None) or now) if is_ready else None
        elif stored is not None:
            made.ready_at = stored.ready_at
        if made.waiting:
            made.because = self._because(shape)
        return made

    def stored(self, occurrence: Occurrence) -> ClassProgress:
        """What was stored of a class last."""
        stored = self.outcomes.get(outcome_key(occurrence))
        return stored_progress(stored) if stored is not None else ClassProgress()

    def _because(self, shape: str) -> str:
        """The most frequent sentence about pending servers of a shape; it names no user and no node."""
        view = self._controller.view()
        sentences = Counter(
            each.sentence.rstrip(".")
            for each in pending_servers(self._controller)
            if each.sentence and view.shape_of(each.pod) == shape
        )
        return sentences.most_common(1)[0][0] if sentences else ""

    # --- servers ------------------------------------------------------------------------------------------------------

    def _note(self, bound: BoundServer) -> None:
        """A server got a node; it may be gone when all are looked at."""
        if self._leads and is_demand(bound.pod):
            shape = bound.pod.labels.get(names.SHAPE, "")
            self._seen[bound.pod.uid] = shape, SeenServer(bound.since.astimezone(UTC), bound.seconds)

    def _look(self, view: View) -> None:
        """Look at all servers that exist, and forget those that are too old or too many."""
        now, present = view.now.astimezone(UTC), set[str]()
        for pod in filter(is_demand, view.users.values()):
            present.add(pod.uid)
            known = self._seen.get(pod.uid)
            if known is None or not known[1].has_node:
                self._seen[pod.uid] = view.shape_of(pod), self._server(pod, now)
        for uid, (shape, server) in [*self._seen.items()]:
            if uid not in present and (server.runs or not server.has_node):
                self._seen[uid] = shape, replace(server, runs=False)
            if now - server.asked > _REMEMBERED:
                del self._seen[uid]
        for uid in [*self._seen][: max(len(self._seen) - _MAX_SERVERS, 0)]:
            del self._seen[uid]

    def _server(self, pod: Pod, now: datetime) -> SeenServer:
        asked = now - age(pod.created, now)
        if not pod.node_name:
            return SeenServer(asked, (now - asked).total_seconds(), has_node=False)
        observed = self._controller.watch.observed(Kind.POD, ObjectKey.of(pod))
        scheduled = observed.conditions.get("PodScheduled") if observed is not None else None
        since = now - age(scheduled.since, now) if scheduled is not None and scheduled.since else asked
        return SeenServer(asked, max((since - asked).total_seconds(), 0.0))


def _differs(now: ClassOutcome, stored: ClassOutcome | None) -> bool:
    """Whether there is more to store than a new time of the same verdict and of the same numbers."""
    if stored is None:
        return now != ClassOutcome(now.begins)
    known = stored.counted_until
    if now.counted_until is not None and (known is None or now.counted_until - known >= _COUNTED):
        return True
    return replace(now, rehearsed_at=stored.rehearsed_at, counted_until=known) != stored

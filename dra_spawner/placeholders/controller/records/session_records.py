"""How long sessions of each choice lasted, from the records of the history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.records import Launch, PresentServers, Record, RecordSink
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.planner.answers.waits import FEWEST_EXAMPLES, SeenSession, SessionLengths
from dra_spawner.placeholders.planner.targets.choice_names import profile_of
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

#: Limits of what is remembered: ended sessions of a choice, choices, and sessions that run.
_MAX_ENDED: Final = 300
_MAX_CHOICES: Final = 2_000
_MAX_RUNNING: Final = 50_000
#: Age at which a distribution is computed again.
_FRESH: Final = timedelta(seconds=30)


@dataclass(slots=True)
class _OfChoice:
    """Sessions by pod uid, oldest end first, and the time since which none is missing."""

    since: datetime
    ended: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)


class SessionRecords(RecordSink):
    """A sink of records that remembers a bounded number of sessions."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since = now()
        self._choices: dict[str, _OfChoice] = {}
        self._running: dict[str, tuple[str, datetime]] = {}
        self._known: dict[str, tuple[datetime, SessionLengths | None]] = {}

    def record(self, record: Record) -> None:
        """Take a record in; only launches with a node matter."""
        match record:
            case Launch():
                self._note(record)
            case PresentServers():
                self._running = {uid: each for uid, each in self._running.items() if uid in record.uids}

    def learn(self, past: Iterable[Launch], since: datetime) -> None:
        """Take in all launches of the past that began after a time."""
        for each in self._choices.values():
            each.since = min(each.since, since)
        self._since = min(self._since, since)
        self.record_all(past)
        self._known = {}

    def began(self, uid: str) -> datetime | None:
        """When a running server got its node; None if that is not known."""
        known = self._running.get(uid)
        return known[1] if known is not None else None

    def lengths_of(self, choice: str) -> SessionLengths | None:
        """Session lengths of the choice, or of its profile if the choice has too few; None if both have."""
        now = self._now()
        known = self._known.get(choice)
        if known is None or not timedelta(0) <= now - known[0] < _FRESH:
            if len(self._known) > _MAX_CHOICES:
                self._known = {}
            known = self._known[choice] = now, self._lengths(choice, now)
        return known[1]

    def _lengths(self, choice: str, now: datetime) -> SessionLengths | None:
        profile = profile_of(choice)
        for names in ([choice], [name for name in self._choices if profile_of(name) == profile]):
            if sum(len(self._choices[name].ended) for name in names if name in self._choices) >= FEWEST_EXAMPLES:
                return SessionLengths(self._seen(set(names), now))
        return None

    def _seen(self, names: set[str], now: datetime) -> Iterator[SeenSession]:
        for name in names & self._choices.keys():
            known = self._choices[name]
            for begin, end in known.ended.values():
                yield SeenSession((end - begin).total_seconds(), seen_from=_before(begin, known.since))
        for name, begin in self._running.values():
            if name in names:
                since = self._choices[name].since if name in self._choices else self._since
                seconds = (now - begin).total_seconds()
                yield SeenSession(seconds, is_over=False, seen_from=_before(begin, since))

    def _note(self, launch: Launch) -> None:
        if launch.bound is None or not launch.choice or not launch.is_demand:
            return
        if launch.ended is None:
            if launch.uid in self._running or len(self._running) < _MAX_RUNNING:
                self._running[launch.uid] = launch.choice, launch.bound
            return
        self._running.pop(launch.uid, None)
        if launch.end_is_estimate or launch.ended <= launch.bound:
            return
        if launch.choice not in self._choices and len(self._choices) >= _MAX_CHOICES:
            return
        known = self._choices.setdefault(launch.choice, _OfChoice(self._since))
        known.ended.setdefault(launch.uid, (launch.bound, launch.ended))
        if len(known.ended) > _MAX_ENDED:
            _, forgotten_end = known.ended.pop(next(iter(known.ended)))
            known.since = max(known.since, forgotten_end)


def _before(begin: datetime, since: datetime) -> float:
    return max((since - begin).total_seconds(), 0.0)


_LONGEST: Final = 600.0


class HandoverTimes:
    """Watches for the pods of reservations.

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, watch: ClusterWatch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._begun: dict[ObjectKey, float] = {}
        self._callbacks: list[Callable[[float], None]] = []
        watch.on_change(self._note)

    def on_bound(self, callback: Callable[[float], None]) -> None:
        """Register a callback for the seconds of each handover."""
        self._callbacks.append(callback)

    def begin(self, namespace: str, pod: str) -> None:
        """Note a reservation for a pod that does not exist yet."""
        now = self._clock()
        # Forget pods that never came.
        self._begun = {key: since for key, since in self._begun.items() if now - since < _LONGEST}
        self._begun[ObjectKey(namespace, pod)] = now

    def _note(self, change: Change) -> None:
        if change.kind is not Kind.POD or change.key not in self._begun:
            return
        pod = self._watch.snapshot.pods.get(change.key)
        if pod is not None and pod.node_name:
            seconds = self._clock() - self._begun.pop(change.key)
            for callback in self._callbacks:
                callback(seconds)

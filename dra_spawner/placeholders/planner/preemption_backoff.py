"""How long it is believed that a user's pod fits, and how often placeholders make way for it.

The scheduler knows more than is modelled: where volumes are, say. A pod that it does not place although there is room
must not cost one placeholder after the other, and is to be told what the scheduler says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.policy import Grace
from dra_spawner.placeholders.planner.view import View, label_of, moment_of
from dra_spawner.simulator.pods import Pod

__all__ = ["NO_RECORD", "PendingRecord", "PreemptionBackoff", "PreemptionRecord"]

#: Each time placeholders make way for a pod the next time is so many times as far away.
_BACK_OFF: Final = 4.0
#: From here on it is always as far away: a day and more.
_MOST_TIMES: Final = 8


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """When placeholders last made way for a pod, and how often they have."""

    at: datetime
    times: int = 1

    @property
    def label(self) -> str:
        """As a label's value: seconds since 1970, and how often if more than once."""
        return label_of(self.at) + (f"-{self.times}" if self.times > 1 else "")

    @classmethod
    def from_label(cls, value: str) -> PreemptionRecord | None:
        """What a label says; None if it makes no sense."""
        seconds, _, times = value.partition("-")
        at = moment_of(seconds)
        if at is None:
            return None
        return cls(at, min(int(times), _MOST_TIMES) if times.isascii() and times.isdigit() and len(times) < 4 else 1)

    def waits(self, grace: Grace) -> timedelta:
        """For how long nobody makes way for the pod again."""
        return grace.preempt_again * _BACK_OFF ** (max(self.times, 1) - 1)


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """What is remembered of a user's pod that waits.

    Attributes
    ----------
    room_since
        Since when there has been room for it without interruption, placeholders that make way included.
    preempted
        As its label says, which it cannot have without a right.
    tried
        Nodes where placeholders made way for it.
    """

    room_since: datetime | None = None
    preempted: PreemptionRecord | None = None
    tried: frozenset[str] = frozenset()

    def not_after(self, now: datetime) -> PendingRecord:
        """The same with nothing that is yet to come."""
        preempted = self.preempted and replace(self.preempted, at=min(self.preempted.at, now))
        return replace(self, room_since=self.room_since and min(self.room_since, now), preempted=preempted)


NO_RECORD: Final = PendingRecord()


class PreemptionBackoff:
    """Of one round: with which pods there is patience.

    Parameters
    ----------
    before
        What is remembered of the last round, by uid.

    Attributes
    ----------
    pending_records
        To be remembered for the next.
    """

    def __init__(self, view: View, grace: Grace, before: Mapping[str, PendingRecord]) -> None:
        self._view = view
        self._grace = grace
        self._before = before
        self.pending_records: dict[str, PendingRecord] = {}

    def preempted(self, pod: Pod) -> PreemptionRecord | None:
        """The last time that placeholders made way for a pod, by its label or, if that could not be set, by memory."""
        labelled = PreemptionRecord.from_label(pod.labels.get(names.PREEMPTED_AT, ""))
        remembered = self._of(pod).preempted
        if labelled is None or remembered is None:
            return labelled or remembered
        # What is said of a time to come was said by a clock that went wrong.
        known = [each for each in (labelled, remembered) if each.at <= self._view.now] or [labelled]
        return replace(max(known, key=lambda each: each.at), times=max(labelled.times, remembered.times))

    def may_preempt(self, pod: Pod) -> bool:
        """Whether placeholders may make way for a pod, again."""
        last = self.preempted(pod)
        return last is None or not timedelta(0) <= self._view.now - last.at < last.waits(self._grace)

    def has_preemption(self, pod: Pod) -> bool:
        """Whether placeholders have made way for a pod just now: it has some time for taking that place."""
        last = self.preempted(pod)
        return last is not None and timedelta(0) <= self._view.now - last.at < self._grace.preempt_again

    def tried(self, pod: Pod) -> frozenset[str]:
        """Nodes where placeholders made way for a pod."""
        return self._of(pod).tried

    def note_preemption(self, pod: Pod, node: str) -> PreemptionRecord:
        """Placeholders make way for a pod now."""
        last = self.preempted(pod)
        now = PreemptionRecord(self._view.now, min(last.times + 1, _MOST_TIMES) if last is not None else 1)
        self.pending_records[pod.uid] = replace(self._of(pod), preempted=now, tried=self.tried(pod) | {node})
        return now

    def note(self, pod: Pod, has_room: bool) -> None:
        """What was found of a pod in this round, after all else."""
        found = self.pending_records.get(pod.uid) or replace(self._of(pod), preempted=self.preempted(pod))
        found = replace(found, room_since=(found.room_since or self._view.now) if has_room else None)
        if found != NO_RECORD:
            self.pending_records[pod.uid] = found

    def keep(self, pod: Pod) -> None:
        """Nothing was found of a pod in this round."""
        if pod.uid in self._before:
            self.pending_records[pod.uid] = self._before[pod.uid]

    def _of(self, pod: Pod) -> PendingRecord:
        return self._before.get(pod.uid, NO_RECORD)

    def is_over(self, pod: Pod) -> bool:
        """Whether the scheduler had time enough to give a pod the place that there is."""
        since = self._of(pod).room_since
        return since is not None and self._view.now - since >= self._grace.scheduler

    def scheduler_says(self, pod: Pod) -> str:
        """Why the scheduler found no node for a pod, as the end of a sentence; empty if it says nothing."""
        said, _, _ = self._view.scheduler_says(pod).partition(" preemption:")
        return said.strip().rstrip(".")

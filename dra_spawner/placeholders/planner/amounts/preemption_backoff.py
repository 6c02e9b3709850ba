"""How long the planner believes that a pending pod fits, and how often it preempts placeholders for the pod.

The scheduler knows more than the model, for example where volumes are. A pod that it does not place although the pod
should fit must not cost one placeholder after the other; its cause is what the scheduler says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.label_times import label_of, moment_of
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Grace
from dra_spawner.simulator.model.pods import Pod

#: Factor of the delay from one preemption for a pod to the next.
_BACK_OFF: Final = 4.0
#: Number of preemptions from which on the delay stays the same, at more than a day.
_MAX_TIMES: Final = 8


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """The time of the last preemption for a pod, and the number of preemptions."""

    at: datetime
    times: int = 1

    @property
    def label(self) -> str:
        """A label's value: seconds since 1970, and the number if above one."""
        return label_of(self.at) + (f"-{self.times}" if self.times > 1 else "")

    @classmethod
    def from_label(cls, value: str) -> PreemptionRecord | None:
        """The record in a label; None if it is invalid."""
        seconds, _, times = value.partition("-")
        at = moment_of(seconds)
        if at is None:
            return None
        return cls(at, min(int(times), _MAX_TIMES) if times.isascii() and times.isdigit() and len(times) < 4 else 1)

    def is_recent(self, now: datetime, grace: Grace) -> bool:
        """Whether the freed capacity must stay free for the pod."""
        return timedelta(0) <= now - self.at < grace.preempt_again

    def waits(self, grace: Grace) -> timedelta:
        """Time until the next preemption for the pod."""
        return grace.preempt_again * _BACK_OFF ** (max(self.times, 1) - 1)


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """The record of a pending pod.

    Attributes
    ----------
    fits_since
        Since when it has fitted without interruption, with or without preemption.
    preempted
        As in its label, which the service may lack the right to set.
    tried
        Nodes where placeholders were preempted for it.
    """

    fits_since: datetime | None = None
    preempted: PreemptionRecord | None = None
    tried: frozenset[str] = frozenset()

    def not_after(self, now: datetime) -> PendingRecord:
        """The same without future times."""
        preempted = self.preempted and replace(self.preempted, at=min(self.preempted.at, now))
        return replace(self, fits_since=self.fits_since and min(self.fits_since, now), preempted=preempted)


NO_RECORD: Final = PendingRecord()


class PreemptionBackoff:
    """Records of pending pods in one round.

    Parameters
    ----------
    before
        Records of the last round, by uid.

    Attributes
    ----------
    pending_records
        Records for the next round.
    """

    def __init__(self, view: View, grace: Grace, before: Mapping[str, PendingRecord]) -> None:
        self._view = view
        self._grace = grace
        self._before = before
        self.pending_records: dict[str, PendingRecord] = {}

    def preempted(self, pod: Pod) -> PreemptionRecord | None:
        """The last preemption for a pod, from its label or, if that could not be set, from the last round."""
        labelled = PreemptionRecord.from_label(pod.labels.get(names.PREEMPTED_AT, ""))
        remembered = self._of(pod).preempted
        if labelled is None or remembered is None:
            return labelled or remembered
        # A future time comes from a wrong clock.
        known = [each for each in (labelled, remembered) if each.at <= self._view.now] or [labelled]
        return replace(max(known, key=lambda each: each.at), times=max(labelled.times, remembered.times))

    def may_preempt(self, pod: Pod) -> bool:
        """Whether placeholders may be preempted for a pod, perhaps again."""
        if self._view.unknown_kinds:
            return False  # it may have a node by now, or fit
        last = self.preempted(pod)
        return last is None or not timedelta(0) <= self._view.now - last.at < last.waits(self._grace)

    def has_preemption(self, pod: Pod) -> bool:
        """Whether the last preemption for a pod is recent, so that the freed capacity stays free for it."""
        last = self.preempted(pod)
        return last is not None and last.is_recent(self._view.now, self._grace)

    def tried(self, pod: Pod) -> frozenset[str]:
        """Nodes where placeholders were preempted for a pod."""
        return self._of(pod).tried

    def note_preemption(self, pod: Pod, node: str) -> PreemptionRecord:
        last = self.preempted(pod)
        now = PreemptionRecord(self._view.now, min(last.times + 1, _MAX_TIMES) if last is not None else 1)
        self.pending_records[pod.uid] = replace(self._of(pod), preempted=now, tried=self.tried(pod) | {node})
        return now

    def note(self, pod: Pod, fits: bool) -> None:
        """Record at the end of a round whether a pod fits."""
        found = self.pending_records.get(pod.uid) or replace(self._of(pod), preempted=self.preempted(pod))
        found = replace(found, fits_since=(found.fits_since or self._view.now) if fits else None)
        if found != NO_RECORD:
            self.pending_records[pod.uid] = found

    def keep(self, pod: Pod) -> None:
        """Leave the record of a pod as it was."""
        if pod.uid in self._before:
            self.pending_records[pod.uid] = self._before[pod.uid]

    def _of(self, pod: Pod) -> PendingRecord:
        return self._before.get(pod.uid, NO_RECORD)

    def is_over(self, pod: Pod) -> bool:
        """Whether the scheduler's grace for a pod that fits is over."""
        since = self._of(pod).fits_since
        return since is not None and self._view.now - since >= self._grace.scheduler

    def scheduler_message(self, pod: Pod) -> str:
        """The scheduler's reason, as the end of a sentence; empty if it reports none."""
        said, _, _ = self._view.scheduler_message(pod).partition(" preemption:")
        return said.strip().rstrip(".")

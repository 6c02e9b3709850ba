"""How many more nodes of each kind are certain to come, and how long new ones took.

A node is certain only where an autoscaler is known: an administrator says that there is one, or a node came for a
pending pod in the last days. An administrator can also say how many nodes of a kind there may be; otherwise there were
more nodes of the kind at once than there are now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.history.records import NodeLeadTime, Record, RecordSink
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.simulator.model.cluster_objects import Kind

_LOOK_BACK: Final = timedelta(days=7)
#: Limit of remembered nodes.
_MAX_NODES: Final = 1_000
#: Limit of kinds, as a wrong label may differ on every node.
_MAX_KINDS: Final = 200
#: A node that takes longer counts as broken.
_LONGEST: Final = timedelta(hours=2)


class NodeCeilings(RecordSink):
    """See the module."""

    def __init__(self, watch: ClusterWatch, settings: ControllerSettings, *, now: Callable[[], datetime]) -> None:
        self._watch = watch
        self._settings = settings
        self._now = now
        self._kind_of: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._present: Counter[str] = Counter()
        self._open_count: Counter[str] = Counter()
        self._peaks: dict[str, dict[int, int]] = {}
        self._seen: dict[str, NodeLeadTime] = {}
        watch.on_change(self._note)

    # --- as a sink of records -----------------------------------------------------------------------------------------

    def record(self, record: Record) -> None:
        """Take a record in; only lead times of nodes matter."""
        if isinstance(record, NodeLeadTime):
            self._seen.pop(record.uid, None)
            self._seen[record.uid] = record
            if len(self._seen) > _MAX_NODES:
                del self._seen[next(iter(self._seen))]

    @property
    def has_autoscaler(self) -> bool:
        """Whether an autoscaler is known to add nodes."""
        return self._settings.has_autoscaler or bool(self._grown_kinds())

    # --- answers ------------------------------------------------------------------------------------------------------

    def more_nodes(self) -> dict[str, int]:
        """Guaranteed number of new nodes by kind; kinds without any are left out."""
        grown = self._grown_kinds()
        most = {kind: max(self._peaks.get(kind, {}).values(), default=0) for kind in grown}
        if grown or self._settings.has_autoscaler:
            most |= self._settings.max_nodes
        return {kind: more for kind, number in most.items() if (more := number - self._present[kind]) > 0}

    def waits_for_new(self, kind: str) -> list[float]:
        """Seconds from the creation of a pending pod until its node was open to users, of the last days."""
        return [
            seconds
            for each in self._recent()
            if each.kind == kind and (seconds := _seconds(each.asked, each.images)) is not None
        ]

    def waits_for_created(self, kind: str) -> list[float]:
        """Seconds from the creation of a node until it was open to users, of the last days."""
        return [
            seconds
            for each in self._recent()
            if each.kind == kind and (seconds := _seconds(each.created, each.images)) is not None
        ]

    def _grown_kinds(self) -> set[str]:
        """Kinds of which a node came for a pending pod in the last days."""
        return {each.kind for each in self._recent() if each.asked is not None and each.images is not None}

    def _recent(self) -> list[NodeLeadTime]:
        since = self._now() - _LOOK_BACK
        return [each for each in self._seen.values() if each.created >= since]

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        if change.kind is not Kind.NODE:
            return
        name = change.key.name
        state = self._watch.snapshot.nodes.get(name) if change.type is not ChangeType.REMOVED else None
        labels = state.node.labels if state is not None else {}
        kind = labels.get(self._settings.policy.readiness.kind_label, "") if state is not None else None
        is_open = names.IMAGES_READY in labels
        _move(self._present, self._kind_of, name, kind)
        _move(self._open_count, self._open, name, kind if is_open else None)
        if kind is not None and is_open:
            self._note_peak(kind)

    def _note_peak(self, kind: str) -> None:
        if kind not in self._peaks and len(self._peaks) >= _MAX_KINDS:
            return
        day = int(self._now().timestamp() // 86_400)
        peaks = self._peaks.setdefault(kind, {})
        peaks[day] = max(peaks.get(day, 0), self._open_count[kind])
        for old in [each for each in peaks if each < day - _LOOK_BACK.days]:
            del peaks[old]


def _move(counts: Counter[str], kinds: dict[str, str], name: str, kind: str | None) -> None:
    """Count a node for its present kind instead of the one before; None is gone."""
    before = kinds.pop(name, None)
    if before is not None:
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
    if kind is not None:
        kinds[name] = kind
        counts[kind] += 1


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None or not timedelta(0) < end - begin <= _LONGEST:
        return None
    return (end - begin).total_seconds()

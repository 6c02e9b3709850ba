"""Lead times of new nodes: until they are ready, have published their devices, and are open to users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner import names
from dra_spawner.dra.model.objects import ResourceSlice
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

#: Longest lead time; a node that takes longer counts as broken.
_LONGEST: Final = timedelta(hours=2)
#: Limit of kinds, as a wrong label may differ on every node.
_MAX_KINDS: Final = 50
_OTHER: Final = "other"
_NO_KIND: Final = "none"


class LeadPhase(StrEnum):
    #: It is Ready.
    READY = "ready"
    #: All devices of its kind are published.
    SLICES = "slices"
    #: Images are there too, so it is open to users. Not counted if it was opened by the deadline.
    IMAGES = "images"


@dataclass(frozen=True, slots=True)
class ReachedPhase:
    """A node that reached a phase.

    Attributes
    ----------
    kind
        Value of the label; empty without it.
    bounded_kind
        The same for metrics: ``none`` without the label, ``other`` where there are too many.
    """

    node: str
    uid: str
    kind: str
    bounded_kind: str
    phase: LeadPhase
    created: datetime
    at: datetime

    @property
    def seconds(self) -> float:
        """Since the node was made."""
        return max((self.at - self.created).total_seconds(), 0.0)


@dataclass(slots=True)
class _Young:
    created: datetime
    reached: set[LeadPhase] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)


class NodeLeadTimes:
    """Follows nodes that were created after its own start.

    Parameters
    ----------
    watch
        Shows nodes and slices.
    kind_label
        Nodes with the same value are of one kind.
    drivers_of
        Returns the drivers of a kind.
    """

    def __init__(
        self,
        watch: ClusterWatch,
        kind_label: str,
        drivers_of: Callable[[str], Collection[str]],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._watch = watch
        self._kind_label = kind_label
        self._drivers_of = drivers_of
        self._now = now
        self._began = now()
        self._young: dict[str, _Young] = {}
        self._kinds: set[str] = set()
        self._callbacks: list[Callable[[ReachedPhase], None]] = []
        watch.on_change(self._note)

    def on_reached(self, callback: Callable[[ReachedPhase], None]) -> None:
        """Register a callback for each phase that a node reaches."""
        self._callbacks.append(callback)

    def _note(self, change: Change) -> None:
        name = change.key.name
        match change.kind:
            case Kind.NODE if change.type is ChangeType.REMOVED:
                self._young.pop(name, None)
            case Kind.NODE:
                if change.type is ChangeType.ADDED:
                    self._begin(name)
                self._look(name)
            case Kind.RESOURCE_SLICE if self._young:
                self._note_slice(name)

    def _begin(self, name: str) -> None:
        """Follow a node, unless it existed before, as its times are unknown then."""
        state = self._watch.snapshot.nodes.get(name)
        now = self._now()
        self._young = {key: each for key, each in self._young.items() if now - each.created < _LONGEST}
        if state is None:
            return
        created = now - age(state.node.created, now)
        # Creation stamps have whole seconds.
        if created > self._began - timedelta(seconds=1):
            slices = {key for key, each in self._watch.snapshot.slices.items() if each.node_name == name}
            self._young[name] = _Young(created, slices=slices)

    def _note_slice(self, slice_name: str) -> None:
        item = self._watch.snapshot.slices.get(slice_name)
        for name, young in self._young.items():
            if item is not None and item.node_name == name:
                young.slices.add(slice_name)
                self._look(name)
                return
            young.slices.discard(slice_name)

    def _look(self, name: str) -> None:
        young, state = self._young.get(name), self._watch.snapshot.nodes.get(name)
        if young is None or state is None:
            return
        kind = state.node.labels.get(self._kind_label, "")
        for phase in LeadPhase:
            if phase not in young.reached and self._has_reached(phase, name, young, kind):
                young.reached.add(phase)
                observed = self._watch.observed(Kind.NODE, ObjectKey("", name))
                uid = observed.uid if observed is not None else ""
                reached = ReachedPhase(name, uid, kind, self._kind_now(kind), phase, young.created, self._now())
                for callback in self._callbacks:
                    callback(reached)

    def _has_reached(self, phase: LeadPhase, name: str, young: _Young, kind: str) -> bool:
        match phase:
            case LeadPhase.READY:
                observed = self._watch.observed(Kind.NODE, ObjectKey("", name))
                condition = observed.conditions.get("Ready") if observed is not None else None
                return condition is not None and condition.status == "True"
            case LeadPhase.SLICES:
                slices = self._watch.snapshot.slices
                found = [slices[each] for each in young.slices if each in slices]
                wanted = {each.pool_id.driver for each in found}.union(self._drivers_of(kind))
                return bool(found) and _complete_drivers(found) >= wanted
            case LeadPhase.IMAGES:
                state = self._watch.snapshot.nodes[name]
                return state.node.labels.get(names.IMAGES_READY) == names.TRUE

    def _kind_now(self, kind: str) -> str:
        if not kind:
            return _NO_KIND
        if kind not in self._kinds and len(self._kinds) >= _MAX_KINDS:
            return _OTHER
        self._kinds.add(kind)
        return kind


def _complete_drivers(slices: Iterable[ResourceSlice]) -> set[str]:
    """Drivers with no incomplete pool."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        pools.setdefault((each.pool_id.driver, each.pool_id.pool), []).append(each)
    complete: dict[str, bool] = {}
    for (driver, _), items in pools.items():
        newest = max(each.generation for each in items)
        current = [each for each in items if each.generation == newest]
        is_complete = len(current) >= current[0].resource_slice_count
        complete[driver] = complete.get(driver, True) and is_complete
    return {driver for driver, is_complete in complete.items() if is_complete}

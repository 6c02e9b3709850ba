"""Records of the history, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from dra_spawner.history.decision_log import Decision

SERVICE = "service"
"""`Launch.source` of launches that the service itself observed."""
TRIAL = "trial"
"""The same of servers of ``dra-spawner try``. They hold devices, but no user came for them."""


class WaitCause(StrEnum):
    """Cause of a server's wait for a node."""

    #: No wait: the server found a warm placeholder, or was bound within a few seconds.
    NONE = "none"
    #: The server waited for a node that was created after its pod.
    NODE = "node"
    #: Placeholders were preempted for the server.
    PREEMPTION = "preemption"
    #: Another cause, for example the end of another server; see `Launch.reason`.
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a user's server. All times have a time zone; None means unknown, or not yet."""

    uid: str
    """Unique: the UID of the pod; for an imported launch, an identifier that is derived from its content."""

    asked: datetime
    """Time at which the pod was created; for an imported launch, the time of the user's request."""
    profile: str = ""
    """Slug of the profile; empty if unknown."""
    choice: str = ""
    """Whole name of the choice, for example ``gpu-slice/memory=large``."""
    user: str = ""
    """Name of the user, or its keyed hash (`user_is_hashed`)."""
    user_is_hashed: bool = False
    pod: str = ""
    """Name of the pod, hashed like the user's name."""

    bound: datetime | None = None
    """Time at which the pod had a node."""

    running: datetime | None = None
    """Time at which its containers ran."""

    ended: datetime | None = None
    """Time at which its pod ended or was deleted."""

    ended_because: str = ""
    """Why Kubernetes ended the pod, as a sentence; empty if somebody stopped the server, or if it is not known."""

    end_is_estimate: bool = False
    """Whether the end was not observed: `ended` is then the last time at which the service observed the cluster."""
    node: str = ""
    warm: bool | None = None
    """Whether it found a warm placeholder."""
    cause: WaitCause | None = None
    reason: str = ""
    """Cause of the wait, as a sentence for people."""

    mentions: tuple[str, ...] = ()
    """Names in `reason` that identify the user; they are hashed like the user's name."""

    devices: Mapping[str, float] | None = None
    """Devices that it held, by driver, in whole devices: a share of a quarter is 0.25. None if that is not known."""

    source: str = SERVICE
    """Origin of the record: ``service``, ``trial``, or the kind of the import."""

    @property
    def is_demand(self) -> bool:
        """Whether forecasts and reports count it."""
        return self.source != TRIAL


@dataclass(frozen=True, slots=True)
class NodeLeadTime:
    """Times of a new node until it is open to users. None means unknown, or not yet."""

    uid: str
    """UID of the node."""
    node: str
    kind: str
    """Value of the label that distinguishes kinds of nodes; empty without the label."""
    created: datetime
    asked: datetime | None = None
    """Creation time of the oldest pod that waited for a node and was bound to this one."""

    ready: datetime | None = None
    """Time at which the kubelet reported that the node is ready."""

    slices: datetime | None = None
    """Time at which all devices of its kind were published."""

    images: datetime | None = None
    """Time at which the node also had all images, so that it was open to users."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision, with the further data that the database needs."""

    id: str
    """Unique id."""
    decision: Decision
    mentions: tuple[str, ...] = ()
    """Names in its texts that identify a user; they are hashed like users' names."""


@dataclass(frozen=True, slots=True)
class PresentServers:
    """All servers that the cluster has now: other open launches have ended while the service did not observe them."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class LearnedDemand:
    """What scale-ahead has learned of a group of choices; a newer one replaces it."""

    group: str
    at: datetime
    """Time until which launches are in it."""
    state: str
    """JSON, which only scale-ahead reads."""


Record = Launch | NodeLeadTime | RecordedDecision | PresentServers | LearnedDemand
"""A record that `HistoryDatabase.add` writes."""


class RecordSink(Protocol):
    """What takes records, and returns at once."""

    def record(self, record: Record, /) -> None:
        """Take a record in."""

    def record_all(self, records: Iterable[Record], /) -> None:
        """Take records in, and drop none."""
        for record in records:
            self.record(record)


@dataclass(frozen=True, slots=True)
class MinuteCount:
    """Number of launches of a choice that began, or ended, in a minute."""

    minute: datetime
    """Beginning of the minute, in UTC."""
    profile: str
    choice: str
    """Whole name of the choice; the profile's slug for launches without a choice, for example imported ones."""
    count: int

"""Records of the history: what is kept in the database, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dra_spawner.history.decision_log import Decision

__all__ = [
    "SERVICE",
    "Launch",
    "MinuteCount",
    "NodeLeadTime",
    "PresentServers",
    "Record",
    "RecordedDecision",
    "WaitCause",
]

SERVICE = "service"
"""`Launch.source` of what the service itself saw."""


class WaitCause(StrEnum):
    """What a server waited for before it had a node."""

    #: Nothing: it took over a warm placeholder, or was bound within a few seconds.
    NONE = "none"
    #: A node that was created after its pod.
    NODE = "node"
    #: Placeholders that were preempted for it.
    PREEMPTION = "preemption"
    #: Something else, for example a server that ended; `Launch.reason` says what is known.
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a user's server. All times have a time zone; None is not known, or not yet."""

    uid: str
    """Unique: the UID of the pod; of an imported launch, an identifier that follows from its content."""
    asked: datetime
    """When its pod was created; of an imported launch, when the user asked for it."""
    profile: str = ""
    """Slug of the profile; empty if not known."""
    choice: str = ""
    """Whole name of the choice, for example ``gpu-slice/memory=large``."""
    user: str = ""
    """Name of the user, or its keyed hash (`user_is_hashed`)."""
    user_is_hashed: bool = False
    pod: str = ""
    """Name of the pod, hashed as the user's name is."""
    bound: datetime | None = None
    """When it had a node."""
    running: datetime | None = None
    """When its containers ran."""
    ended: datetime | None = None
    """When its pod ended or was gone."""
    end_is_estimate: bool = False
    """Whether the end was not seen: `ended` is then the last time at which the service was seen to work."""
    node: str = ""
    warm: bool | None = None
    """Whether it took over a warm placeholder."""
    cause: WaitCause | None = None
    reason: str = ""
    """What it waited for, as a sentence for people."""
    mentions: tuple[str, ...] = ()
    """Names in `reason` that tell who the user is; they are hashed with the user's name."""
    source: str = SERVICE
    """Who says so: ``service``, or what it was imported from."""


@dataclass(frozen=True, slots=True)
class NodeLeadTime:
    """How a node came to be useful. None is not known, or not yet."""

    uid: str
    """Of the node."""
    node: str
    kind: str
    """Value of the label by which kinds of nodes are told apart; empty without it."""
    created: datetime
    asked: datetime | None = None
    """When the oldest pod was created that waited for this node and was bound to it."""
    ready: datetime | None = None
    """When the kubelet said that it is ready."""
    slices: datetime | None = None
    """When all devices of its kind were published."""
    images: datetime | None = None
    """When images were there, too, so that it was open to users."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision, with what the database needs besides."""

    id: str
    """Unique."""
    decision: Decision
    mentions: tuple[str, ...] = ()
    """Names in its texts that tell who a user is; they are hashed with users' names."""


@dataclass(frozen=True, slots=True)
class PresentServers:
    """All servers that the cluster shows: other open launches of the service have ended unseen."""

    uids: frozenset[str]


Record = Launch | NodeLeadTime | RecordedDecision | PresentServers
"""What can be written."""


@dataclass(frozen=True, slots=True)
class MinuteCount:
    """How many launches of a choice began, or ended, in a minute."""

    minute: datetime
    """Its beginning, in UTC."""
    profile: str
    choice: str
    """Whole name of the choice; the profile's where a launch has none, for example an imported one."""
    count: int

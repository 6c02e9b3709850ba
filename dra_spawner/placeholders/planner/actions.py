"""What can be decided. Every action says why; the controller's executor carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final, get_args

from dra_spawner.dra.preferences import Preferences
from dra_spawner.placeholders.lifecycle import PLACEHOLDER, ActionKind, Cause, PlaceholderState, TicketEvent, after
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod


class Hold(StrEnum):
    """Why a placeholder that should go is not evicted yet."""

    #: Too many were evicted in a short time.
    BUDGET = "budget"
    #: Enough are evicted from its node in this round.
    PER_NODE = "per-node"
    #: Too few warm ones would be left.
    FLOOR = "floor"
    #: Its replacement would start on a node where it should not be.
    LANDING = "landing"
    #: Its shape is outdated, but its replacement is not there yet.
    REPLACING = "replacing"
    #: Users' servers are pending.
    USERS_PENDING = "users-pending"
    #: Other placeholders are pending.
    PENDING = "pending"
    #: Other placeholders are terminating.
    TERMINATING = "terminating"
    #: The view of the cluster is too old.
    STALE = "stale"
    #: The API server fails.
    API = "api"
    #: A person ordered that nothing is decided.
    OBSERVING = "observing"

    @property
    def because(self) -> str:
        """For people: why it stays."""
        return _BECAUSE[self]


_BECAUSE = {
    Hold.BUDGET: "the eviction budget is spent",
    Hold.PER_NODE: "its node has reached its evictions for this round",
    Hold.FLOOR: "too few warm ones would be left",
    Hold.LANDING: "its replacement would start on the wrong node",
    Hold.REPLACING: "its replacement is not there yet",
    Hold.USERS_PENDING: "users' servers are pending",
    Hold.PENDING: "other placeholders are pending",
    Hold.TERMINATING: "other placeholders are terminating",
    Hold.STALE: "the view of the cluster is too old",
    Hold.API: "the API server fails",
    Hold.OBSERVING: "the service only observes, by order of a person",
}


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    """Make a placeholder.

    Attributes
    ----------
    for_pending_pod
        The pending user's pod that needs a node; None if it is for the target.
    avoid
        Nodes that it avoids if it fits elsewhere: other placeholders failed there, or it would be evicted.
    never
        Nodes whose free devices are kept for a ticket that needs several.
    unnamed
        Its claims that its container does not name.
    node, preferences
        The node, and by entry the devices, that it prefers if devices are packed.
    """

    kind: ClassVar = ActionKind.CREATE_PLACEHOLDER
    shape: str
    reason: str
    for_pending_pod: ObjectKey | None = None
    avoid: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    node: str = ""
    preferences: Mapping[str, Preferences] = field(default_factory=dict, hash=False)

    @property
    def subject(self) -> str:
        return f"shape {self.shape}"


@dataclass(frozen=True, slots=True)
class DeletePlaceholder:
    """Delete a placeholder's pod, and its claims that no other pod uses.

    Attributes
    ----------
    pod
        The user's pod that it is deleted for.
    version
        The ``resourceVersion`` of the placeholder's pod, if only this version may be deleted; empty for any version.
    """

    kind: ClassVar = ActionKind.DELETE_PLACEHOLDER
    key: ObjectKey
    uid: str
    cause: Cause
    reason: str
    pod: ObjectKey | None = None
    version: str = ""

    @property
    def subject(self) -> str:
        return f"Pod {self.key}"


def delete_placeholder(
    pod: Pod,
    state: PlaceholderState,
    cause: Cause,
    reason: str,
    for_pod: ObjectKey | None = None,
    version: str = "",
) -> DeletePlaceholder:
    """The deletion of a placeholder, checked against its life cycle.

    Parameters
    ----------
    for_pod, version
        See `DeletePlaceholder`.

    Raises
    ------
    IllegalEvent
        When a placeholder in this state must not be deleted for this cause.
    """
    action = after(PLACEHOLDER, state, cause).action
    assert action is DeletePlaceholder.kind
    return DeletePlaceholder(ObjectKey.of(pod), pod.uid, cause, reason, for_pod, version)


@dataclass(frozen=True, slots=True)
class LabelNode:
    """Set a node's label, or remove it (value None)."""

    kind: ClassVar = ActionKind.LABEL_NODE
    node: str
    label: str
    value: str | None
    reason: str

    @property
    def subject(self) -> str:
        return f"Node {self.node}"


@dataclass(frozen=True, slots=True)
class LabelPod:
    """Set a label of a user's pod."""

    kind: ClassVar = ActionKind.LABEL_POD
    key: ObjectKey
    uid: str
    label: str
    value: str
    reason: str

    @property
    def subject(self) -> str:
        return f"Pod {self.key}"


@dataclass(frozen=True, slots=True)
class AddConsumer:
    """Make a user's pod an owner and a consumer of a warm claim, so that the claim outlives the placeholder.

    Attributes
    ----------
    owner, consumer
        Which of the two the pod is not yet.
    instead_of
        Uid of a terminating placeholder, which is to be no consumer any more; empty for none.
    """

    kind: ClassVar = ActionKind.ADD_CONSUMER
    claim: ObjectKey
    pod: ObjectKey
    pod_uid: str
    reason: str
    owner: bool = True
    consumer: bool = True
    instead_of: str = ""

    @property
    def subject(self) -> str:
        return f"ResourceClaim {self.claim}"


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a warm claim that no pod uses or will use."""

    kind: ClassVar = ActionKind.DELETE_CLAIM
    claim: ObjectKey
    uid: str
    reason: str

    @property
    def subject(self) -> str:
        return f"ResourceClaim {self.claim}"


@dataclass(frozen=True, slots=True)
class ReservedClaim:
    """A warm claim to reserve.

    Attributes
    ----------
    entry
        Of the pod's ``resourceClaims``.
    version
        The claim's ``resourceVersion`` at the decision; empty if the watch has not shown the claim.
    """

    entry: str
    key: ObjectKey
    version: str


@dataclass(frozen=True, slots=True)
class ReservePlaceholder:
    """Reserve a warm placeholder for a server whose pod is about to be created.

    Attributes
    ----------
    claims
        All of its claims. A placeholder without devices has none: the scheduler preempts it for the pod.
    since, until
        The reservation's begin, and the time by which the pod must be there.
    placement
        The state of the server's placement (`AvailabilityState`).
    ticket
        Id of the ticket that the placeholder was held for; empty for none.
    """

    kind: ClassVar = ActionKind.RESERVE_PLACEHOLDER
    placeholder: ObjectKey
    shape: str
    node: str
    claims: tuple[ReservedClaim, ...]
    pod: ObjectKey
    since: datetime
    until: datetime
    reason: str
    placement: str
    ticket: str = ""

    @property
    def subject(self) -> str:
        return f"Pod {self.pod}"


@dataclass(frozen=True, slots=True)
class ChangeTicket:
    """Write an event of a ticket into the queue, by compare-and-swap.

    Attributes
    ----------
    ticket
        Its id.
    shape
        Of its choice; empty if that is not known.
    placeholder, placeholder_uid, until
        What is held for it, and how long; only with `TicketEvent.HOLD`.
    node
        The node that is kept for it until then; only with `TicketEvent.KEEP`.
    """

    kind: ClassVar = ActionKind.CHANGE_TICKET
    ticket: str
    event: TicketEvent
    reason: str
    shape: str = ""
    placeholder: str = ""
    placeholder_uid: str = ""
    until: datetime | None = None
    node: str = ""

    @property
    def subject(self) -> str:
        return f"ticket {self.ticket}"


Action = (
    CreatePlaceholder
    | ReservePlaceholder
    | DeletePlaceholder
    | LabelNode
    | LabelPod
    | AddConsumer
    | DeleteClaim
    | ChangeTicket
)
"""Each says what ``kind`` it is of, and what object it is about (its ``subject``)."""

ACTIONS: Final[tuple[type[Action], ...]] = get_args(Action)


def in_chains(actions: Iterable[Action]) -> tuple[tuple[tuple[Action, ...], ...], tuple[Action, ...]]:
    """Chains of the actions that serve one user's pod each, and all other actions.

    If an action of a chain fails, the later ones must not be done: the claim would be free between the placeholder's
    deletion and the pod's ownership.
    """
    chains: dict[ObjectKey, list[Action]] = {}
    rest: list[Action] = []
    for action in actions:
        match action:
            case AddConsumer(pod=pod) | DeletePlaceholder(cause=Cause.HANDED_OVER, pod=ObjectKey() as pod):
                chains.setdefault(pod, []).append(action)
            case _:
                rest.append(action)
    return tuple(tuple(each) for each in chains.values()), tuple(rest)


def in_order(chains: Iterable[tuple[Action, ...]], rest: Iterable[Action]) -> list[list[tuple[Action, ...]]]:
    """Groups of chains; the chains of a group may run in parallel."""
    first, labels_gone, last = [*chains], list[tuple[Action, ...]](), list[tuple[Action, ...]]()
    for each in rest:
        match each:
            case LabelPod():
                first.append((each,))
            case LabelNode(value=None):
                labels_gone.append((each,))
            case _:
                last.append((each,))
    return [group for group in (first, labels_gone, last) if group]

"""What can be decided. Every action says why; the controller's executor carries it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final, get_args

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, ActionKind, Cause, PlaceholderState, after
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod


class Hold(StrEnum):
    """Why a placeholder that should go is not evicted yet."""

    #: Too many were evicted in a short time.
    BUDGET = "budget"
    #: Enough are evicted from its node in this round.
    PER_NODE = "per-node"
    #: Too few warm ones would be left.
    FLOOR = "floor"
    #: Its replacement would not come up where it should.
    LANDING = "landing"
    #: No choice wants it any more, but what is wanted instead is not there yet.
    REPLACING = "replacing"
    #: Users' servers wait.
    USERS_WAIT = "users-wait"
    #: Other placeholders wait for a node.
    PENDING = "pending"
    #: Others are on their way out.
    TERMINATING = "terminating"
    #: What is known of the cluster is too old.
    STALE = "stale"
    #: The API server fails.
    API = "api"

    @property
    def because(self) -> str:
        """For people: why it stays."""
        return _BECAUSE[self]


_BECAUSE = {
    Hold.BUDGET: "enough were evicted lately",
    Hold.PER_NODE: "enough are evicted from its node at once",
    Hold.FLOOR: "too few warm ones would be left",
    Hold.LANDING: "its replacement would not come up where it should",
    Hold.REPLACING: "what is wanted instead is not there yet",
    Hold.USERS_WAIT: "users' servers wait",
    Hold.PENDING: "other placeholders wait for a node",
    Hold.TERMINATING: "others are on their way out",
    Hold.STALE: "what is known of the cluster is too old",
    Hold.API: "the API server fails",
}


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    """Make a placeholder.

    Attributes
    ----------
    for_pending_pod
        The waiting user's pod for which a node must come; None if it is for the wanted number.
    avoid
        Nodes that it goes to only if it has no room elsewhere: others have failed there.
    """

    kind: ClassVar = ActionKind.CREATE_PLACEHOLDER
    shape: str
    reason: str
    for_pending_pod: ObjectKey | None = None
    avoid: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return f"shape {self.shape}"


@dataclass(frozen=True, slots=True)
class DeletePlaceholder:
    """Delete a placeholder's pod, and with it the claims that nobody else uses."""

    kind: ClassVar = ActionKind.DELETE_PLACEHOLDER
    key: ObjectKey
    uid: str
    cause: Cause
    reason: str
    pod: ObjectKey | None = None
    """The user's pod that it is deleted for."""

    @property
    def subject(self) -> str:
        return f"Pod {self.key}"


def delete_placeholder(
    pod: Pod, state: PlaceholderState, cause: Cause, reason: str, for_pod: ObjectKey | None = None
) -> DeletePlaceholder:
    """The deletion that an event of a placeholder's life asks for.

    Raises
    ------
    IllegalEvent
        When a placeholder in this state must not be deleted for this cause.
    """
    action = after(PLACEHOLDER, state, cause).action
    assert action is DeletePlaceholder.kind
    return DeletePlaceholder(ObjectKey.of(pod), pod.uid, cause, reason, for_pod)


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
    """Enter a user's pod among the owners and consumers of a warm claim, so that it outlives the placeholder.

    Attributes
    ----------
    owner, consumer
        Which of the two the pod is not yet.
    """

    kind: ClassVar = ActionKind.ADD_CONSUMER
    claim: ObjectKey
    pod: ObjectKey
    pod_uid: str
    reason: str
    owner: bool = True
    consumer: bool = True

    @property
    def subject(self) -> str:
        return f"ResourceClaim {self.claim}"


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a warm claim that nobody uses and nobody is going to use."""

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
        The claim's ``resourceVersion`` as it was decided on; empty if the claim was not seen.
    """

    entry: str
    key: ObjectKey
    version: str


@dataclass(frozen=True, slots=True)
class ReservePlaceholder:
    """Set a warm placeholder aside for a server whose pod is about to be made.

    Attributes
    ----------
    claims
        All of its claims. Without devices it has none: nothing is written, and the scheduler preempts it for the pod.
    pod
        The server's.
    since, until
        The pod must be there by then.
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

    @property
    def subject(self) -> str:
        return f"Pod {self.pod}"


Action = CreatePlaceholder | ReservePlaceholder | DeletePlaceholder | LabelNode | LabelPod | AddConsumer | DeleteClaim
"""Each says what ``kind`` it is of, and what object it is about (its ``subject``)."""

ACTIONS: Final[tuple[type[Action], ...]] = get_args(Action)


def in_chains(actions: Iterable[Action]) -> tuple[tuple[tuple[Action, ...], ...], tuple[Action, ...]]:
    """What gives places to users' pods, pod by pod, and the rest.

    The actions of a chain come one after the other. Where one fails, those after it must not be done: a claim whose
    placeholder goes before it is the pod's would be anybody's for a moment.
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

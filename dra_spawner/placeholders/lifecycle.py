"""The life of a placeholder, a reservation and a ticket: tables, state x event -> next state and action.

Two rules hold, as in h11's ``_state.py``:

1. Every transition is in these tables. No other module decides which state follows, or what may end a placeholder.
2. This module knows no object of the cluster. `planner.view` says which events it sees there, the planner says which
   events it decides on, and both ask here what follows.

The service holds no state between rounds that it could not see in the cluster. So a state is derived anew each round:
the events that are seen are applied to the first state, in the order in which they happen. A decision is one more
event. Where the table has no entry for it, it is an `IllegalEvent`, and nothing changes.

The tables and pictures in ``docs/reference/placeholder-states.md`` are made from them by `tests.docs.lifecycle_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final, Generic, TypeAlias, TypeVar

StateT = TypeVar("StateT", bound=StrEnum)
EventT = TypeVar("EventT", bound=StrEnum)


class ActionKind(StrEnum):
    """What the executor can do; the kind of each class of `planner.actions`."""

    CREATE_PLACEHOLDER = "create-placeholder"
    RESERVE_PLACEHOLDER = "reserve-placeholder"
    DELETE_PLACEHOLDER = "delete-placeholder"
    ADD_CONSUMER = "add-consumer"
    DELETE_CLAIM = "delete-claim"
    LABEL_NODE = "label-node"
    LABEL_POD = "label-pod"
    CHANGE_TICKET = "change-ticket"


class IdleAction(StrEnum):
    """Kinds of decisions about an idle server."""

    WARN = "warn-idle-server"
    WITHDRAW = "withdraw-idle-warning"
    STOP = "stop-idle-server"
    #: Its user has said that it is needed.
    KEEP = "keep-idle-server"


class PlaceholderState(StrEnum):
    """How far a placeholder is. API, page and metrics show these states."""

    #: It has no node.
    PENDING = "pending"
    #: It has a node. Its container does not run yet, or the node is not ready for users.
    STARTING = "starting"
    #: Its container runs, on a node that is ready for users.
    WARM = "warm"
    #: It is reserved for one server, or for a ticket.
    RESERVED = "reserved"
    #: It is being deleted, or its pod has ended.
    TERMINATING = "terminating"


class PlaceholderSeen(StrEnum):
    """What the cluster shows of a placeholder."""

    #: The scheduler has bound it.
    SCHEDULED = "scheduled"
    #: Its container runs, on a node that is ready for users.
    STARTED = "started"
    #: Its container, its devices or its node are not ready any more.
    STOPPED = "stopped"
    #: The executor writes a reservation, the claims show one, or a ticket names it.
    RESERVED = "reserved"
    #: A reservation without claims, or the time of a ticket, is over.
    RELEASED = "released"
    #: It is being deleted, or its pod has ended.
    ENDED = "ended"
    #: The pod is no longer there.
    GONE = "gone"


class Cause(StrEnum):
    """Why the planner deletes a placeholder; each is an event of its life."""

    #: Its claims were handed over to a user's pod.
    HANDED_OVER = "handed-over"
    #: A user's pod fits without it.
    PREEMPTED = "preempted"
    #: The pod of its reservation did not come.
    EXPIRED = "expired"
    #: A new, empty node is better for it.
    REBALANCE = "rebalance"
    #: A person ordered that its node is drained.
    DRAIN = "drain"
    #: The service empties its node, which users hardly need.
    EMPTYING = "emptying"
    #: A ResourceQuota has no capacity for a user's server.
    QUOTA = "quota"
    #: There are more than the target.
    SURPLUS = "surplus"
    #: No choice has its shape any more.
    OUTDATED = "outdated"
    #: A person ordered it, or its device is closed.
    EVICTED = "evicted"
    #: It has failed, or its claims are gone.
    BROKEN = "broken"

    @property
    def is_eviction(self) -> bool:
        """Whether it takes a token of the eviction budget; users and clean-up do not."""
        return self in (Cause.REBALANCE, Cause.DRAIN, Cause.EMPTYING, Cause.SURPLUS, Cause.OUTDATED)

    @property
    def is_of_users(self) -> bool:
        """Whether a user's server has, needs or was to have its devices."""
        return self in (Cause.HANDED_OVER, Cause.PREEMPTED, Cause.EXPIRED)


PlaceholderEvent: TypeAlias = PlaceholderSeen | Cause


class ReservationState(StrEnum):
    """How far a reservation is."""

    #: The executor writes it on the claims.
    WRITING = "writing"
    #: The claims are reserved, and the server's pod does not exist yet.
    OPEN = "open"
    #: The server's pod names the claims: the handover.
    TAKEN = "taken"
    #: The server's pod has claims of its own.
    UNUSED = "unused"
    #: It is over, and the claims are never reserved again.
    ENDED = "ended"


class ReservationEvent(StrEnum):
    """What happens to a reservation."""

    #: All claims show the reservation.
    WRITTEN = "written"
    #: Another writer has changed a claim.
    LOST = "lost"
    #: The API server has refused it.
    REFUSED = "refused"
    #: The server's pod names the claims.
    POD_NAMES_CLAIMS = "pod-names-claims"
    #: The server's pod names none of the claims.
    POD_HAS_OTHER_CLAIMS = "pod-has-other-claims"
    #: The pod has not come in time.
    TIME_OVER = "time-over"
    #: The containers of the server's pod run.
    POD_RUNS = "pod-runs"
    #: The server's pod requires that the placeholder is gone.
    POD_WAITS = "pod-waits"
    #: The server's pod does not fit on the node beside the placeholder.
    NO_CAPACITY = "no-capacity"
    #: The placeholder is not deleted for another reason in this round.
    NOT_PREEMPTED = "not-preempted"


class TicketState(StrEnum):
    """How far a ticket is: the place of a user in the queue for a choice."""

    #: The user waits for a device.
    WAITING = "waiting"
    #: A placeholder is set aside for the user, for a limited time.
    HELD = "held"
    #: The choice is not published at present; the ticket keeps its number.
    UNKNOWN_CHOICE = "unknown-choice"
    #: The user's server has a device of this choice.
    TAKEN = "taken"
    #: The user did not take the device in time.
    EXPIRED = "expired"
    #: The user left the queue, or an administrator ended the ticket.
    LEFT = "left"

    @property
    def is_open(self) -> bool:
        """Whether the ticket is in the queue still; the others are kept a while, for the user to read."""
        return self in (TicketState.WAITING, TicketState.HELD, TicketState.UNKNOWN_CHOICE)


class TicketEvent(StrEnum):
    """What happens to a ticket."""

    #: The leader sets a placeholder aside.
    HOLD = "hold"
    #: The leader keeps the free devices of a node, as the first ticket needs several.
    KEEP = "keep"
    #: A start of the user gets the placeholder, or another device of this choice.
    TAKE = "take"
    #: The time of the hold is over.
    TIME_OVER = "time-over"
    #: The placeholder is gone, or has no device that works.
    LOST = "lost"
    #: The user or an administrator ends the ticket.
    LEAVE = "leave"
    #: The hub publishes the choice no more.
    CHOICE_GONE = "choice-gone"
    #: The hub publishes the choice again.
    CHOICE_BACK = "choice-back"


@dataclass(frozen=True)  # a generic class with slots cannot be subscripted and called on Python 3.11
class Transition(Generic[StateT]):
    """The result of an event.

    Attributes
    ----------
    state
        The next state; None once the object is gone.
    action
        What the executor does; None if nothing.
    cause
        Why a reservation's transition deletes the placeholder; None if it stays.
    """

    state: StateT | None
    action: ActionKind | None = None
    cause: Cause | None = None


class IllegalEvent(Exception):
    """An event that a state has no transition for. The state is as before."""

    def __init__(self, state: StrEnum, event: StrEnum) -> None:
        super().__init__(f"{type(event).__name__} {event.value} is illegal in {type(state).__name__} {state.value}")
        self.state = state
        self.event = event


_P = PlaceholderState
_S = PlaceholderSeen
_R = ReservationState
_E = ReservationEvent
_T = TicketState
_Placeholder = Transition[PlaceholderState]
_Reservation = Transition[ReservationState]
_Ticket = Transition[TicketState]

_Transitions = Mapping[PlaceholderEvent, Transition[PlaceholderState]]

_DELETE: Final = _Placeholder(_P.TERMINATING, ActionKind.DELETE_PLACEHOLDER)
_ANY_TIME: Final[_Transitions] = dict.fromkeys((Cause.HANDED_OVER, Cause.PREEMPTED, Cause.BROKEN), _DELETE)
_NOT_FOR_A_USER: Final[_Transitions] = {
    **_ANY_TIME,
    Cause.QUOTA: _DELETE,
    Cause.SURPLUS: _DELETE,
    Cause.OUTDATED: _DELETE,
    Cause.EVICTED: _DELETE,
}
_ON_A_NODE: Final[_Transitions] = {
    **_NOT_FOR_A_USER,
    **dict.fromkeys((Cause.REBALANCE, Cause.DRAIN, Cause.EMPTYING), _DELETE),
}
_ENDED: Final[_Transitions] = {_S.ENDED: _Placeholder(_P.TERMINATING)}

PLACEHOLDER: Final[Mapping[PlaceholderState, _Transitions]] = {
    _P.PENDING: {
        _S.SCHEDULED: _Placeholder(_P.STARTING),
        _S.RESERVED: _Placeholder(_P.RESERVED),  # by another writer: the planner reserves warm ones only
        **_ENDED,
        **_NOT_FOR_A_USER,
    },
    _P.STARTING: {
        _S.STARTED: _Placeholder(_P.WARM),
        _S.RESERVED: _Placeholder(_P.RESERVED),
        **_ENDED,
        **_ON_A_NODE,
    },
    _P.WARM: {
        _S.STOPPED: _Placeholder(_P.STARTING),
        _S.RESERVED: _Placeholder(_P.RESERVED, ActionKind.RESERVE_PLACEHOLDER),
        **_ENDED,
        **_ON_A_NODE,
    },
    _P.RESERVED: {
        _S.RELEASED: _Placeholder(_P.WARM),
        **_ENDED,
        **_ANY_TIME,
        Cause.EXPIRED: _DELETE,
    },
    _P.TERMINATING: {
        _S.GONE: _Placeholder(None),
        Cause.BROKEN: _DELETE,  # an ended pod stays as an object
    },
}
"""The first state is `PlaceholderState.PENDING`."""

RESERVATION: Final[Mapping[ReservationState, Mapping[ReservationEvent, Transition[ReservationState]]]] = {
    _R.WRITING: {
        _E.WRITTEN: _Reservation(_R.OPEN),
        _E.LOST: _Reservation(_R.ENDED),
        _E.REFUSED: _Reservation(_R.ENDED),
    },
    _R.OPEN: {
        _E.POD_NAMES_CLAIMS: _Reservation(_R.TAKEN, ActionKind.ADD_CONSUMER),
        _E.POD_HAS_OTHER_CLAIMS: _Reservation(_R.UNUSED),
        _E.TIME_OVER: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.EXPIRED),
    },
    _R.TAKEN: {
        _E.POD_RUNS: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.HANDED_OVER),
        _E.POD_WAITS: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.HANDED_OVER),
        _E.NO_CAPACITY: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.HANDED_OVER),
    },
    _R.UNUSED: {
        _E.NOT_PREEMPTED: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.EXPIRED),
        _E.TIME_OVER: _Reservation(_R.ENDED, ActionKind.DELETE_PLACEHOLDER, Cause.EXPIRED),
    },
    _R.ENDED: {},
}
"""The first state is `ReservationState.WRITING`."""

_LEFT: Final = {TicketEvent.LEAVE: _Ticket(_T.LEFT)}
TICKET: Final[Mapping[TicketState, Mapping[TicketEvent, Transition[TicketState]]]] = {
    _T.WAITING: {
        TicketEvent.HOLD: _Ticket(_T.HELD, ActionKind.CHANGE_TICKET),
        TicketEvent.KEEP: _Ticket(_T.WAITING, ActionKind.CHANGE_TICKET),
        TicketEvent.TAKE: _Ticket(_T.TAKEN, ActionKind.CHANGE_TICKET),
        TicketEvent.CHOICE_GONE: _Ticket(_T.UNKNOWN_CHOICE, ActionKind.CHANGE_TICKET),
        **_LEFT,
    },
    _T.HELD: {
        TicketEvent.TAKE: _Ticket(_T.TAKEN, ActionKind.CHANGE_TICKET),
        TicketEvent.TIME_OVER: _Ticket(_T.EXPIRED, ActionKind.CHANGE_TICKET),
        TicketEvent.LOST: _Ticket(_T.WAITING, ActionKind.CHANGE_TICKET),
        TicketEvent.CHOICE_GONE: _Ticket(_T.UNKNOWN_CHOICE, ActionKind.CHANGE_TICKET),
        **_LEFT,
    },
    _T.UNKNOWN_CHOICE: {
        TicketEvent.CHOICE_BACK: _Ticket(_T.WAITING, ActionKind.CHANGE_TICKET),
        **_LEFT,
    },
    _T.TAKEN: {},
    _T.EXPIRED: {},
    _T.LEFT: {},
}
"""The first state is `TicketState.WAITING`."""


def after(
    table: Mapping[StateT, Mapping[EventT, Transition[StateT]]], state: StateT, event: EventT
) -> Transition[StateT]:
    """The transition of an event.

    Raises
    ------
    IllegalEvent
        When the table has no such transition.
    """
    found = table[state].get(event)
    if found is None:
        raise IllegalEvent(state, event)
    return found


def following(table: Mapping[StateT, Mapping[EventT, Transition[StateT]]], state: StateT, event: EventT) -> StateT:
    """The next state.

    Raises
    ------
    IllegalEvent
        As `after`, and when the event is the end of the object.
    """
    found = after(table, state, event).state
    if found is None:
        raise IllegalEvent(state, event)
    return found


def seen_state(*, is_scheduled: bool, is_started: bool, is_reserved: bool, is_ended: bool) -> PlaceholderState:
    """The state of a placeholder after these events.

    Parameters
    ----------
    is_started
        Only counts with `is_scheduled`.
    """
    return _SEEN_STATES[is_scheduled, is_started, is_reserved, is_ended]


def _apply(facts: tuple[bool, ...]) -> PlaceholderState:
    state = PlaceholderState.PENDING
    is_scheduled, is_started, is_reserved, is_ended = facts
    for event, is_seen in (
        (_S.SCHEDULED, is_scheduled),
        (_S.STARTED, is_scheduled and is_started),
        (_S.RESERVED, is_reserved),
        (_S.ENDED, is_ended),
    ):
        if is_seen:
            state = following(PLACEHOLDER, state, event)
    return state


_SEEN_STATES: Final = {facts: _apply(facts) for facts in product((False, True), repeat=4)}
"""All answers of `seen_state`: each round asks for each placeholder."""

"""A placeholder, its reservation, and a server that is about to start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import PLACEHOLDER, Cause, PlaceholderState
from dra_spawner.placeholders.planner.cluster.label_times import moment_of
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod

_FREE = (PlaceholderState.STARTING, PlaceholderState.WARM)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of a placeholder for a server.

    Attributes
    ----------
    pod
        Name of the user's pod.
    until
        Its end, if the pod does not come.
    since
        Its begin; None if not known.
    ticket
        Id of the ticket that the placeholder was held for; empty for none.
    """

    pod: str
    until: datetime
    since: datetime | None = None
    ticket: str = ""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder's pod and its warm claims.

    Attributes
    ----------
    ticket
        Id of the ticket that it is held for; empty for none.
    """

    pod: Pod
    shape: str
    state: PlaceholderState
    claims: tuple[ObjectKey, ...] = ()
    reservation: Reservation | None = None
    ticket: str = ""

    @property
    def reserved_by_ticket(self) -> str:
        """Id of the ticket by which a server's start has it; empty for none."""
        return self.reservation.ticket if self.reservation is not None else ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.pod)

    @property
    def node(self) -> str:
        return self.pod.node_name

    @property
    def is_pending(self) -> bool:
        return not self.pod.node_name

    def is_reserved_for(self, pod: Pod) -> bool:
        """Whether it is reserved for this pod and has no claims to hand over."""
        reserved_for = self.reservation.pod if self.reservation is not None else ""
        return bool(self.node) and not self.claims and (self.pod.namespace, reserved_for) == (pod.namespace, pod.name)

    @property
    def is_proven(self) -> bool:
        """Whether its container runs, which proves that its node can prepare its devices."""
        return is_proven(self.pod)

    def may_end(self, cause: Cause) -> bool:
        """Whether it may be deleted for a cause."""
        return cause in PLACEHOLDER[self.state]

    @property
    def is_free(self) -> bool:
        """Whether it has a node and no reservation."""
        return self.state in _FREE


@dataclass(frozen=True, slots=True)
class AwaitedServer:
    """A server for which a placement was asked, and whose pod is not there yet.

    Attributes
    ----------
    since
        When it was asked.
    has_claims
        Whether warm claims are reserved for it.
    """

    pod: ObjectKey
    shape: Shape
    since: datetime
    has_claims: bool = False


def is_proven(pod: Pod) -> bool:
    """Whether the container of a placeholder's pod runs with healthy devices."""
    return pod.is_running and not pod.has_unhealthy_device


def newest_first(placeholder: Placeholder) -> tuple[int, ...]:
    """Sorting key: the newest first."""
    return (*(-ord(each) for each in placeholder.pod.created), *map(ord, placeholder.pod.name))


def reservation_of(tracked: TrackedClaim | None) -> Reservation | None:
    """The reservation in a warm claim's labels; None if there is none or it is invalid."""
    if tracked is None:
        return None
    pod, until = tracked.labels.get(names.RESERVED_FOR, ""), tracked.labels.get(names.RESERVED_UNTIL, "")
    moment = moment_of(until)
    since = moment_of(tracked.labels.get(names.RESERVED_SINCE, ""))
    if not pod or moment is None:
        return None
    return Reservation(pod, moment, since, tracked.labels.get(names.TICKET, ""))

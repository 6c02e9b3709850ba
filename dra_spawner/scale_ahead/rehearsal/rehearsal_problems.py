"""Problems that keep expected users from starting, each with object and rule for administrators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemCode(StrEnum):
    """Kinds of problems."""

    NO_NODE_KIND = "no-node-kind"
    """No known kind of node can run a server."""
    DRAINED = "drained"
    """Servers fit on nodes or devices that are closed: drained, cordoned or tainted."""
    DEVICE_CLASS_MISSING = "device-class-missing"
    NO_DEVICE_SELECTED = "no-device-selected"
    """Selectors of class and request select no device of any node."""
    MAX_NODES = "max-nodes"
    """More nodes are needed than the maximum of the kind."""
    QUOTA = "quota"
    PLACEHOLDER_LIMIT = "placeholder-limit"
    NOBODY_ORDERS = "nobody-orders"
    """Nodes are needed, and nothing orders them before the users come."""
    NOBODY_ADDS = "nobody-adds"
    """It is too late for further nodes, and nothing is known to add any."""
    TOO_LATE = "too-late"
    IMAGE_MISSING = "image-missing"
    """No node has an image, so neither its existence nor the time of its pull is known."""
    NODES_LEAVE = "nodes-leave"
    """The autoscaler removes nodes before the users come: they are empty, or their placeholders fit elsewhere."""
    BESIDE = "beside"
    """Other users are announced for the same time."""
    NOT_KNOWN = "not-known"
    """A part of the answer is assumed or unknown."""


@dataclass(frozen=True, slots=True)
class RehearsalProblem:
    """A problem that keeps users from starting, or a note on an assumption.

    Attributes
    ----------
    message
        A sentence without a full stop, for administrators.
    plain
        Why the users cannot start, as a clause without words of Kubernetes and without the key of the choice, which
        teachers do not know; empty for a note.
    users
        Number of affected users.
    blocks
        Whether these users cannot start; False for a note.
    """

    code: ProblemCode
    message: str
    plain: str = ""
    users: int = 0
    blocks: bool = True

"""What stands in the way of expected users: each problem with its object and rule for administrators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ProblemCode", "RehearsalProblem"]


class ProblemCode(StrEnum):
    """Kinds of problems."""

    NO_NODE_KIND = "no-node-kind"
    """No known kind of node can run a server."""
    DEVICE_CLASS_MISSING = "device-class-missing"
    NO_DEVICE_SELECTED = "no-device-selected"
    """Selectors of class and request select no device of any node."""
    MOST_NODES = "most-nodes"
    """More nodes are needed than there may be."""
    QUOTA = "quota"
    PLACEHOLDER_LIMIT = "placeholder-limit"
    TOO_LATE = "too-late"
    IMAGE_MISSING = "image-missing"
    """No node has an image, so it is not known whether it exists, and how long it takes."""
    NOT_KNOWN = "not-known"
    """A part of the answer is assumed, or could not be found out."""


@dataclass(frozen=True, slots=True)
class RehearsalProblem:
    """One thing that stands in the way, or that the answer depends on.

    Attributes
    ----------
    message
        A sentence without a full stop, for administrators.
    plain
        Why the users cannot start, as a clause without Kubernetes' words; empty for a note.
    users
        How many users it concerns.
    blocks
        Whether they cannot start; else it is a note.
    """

    code: ProblemCode
    message: str
    plain: str = ""
    users: int = 0
    blocks: bool = True

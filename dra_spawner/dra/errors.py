"""Errors that stop an allocation on all nodes, not only on one."""

from __future__ import annotations

from enum import StrEnum


class FatalReason(StrEnum):
    """Why kube-scheduler would give up on the pod altogether: more nodes would not help."""

    NODE_SELECTOR = "NodeSelector"
    """The node selector of a slice or device cannot be parsed, or has several terms."""
    FEATURE_DISABLED = "FeatureDisabled"
    """The claim needs a feature that is off."""
    CLAIM = "Claim"
    """The claim itself makes no sense to the allocator."""
    CLASS_NOT_FOUND = "ClassNotFound"
    SELECTOR = "Selector"
    """A CEL selector does not compile, or failed on a device."""
    SELECTOR_UNSUPPORTED = "SelectorUnsupported"
    """A CEL selector uses what this program cannot evaluate: kube-scheduler's answer is not known."""
    POOL_INCOMPLETE = "PoolIncomplete"
    """All devices are wanted while a pool is being updated."""
    POOL_INVALID = "PoolInvalid"
    """All devices are wanted while a pool contradicts itself."""
    TOO_MANY_DEVICES = "TooManyDevices"
    """The claim needs more devices than one claim may have."""
    CONSTRAINT = "Constraint"
    """All devices are wanted, and a constraint forbids one of them."""
    SIZE = "Size"
    """A share of this size is negative, or cannot be counted in 64 bits."""
    DEVICE = "Device"
    """A device that had to be judged is published in a way the API server refuses."""
    ABORTED = "Aborted"
    """The caller stopped the search."""


class AllocationError(Exception):
    """Allocation is impossible on any node ("fatal" for kube-scheduler: the whole attempt ends, on all nodes).

    Attributes
    ----------
    reason
        What kind of error it is.
    """

    def __init__(self, reason: FatalReason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class PoolTrouble(Exception):
    """All devices are wanted on a node that sees an incomplete or invalid pool; other nodes may do."""

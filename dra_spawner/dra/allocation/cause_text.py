"""What keeps a server from its devices, in one table: the sentence for its user, and the detail for an administrator.

A user's text has no words of Kubernetes and no names of objects. `dra_spawner.simulator.refusal_text` has the rows of
causes beside devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_spawner.dra.allocation.requests import MAX_DEVICES_PER_CLAIM


class RefusalKind(StrEnum):
    """What kept a device from a request; the further down the list, the nearer the device came."""

    NO_DEVICES = "NoDevices"
    """The node has no devices at all, or none of a usable pool."""
    BINDING_CONDITIONS = "BindingConditions"
    """The device has binding conditions, and the feature is off."""
    SELECTOR = "Selector"
    """The selectors of class and request select other devices."""
    OTHER_NODE = "OtherNode"
    """The device is there for other nodes."""
    POOL_INCOMPLETE = "PoolIncomplete"
    """No device of another pool will do, and this pool is being updated by its driver."""
    POOL_INVALID = "PoolInvalid"
    """No device of another pool will do, and this pool contradicts itself."""
    UNKNOWN_CAPACITY = "UnknownCapacity"
    """The device has no such capacity."""
    CAPACITY_POLICY = "CapacityPolicy"
    """The device gives no share of this size."""
    TOO_SMALL = "TooSmall"
    """The device has less of a capacity than is needed, even when idle."""
    COUNTERS_DISABLED = "CountersDisabled"
    """The device consumes counters, and the feature is off."""
    TAINT_IN_USE = "TaintInUse"
    """The device has a taint that the request does not tolerate, and too little of it is free."""
    TAKEN_HERE = "TakenHere"
    """This request, or another one of the same pod, has the device already."""
    IN_USE = "InUse"
    """Another claim has the device."""
    CAPACITY = "Capacity"
    """Too little of a capacity is left."""
    COUNTERS = "Counters"
    """Too little of a shared counter is left."""
    TAINT = "Taint"
    """The device has a taint that the request does not tolerate."""
    CONSTRAINT = "Constraint"
    """The device does not go with the others of the claim."""
    LIMIT = "Limit"
    """The claim would get more devices than a claim may have."""

    @property
    def is_taint(self) -> bool:
        """Whether a taint closes the device, used by others or not."""
        return self in (RefusalKind.TAINT, RefusalKind.TAINT_IN_USE)


@dataclass(frozen=True, slots=True)
class CauseText:
    """Texts about one cause; amounts and names stand in braces, see `NoFitReason`.

    Attributes
    ----------
    now
        Why the server waits, for its user: a sentence.
    ends
        What ends the wait, for its user: a sentence; empty if waiting may not help.
    never
        Why it could not start if nothing were in use, for its user: a part of a sentence.
    detail
        For an administrator: a part of a sentence; empty if the scheduler's own words are the detail.
    """

    now: str
    never: str
    ends: str = ""
    detail: str = ""

    @property
    def waiting(self) -> str:
        """Why the server waits, and what ends the wait."""
        return f"{self.now} {self.ends}".strip()


ONE_IS_FREE: Final = "The server starts as soon as one is free."
ENOUGH_IS_FREE: Final = "The server starts as soon as enough is free."
MACHINE_IS_ADDED: Final = "It starts only when another machine is added that can."
_ALL_IN_USE: Final = "All devices of this kind are in use."
_TELL: Final = "Please tell your administrator."
_NO_SUCH_DEVICE: Final = "No machine has such a device now."
_NO_KIND: Final = "no machine has a device of the kind that it asks for"
_CLOSED: Final = "The devices that this choice asks for are closed to servers now."
_CLOSED_NEVER: Final = "the devices that it asks for are closed to servers"
_TAINT: Final = "taint {subject} not tolerated"
_SWITCHED_OFF: Final = f"The devices of this choice need a function that is switched off. {_TELL}"
_OFF: Final = "its devices need a function that is switched off"
_TOO_MANY: Final = "it asks for more devices than any machine has"
_TOO_MUCH: Final = "it asks for more than the devices of any machine have together"

#: Not in the order of `RefusalKind`, but with what says the same together.
DEVICE_CAUSES: Final[dict[RefusalKind, CauseText]] = {
    RefusalKind.NO_DEVICES: CauseText(_NO_SUCH_DEVICE, _NO_KIND, detail="no devices"),
    RefusalKind.SELECTOR: CauseText(_NO_SUCH_DEVICE, _NO_KIND, detail="no device selected by {subject}"),
    RefusalKind.OTHER_NODE: CauseText(_NO_SUCH_DEVICE, _NO_KIND, detail="devices are for other nodes"),
    RefusalKind.POOL_INCOMPLETE: CauseText(
        "A machine is reporting its devices anew.",
        _NO_KIND,
        "The server starts when that is done, if one is free.",
        "pool {subject} is being updated",
    ),
    RefusalKind.POOL_INVALID: CauseText(
        f"A machine reports its devices wrongly. {_TELL}", _NO_KIND, detail="pool {subject}"
    ),
    RefusalKind.BINDING_CONDITIONS: CauseText(
        _SWITCHED_OFF, _OFF, detail="devices with binding conditions are disabled"
    ),
    RefusalKind.COUNTERS_DISABLED: CauseText(_SWITCHED_OFF, _OFF, detail="devices with shared counters are disabled"),
    RefusalKind.UNKNOWN_CAPACITY: CauseText(
        f"No device can be shared in the way that this choice asks for. {_TELL}",
        "no device can be shared in the way that it asks for",
        detail="devices have no capacity {subject}",
    ),
    RefusalKind.CAPACITY_POLICY: CauseText(
        f"No device gives a share of {{needed}} of {{subject}}. {_TELL}",
        "no device gives a share of {needed} of {subject}",
        detail="{subject}: a share of {needed} is not offered",
    ),
    RefusalKind.TOO_SMALL: CauseText(
        "No device is large enough: this choice needs {needed} of {subject}, and the largest such "
        f"device has {{left}}. {_TELL}",
        "it asks for {needed} of {subject}, and the largest such device has {left}",
        detail="{subject}: {left} at most, {needed} needed",
    ),
    RefusalKind.IN_USE: CauseText(_ALL_IN_USE, _TOO_MANY, ONE_IS_FREE, "in use"),
    # The nearest only where no other server has any of these devices: they are free, and too few.
    RefusalKind.TAKEN_HERE: CauseText(
        "No machine has as many such devices as this choice asks for.",
        _TOO_MANY,
        MACHINE_IS_ADDED,
        "needed by another request of the same pod",
    ),
    RefusalKind.COUNTERS: CauseText(
        _ALL_IN_USE, _TOO_MUCH, ONE_IS_FREE, "counter {subject}: {left} left, {needed} needed"
    ),
    RefusalKind.CAPACITY: CauseText(
        "All devices are too full: {needed} of {subject} needed, {left} left on the one that has most.",
        _TOO_MUCH,
        ENOUGH_IS_FREE,
        "{subject}: {left} left, {needed} needed",
    ),
    RefusalKind.TAINT: CauseText(
        _CLOSED, _CLOSED_NEVER, "The server starts when one is open again, or when another one is free.", _TAINT
    ),
    RefusalKind.TAINT_IN_USE: CauseText(
        _CLOSED, _CLOSED_NEVER, "The server starts when one is open again and has enough free.", f"{_TAINT}, and in use"
    ),
    RefusalKind.CONSTRAINT: CauseText(
        "No machine has free devices that belong together in the way that this choice asks for.",
        "no machine has devices that belong together in the way that it asks for",
        "It starts when a machine has such devices free.",
        "constraint on {subject} not met",
    ),
    RefusalKind.LIMIT: CauseText(
        f"This choice asks for too many devices at once. {_TELL}",
        "it asks for too many devices at once",
        detail=f"more than {MAX_DEVICES_PER_CLAIM} devices in one claim",
    ),
}

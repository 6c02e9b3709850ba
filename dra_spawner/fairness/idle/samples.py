"""What one look sees of a server: its kernels and terminals, and the use of its devices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by two clocks.

    Attributes
    ----------
    wall
        Time of day, which may be set.
    steady
        Seconds of a monotonic clock.
    """

    wall: datetime
    steady: float


class KernelState(StrEnum):
    """What a kernel does, as far as that matters here."""

    BUSY = "busy"
    """Computing, or starting: Jupyter's states busy, starting, restarting and autorestarting."""
    IDLE = "idle"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """Any other word: it is never taken for idle."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a server.

    Attributes
    ----------
    last_activity
        Time of its last message, by the server's clock.
    """

    state: KernelState
    last_activity: datetime


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """What a server says about itself.

    Attributes
    ----------
    terminals
        Times of the last activity of each open terminal.
    connections
        Number of pages that are connected to a kernel.
    """

    kernels: tuple[Kernel, ...] = ()
    terminals: tuple[datetime, ...] = ()
    connections: int = 0

    @property
    def in_short(self) -> ServerActivity:
        """What decides: the last kernel of each state, and the last terminal, so few that any server has room."""
        last = {each.state: each for each in sorted(self.kernels, key=lambda each: each.last_activity)}
        return ServerActivity(tuple(last.values()), self.terminals and (max(self.terminals),), self.connections)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device of a server.

    Attributes
    ----------
    percent
        Use by the metric; None where the metric has no value.
    is_own
        Whether the value is of this server alone: of a whole device, or of its own share.
    used_above
        Value above which the device counts as used.
    """

    device: str
    percent: float | None
    is_own: bool = True
    used_above: float = 1.0

    @property
    def is_used(self) -> bool:
        """Whether this server uses it."""
        return self.percent is not None and self.percent > self.used_above and self.is_own

    @property
    def is_unused(self) -> bool:
        """Whether this server does not use it. A whole device that no share uses is not used by one of them."""
        return self.percent is not None and self.percent <= self.used_above


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a server.

    Attributes
    ----------
    activity
        None where the server has not answered.
    problem
        Why it has not, as the end of a sentence.
    devices
        Devices for which a query is configured.
    """

    activity: ServerActivity | None
    problem: str = ""
    devices: tuple[DeviceUse, ...] = ()

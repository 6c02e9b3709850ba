"""What a step of the search takes, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dra_spawner.dra.allocation.requests import PreparedAlternative
from dra_spawner.dra.model.consumable_capacity import Share
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.pools import Candidate


class StepOutcome(Enum):
    """How a step of the search and all that follow it ended."""

    FOUND = auto()
    NOT_FOUND = auto()
    OVER_LIMIT = auto()
    """Every way on needs more devices than a claim may have: trying other devices is pointless, other alternatives
    may do."""


@dataclass(slots=True)
class TakenDevice:
    """What taking one device has changed, so that it can be undone."""

    alternative: PreparedAlternative
    candidate: Candidate
    counters_reserved: bool
    constraints_added: int = 0
    is_marked: bool = False
    share: Share | None = None
    had_shares: bool = False
    is_recorded: bool = False

    def add_share(self, share: Share, consumed: dict[DeviceId, dict[str, int]]) -> None:
        """Count what the share consumes. The entry, even an empty one, also says that the counters are paid."""
        device = self.candidate.device.id
        self.share = share
        self.had_shares = device in consumed
        of_device = consumed.setdefault(device, {})
        for name, amount, _ in share.checks:
            of_device[name] = of_device.get(name, 0) + amount

    def remove_share(self, consumed: dict[DeviceId, dict[str, int]]) -> None:
        """Undo `add_share`, if there is a share."""
        if self.share is None:
            return
        device = self.candidate.device.id
        if not self.had_shares:
            del consumed[device]
            return
        for name, amount, _ in self.share.checks:
            consumed[device][name] -= amount

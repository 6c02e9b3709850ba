"""What counts for one limit, of this hub and of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.amounts.limit_usage import Usage
from dra_spawner.placeholders.planner.targets.limits import Limit, counted

__all__ = ["OWN", "LimitTotal"]

#: This service's hub.
OWN: Final = ""
#: Names of the bounds that are not about capacities.
_PLACEHOLDERS: Final = "*"
_DEVICES: Final = ""
_MOST_HUBS_NAMED: Final = 5


class _HubUsage:
    """The sum of what one hub's placeholders count."""

    def __init__(self) -> None:
        self.placeholders = 0
        self.asked = 0
        self.held: Counter[DeviceId] = Counter()
        self.capacity: Counter[str] = Counter()

    def add(self, usage: Usage, sign: int) -> None:
        self.placeholders += sign
        self.asked += sign * usage.asked
        for device in usage.held:
            self.held[device] += sign
        self.held += Counter()  # without zeros
        for name, amount in usage.capacity.items():
            self.capacity[name] += sign * amount

    def amount(self, bound: str) -> int:
        """What counts for a bound; of capacities in nano-units."""
        if bound == _PLACEHOLDERS:
            return self.placeholders
        return len(self.held) + self.asked if bound == _DEVICES else self.capacity[bound]


class LimitTotal:
    """See the module.

    Attributes
    ----------
    limit
        The limit for which it counts.
    """

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._all = _HubUsage()
        self._hubs: dict[str, _HubUsage] = {}

    def add(self, usage: Usage, hub: str = OWN) -> None:
        """Count a placeholder."""
        self._all.add(usage, 1)
        self._hubs.setdefault(hub, _HubUsage()).add(usage, 1)

    def remove(self, usage: Usage, hub: str = OWN) -> None:
        """Count a placeholder no longer."""
        self._all.add(usage, -1)
        self._hubs[hub].add(usage, -1)

    def counts(self, usage: Usage) -> bool:
        """Whether a placeholder counts for any bound."""
        return any(_adds(usage, bound) for bound in self._bounds())

    def is_exceeded(self) -> bool:
        """Whether more counts than is allowed."""
        return bool(self._exceeded(Usage(), 0))

    def exhausted_bound(self, usage: Usage) -> str | None:
        """A bound that one more placeholder would exceed; None if it fits.

        A placeholder that counts nothing always fits.
        """
        return next((bound for bound in self._exceeded(usage, 1) if _adds(usage, bound)), None)

    def bound_helped_by(self, usage: Usage) -> str | None:
        """An exceeded bound for which a placeholder counts; None if there is none."""
        return next((bound for bound in self._exceeded(Usage(), 0) if _adds(usage, bound)), None)

    def hubs_before(self, own: str) -> int:
        """How many other hubs have less than this one, or as much and an earlier name.

        Parameters
        ----------
        own
            Name of this hub.
        """
        bound = next(iter(self._bounds()))
        mine = self._hubs[OWN].amount(bound) if OWN in self._hubs else 0
        others = ((each.amount(bound), hub) for hub, each in self._hubs.items() if hub != OWN and each.placeholders)
        return sum(each < (mine, own) for each in others)

    def because(self, bound: str) -> str:
        """What denies a placeholder for a bound, after "allowed": the limit, and what other hubs have of it."""
        others = {hub: amount for hub, each in self._hubs.items() if hub != OWN and (amount := each.amount(bound)) > 0}
        if not others:
            return f"by the {self.limit}"
        most_first = sorted(others.items(), key=lambda each: (-each[1], each[0]))
        named = [f"{hub}: {self._text(bound, amount)}" for hub, amount in most_first[:_MOST_HUBS_NAMED]]
        rest = len(others) - len(named)
        further = f" and {counted(rest, 'further hub')}" if rest else ""
        return f"by the {self.limit}; other hubs have {self._noun(bound)} ({', '.join(named)}{further})"

    def _noun(self, bound: str) -> str:
        if bound == _PLACEHOLDERS:
            return "placeholders"
        return "devices" if bound == _DEVICES else bound

    def _text(self, bound: str, amount: int) -> str:
        most = self.limit.capacity.get(bound)
        return str(amount) if most is None else str(Quantity(amount, most.format))

    def _bounds(self) -> Mapping[str, int]:
        """What is allowed, by bound."""
        limit = self.limit
        found = {_PLACEHOLDERS: limit.placeholders} if limit.placeholders is not None else {}
        if limit.devices is not None:
            found[_DEVICES] = limit.devices
        return found | {name: most.nano for name, most in limit.capacity.items()}

    def _exceeded(self, usage: Usage, more: int) -> list[str]:
        """Bounds that are exceeded, with `more` placeholders that count `usage`."""
        total = self._all
        further = {
            _PLACEHOLDERS: more,
            _DEVICES: sum(each not in total.held for each in usage.held) + usage.asked,
            **usage.capacity,
        }
        return [bound for bound, most in self._bounds().items() if total.amount(bound) + further.get(bound, 0) > most]


def _adds(usage: Usage, bound: str) -> bool:
    if bound == _PLACEHOLDERS:
        return True
    return bool(usage.held or usage.asked) if bound == _DEVICES else usage.capacity.get(bound, 0) > 0

"""The same number at all times, where following demand is worth less.

Few launches tell too little of the next one, steady ones do not change, and batches at random give no notice. There the
number that would have served the past weeks is the better one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any, Final

#: Hours of which the largest need is remembered (four weeks), and hours that must be known (three days).
_REMEMBERED: Final = 672
_KNOWN: Final = 72
#: Part of the active hours of a day, and hours, with a need of this size: what happens at few times, such as an exam or
#: a class on each weekday, is no habit.
_HABIT: Final = (0.25, 4)
#: A placeholder is worth as many waits more than they cost: the hit rate is wanted of small hubs, too.
_GENEROSITY: Final = 5.0
#: Part of all launches that is few in some hours, and hours before and after that count as the same.
_FEW: Final = 0.001
_NEAR_HOURS: Final = 2
#: Part by which following demand must be cheaper before it replaces the number in use.
_HYSTERESIS: Final = 0.1
#: Standard deviations by which the misses of the number in use may exceed the allowed ones.
_CHANCE: Final = 1.0
#: Times the allowed misses at which following demand fails, so that its idle placeholders are no merit.
_TOO_MANY: Final = 3.0
#: Part, and number, by which launches exceed it when something has changed.
_BEYOND: Final = (0.5, 1)


class SteadyNumber:
    """What launches needed, and what following demand has cost; the older ones fade."""

    def __init__(self) -> None:
        self._needs: dict[int, float] = {}
        """Launches by the number of placeholders that they needed, without those of users who were known to come."""
        self._hours = [0.0] * 24
        """The same launches by their hour of the day."""
        self._launches = 0.0
        self._minutes = 0.0
        self._following = 0.0
        """Placeholder-minutes of following demand."""
        self._missed = 0.0
        """Launches that following demand would not have served."""
        self._peaks: deque[int] = deque(maxlen=_REMEMBERED)
        """Largest need of each hour, the present one last."""
        self._hour = -1
        self._exceeded = -1
        """Last minute at which a launch needed more than the number."""
        self._number: int | None = None
        """The number that is better than following demand."""
        self._active = frozenset(range(24))
        """Hours of the day in which users come."""

    def number(self, minute: int, lead: int) -> int | None:
        """The number to use; None where following demand is better.

        It follows demand for a lead time after launches that needed more, and at hours at which launches never come.
        """
        if minute <= self._exceeded + lead or minute // 60 % 24 not in self._active:
            return None
        return self._number

    def add(self, needs: Sequence[int], assured: int, following: int, minute: int) -> None:
        """Learn from one minute.

        Parameters
        ----------
        needs
            Placeholders that each launch has needed, in rising order.
        assured
            Placeholders for users who were known to come.
        following
            Placeholders that following demand had wanted.
        """
        if minute // 60 != self._hour:
            self._hour = minute // 60
            self._peaks.append(0)
        self._minutes += 1.0
        self._following += following
        if not needs:
            return
        self._launches += len(needs)
        for need in needs:
            if need > assured:
                self._needs[need] = self._needs.get(need, 0.0) + 1.0
                self._hours[minute // 60 % 24] += 1.0
                self._missed += need > following
        if needs[-1] > assured:
            self._peaks[-1] = max(self._peaks[-1], needs[-1])
            if self._number is not None and needs[-1] > self._number * (1 + _BEYOND[0]) + _BEYOND[1]:
                self._exceeded = minute

    def renew(self, fading: float, allowed: float, wait: float) -> None:
        """Decide anew, once a day, and let the past fade by a factor.

        Parameters
        ----------
        allowed
            Share of launches that may be missed.
        wait
            Minutes of an idle placeholder that the wait of one user is worth.
        """
        self._number = self._decided(allowed * self._launches, wait * _GENEROSITY)
        self._needs = {need: count * fading for need, count in self._needs.items() if count * fading > 0.01}
        self._hours = [count * fading for count in self._hours]
        for name in ("_launches", "_minutes", "_following", "_missed"):
            setattr(self, name, getattr(self, name) * fading)

    def _decided(self, allowed: float, wait: float) -> int | None:
        if len(self._peaks) < _KNOWN or not self._launches:
            return None
        self._active = self._active_hours()
        minutes = self._minutes * len(self._active) / 24
        number, missed = self._best(allowed, wait, minutes)
        bar = 1.0 + _HYSTERESIS if self._number is not None else 1.0
        if self._missed <= _TOO_MANY * allowed:
            return number if self._equal(self._missed) * minutes < bar * self._following else None
        return number if number * minutes - wait * (self._missed - missed) < bar * self._following else None

    def _active_hours(self) -> frozenset[int]:
        hours, few = self._hours, _FEW * sum(self._hours)
        near = range(-_NEAR_HOURS, _NEAR_HOURS + 1)
        return frozenset(at for at in range(24) if sum(hours[(at + other) % 24] for other in near) > few)

    def _best(self, allowed: float, wait: float, minutes: float) -> tuple[int, float]:
        """The number that keeps the hit rate, less what is not worth it, and the launches that it misses.

        Parameters
        ----------
        allowed
            Launches that may be missed.
        wait
            Minutes of a placeholder that one wait is worth.
        minutes
            Minutes of each placeholder.
        """
        by_hour = [0] * 24
        for index, peak in enumerate(reversed(self._peaks)):
            by_hour[index % 24] = max(by_hour[index % 24], peak)
        habit = max(sorted(by_hour)[-max(ceil(_HABIT[0] * len(self._active)), _HABIT[1])], 1)
        missed = sum(self._needs.values())
        found, loss = (0, missed), missed * wait
        chance = _CHANCE * sqrt(allowed)
        for number in range(1, habit + 1):
            # The number in use stays while its misses may be chance.
            if missed <= allowed + (chance if number - 1 == self._number else 0.0):
                break
            missed -= self._needs.get(number, 0.0)
            if (other := number * minutes + missed * wait) <= loss:
                found, loss = (number, missed), other
        return found

    def _equal(self, misses: float) -> float:
        """The number that misses as many launches as these, as a mixture of two whole ones."""
        missed, number = sum(self._needs.values()), 0
        while missed > misses + 1e-6:
            number += 1
            served = self._needs.get(number, 0.0)
            if missed - served <= misses:
                return number - 1 + (missed - misses) / served
            missed -= served
        return number

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return {
            "needs": [[need, count] for need, count in self._needs.items()],
            "hours": self._hours,
            "sums": [self._launches, self._minutes, self._following, self._missed],
            "peaks": [*self._peaks],
            "hour": self._hour,
            "exceeded": self._exceeded,
            "number": self._number,
            "active": sorted(self._active),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what was learned."""
        self._needs = {int(need): float(count) for need, count, *_ in state["needs"]}
        self._hours = [float(state["hours"][hour]) for hour in range(24)]
        self._launches, self._minutes, self._following, self._missed = map(float, state["sums"][:4])
        self._peaks = deque(map(int, state["peaks"]), maxlen=_REMEMBERED)
        self._hour = int(state["hour"])
        self._exceeded = int(state["exceeded"])
        self._number = int(state["number"]) if state["number"] is not None else None
        self._active = frozenset(map(int, state["active"]))

"""What the API server refused, so that it is not asked the same again at once, and an administrator sees why."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from dra_spawner.kube.errors import KubernetesError
from dra_spawner.kube.rights import missing_right
from dra_spawner.placeholders.planner.actions import Action

__all__ = ["Refusals"]


@dataclass(frozen=True, slots=True)
class _Refusal:
    until: float
    delay: float
    problem: str


class Refusals:
    """Remembers refusals while what was refused is still wanted.

    Parameters
    ----------
    first, longest
        Seconds until the next try, which double each time.
    clock
        Seconds that only go forward.
    """

    def __init__(self, first: float, longest: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._longest = longest
        self._clock = clock
        self._index: dict[Hashable, _Refusal] = {}

    def without(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions that may be tried now; what is no longer among them is forgotten."""
        by_key = [(_key(each), each) for each in actions]
        wanted = {key for key, _ in by_key}
        self._index = {key: each for key, each in self._index.items() if key in wanted}
        now = self._clock()
        return tuple(each for key, each in by_key if key not in self._index or now >= self._index[key].until)

    def note(self, action: Action, error: Exception) -> str:
        """Remember why an action failed; what to tell of it, empty if it may work at any time.

        What is no answer of the API server is a mistake in here, which is not made time and again, either.
        """
        if isinstance(error, KubernetesError):
            if error.retryable or error.conflict:
                return ""
            problem = missing_right(error) or str(error)
        else:
            problem = f"it cannot be done: {type(error).__name__}: {error}"
        key, now = _key(action), self._clock()
        before = self._index.get(key)
        if before is not None and now < before.until:
            return before.problem  # others of the same kind in the same round
        delay = min(2 * before.delay, self._longest) if before is not None else self._first
        self._index[key] = _Refusal(now + delay, delay, problem)
        return problem

    def is_known(self, action: Action) -> bool:
        """Whether it was refused last time."""
        return _key(action) in self._index

    def forget(self, action: Action) -> None:
        """It worked."""
        self._index.pop(_key(action), None)

    def problems(self) -> tuple[str, ...]:
        """Everything that was refused and is still wanted, each once."""
        return tuple(dict.fromkeys(each.problem for each in self._index.values()))


def _key(action: Action) -> Hashable:
    """What an action is about, whatever its reason."""
    return action.kind, action.subject

"""When an action that failed is tried again, and what an administrator reads about it.

An action that the API server refuses is tried again after a delay that doubles. When several requests in a row fail
because of the API server itself, nothing is decided for a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from dra_spawner.kube.api_errors import KubernetesError
from dra_spawner.kube.rights import missing_right
from dra_spawner.placeholders.planner.actions import Action, ReservePlaceholder

__all__ = ["Backoff"]

#: Failures in a row after which the API counts as failing.
_MOST_FAILURES: Final = 3


@dataclass(frozen=True, slots=True)
class _Refusal:
    until: float
    delay: float
    problem: str


class Backoff:
    """See the module.

    Parameters
    ----------
    first, longest
        Seconds until a refused action is tried again; the delay doubles each time.
    pause
        Seconds after the last failure of the API server, after which it is tried again.
    clock
        Seconds that only go forward; the event loop's by default.
    """

    def __init__(
        self,
        first: float,
        longest: float,
        pause: float,
        *,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._first = first
        self._longest = longest
        self._pause = pause
        self._clock = clock
        #: Of actions that each round decides anew.
        self._refusals: dict[Hashable, _Refusal] = {}
        #: Of reservations, which are decided once for each question.
        self._reservations: dict[Hashable, _Refusal] = {}
        self._failures = 0
        self._failed_at = 0.0
        self._last_failure = ""

    def allowed(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions of a round that may be tried now; what is no longer among them is forgotten."""
        by_key = [(_key(each), each) for each in actions]
        wanted = {key for key, _ in by_key}
        self._refusals = {key: each for key, each in self._refusals.items() if key in wanted}
        now = self._clock()
        return tuple(each for key, each in by_key if key not in self._refusals or now >= self._refusals[key].until)

    def problem_of(self, action: Action) -> str:
        """Why an action must not be tried now; empty if it may."""
        refusal = self._of(action).get(_key(action))
        return refusal.problem if refusal is not None and self._clock() < refusal.until else ""

    def failed(self, action: Action, error: Exception) -> str:
        """Note why an action failed.

        Returns
        -------
        str
            What to say of it; empty if it may work at any time. What is no answer of the API server is a mistake in
            here, which is not repeated at once either.
        """
        if isinstance(error, KubernetesError):
            self._note_failure(error)
            if error.retryable or error.conflict:
                return ""
            problem = missing_right(error) or str(error)
        else:
            problem = f"it cannot be done: {type(error).__name__}: {error}"
        refusals, key, now = self._of(action), _key(action), self._clock()
        before = refusals.get(key)
        if before is not None and now < before.until:
            return before.problem  # others of the same kind in the same round
        delay = min(2 * before.delay, self._longest) if before is not None else self._first
        refusals[key] = _Refusal(now + delay, delay, problem)
        return problem

    def worked(self, action: Action) -> None:
        """Forget what was refused before."""
        self._failures = 0
        self._of(action).pop(_key(action), None)

    def is_refused(self, action: Action) -> bool:
        """Whether the action was refused last time."""
        return _key(action) in self._of(action)

    @property
    def api_problem(self) -> str:
        """Why nothing is asked of the API server for now; empty if it may be."""
        if self._failures < _MOST_FAILURES or self._clock() - self._failed_at >= self._pause:
            return ""
        return f"the API server fails: {self._last_failure}"

    def problems(self) -> tuple[str, ...]:
        """All that rounds want and the API server refuses, each once."""
        return tuple(dict.fromkeys(each.problem for each in self._refusals.values()))

    def _note_failure(self, error: KubernetesError) -> None:
        if not error.retryable:
            self._failures = 0  # it has answered
            return
        self._failures += 1
        self._failed_at = self._clock()
        self._last_failure = str(error)

    def _of(self, action: Action) -> dict[Hashable, _Refusal]:
        if not isinstance(action, ReservePlaceholder):
            return self._refusals
        now = self._clock()
        for key in [key for key, each in self._reservations.items() if now >= each.until + each.delay]:
            del self._reservations[key]
        return self._reservations


def _key(action: Action) -> Hashable:
    """What an action is about, whatever its reason."""
    return action.kind, action.subject

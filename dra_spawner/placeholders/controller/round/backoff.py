"""When an action that failed is tried again, and what an administrator reads about it.

An action that the API server refuses is tried again after a delay that doubles. When several requests in a row fail
because of the API server itself, nothing is decided for a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from dra_spawner.kube.client.api_errors import KubernetesError
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.placeholders.planner.actions import Action, ChangeTicket, LabelNode, ReservePlaceholder

#: Failures in a row after which the API counts as failing.
_MAX_FAILURES: Final = 3


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
        Monotonic seconds; the event loop's by default.
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
        #: Refusals of actions of rounds.
        self._refusals: dict[Hashable, _Refusal] = {}
        #: Refusals of reservations, which no round repeats.
        self._reservations: dict[Hashable, _Refusal] = {}
        self._failures = 0
        self._failed_at = 0.0
        self._last_failure = ""

    def allowed(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions of a round that may be tried now; refusals of absent actions are forgotten."""
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
            The problem; empty if the next try may work. An error of another kind is a defect, and delayed too.
        """
        if isinstance(error, KubernetesError):
            if not isinstance(action, ChangeTicket):  # all are one object, whose failure says nothing of the others
                self._note_failure(error)
            if error.retryable or error.conflict:
                return ""
            problem = missing_right(error) or str(error)
        else:
            problem = f"an unforeseen error: {type(error).__name__}: {error}"
        refusals, key, now = self._of(action), _key(action), self._clock()
        before = refusals.get(key)
        if before is not None and now < before.until:
            return before.problem  # a further one of this kind in the same round
        delay = min(2 * before.delay, self._longest) if before is not None else self._first
        refusals[key] = _Refusal(now + delay, delay, problem)
        return problem

    def worked(self, action: Action) -> None:
        """Forget what was refused before."""
        if not isinstance(action, ChangeTicket):
            self._failures = 0
        self._of(action).pop(_key(action), None)

    def is_refused(self, action: Action) -> bool:
        """Whether the action was refused last time."""
        return _key(action) in self._of(action)

    @property
    def api_problem(self) -> str:
        """Why no request is sent to the API server for now; empty if requests may be sent."""
        if self._failures < _MAX_FAILURES or self._clock() - self._failed_at >= self._pause:
            return ""
        return f"the API server fails: {self._last_failure}"

    def problems(self) -> tuple[str, ...]:
        """The refusals of actions of rounds, each once."""
        return tuple(dict.fromkeys(each.problem for each in self._refusals.values()))

    def _note_failure(self, error: KubernetesError) -> None:
        if not error.retryable:
            self._failures = 0  # an answer ends the row of failures
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
    """Identity of an action, without its reason."""
    return action.kind, action.subject, action.label if isinstance(action, LabelNode) else ""

"""Detects when nothing happens in a cluster any more, so that its clock may jump."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.controller.round.reconciler import Reconciler
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.pods import Pod
from tests.polling import eventually
from tests.simulator.preempting import place_by_preemption

_POLL_SECONDS = 0.01
_LONGEST_ROUND_SECONDS = 60.0


@dataclass
class Quiet:
    """Detects when a cluster is at rest.

    Attributes
    ----------
    watch
        The watch that shows all changes.
    is_busy
        Whether an actor on the cluster still has something to do.
    still
        Seconds without a change that count as rest.
    patience
        Seconds to wait for the scheduler to place a pod that fits: its back-off is 10 s at most.
    waiting
        The pods to judge; one of many equal pods is enough.
    """

    watch: ClusterWatch
    is_busy: Callable[[], bool] = lambda: False
    still: float = 0.25
    patience: float = 15.0
    monotonic: Callable[[], float] = time.monotonic
    waiting: Callable[[], list[Pod]] | None = None
    overdue: list[str] = field(default_factory=list)
    """Pods that the scheduler did not place in time although they fit."""
    _last: float = 0.0
    _judged: tuple[int, tuple[Pod, ...]] = (-1, ())

    def __post_init__(self) -> None:
        self.stir()
        self.watch.on_change(self._note)

    def _note(self, change: Change) -> None:
        self._last = self.monotonic()

    def stir(self) -> None:
        """Note a change that the watch is going to show."""
        self._last = self.monotonic()

    async def wait(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait for rest, or for another condition, whichever comes first.

        Returns
        -------
        bool
            Whether it is at rest.
        """
        while not until():
            if self.monotonic() - self._last >= self.still and not self._is_expecting():
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False

    def _is_expecting(self) -> bool:
        """Whether a change is still to come: by an actor, or by a pod in the scheduler's back-off."""
        fitting = [pod.name for pod in self._placed_soon() if pod.name not in self.overdue]
        if self.monotonic() - self._last <= self.patience:
            return bool(fitting) or self.is_busy()
        self.overdue += fitting
        return False

    def _placed_soon(self) -> tuple[Pod, ...]:
        """Pods that are pending although they fit."""
        version, found = self._judged
        if version != self.watch.version:
            pods = self.waiting() if self.waiting is not None else waiting(self.watch)
            found = tuple(pod for pod in pods if self._is_placed_soon(pod))
            self._judged = (self.watch.version, found)
        return found

    def _is_placed_soon(self, pod: Pod) -> bool:
        with self.watch.snapshot.trial():
            return isinstance(place_by_preemption(self.watch.snapshot, pod), tuple)


def waiting(watch: ClusterWatch) -> list[Pod]:
    """Pods that the scheduler has to place."""
    return [
        pod
        for pod in watch.snapshot.pods.values()
        if not (pod.node_name or pod.is_finished or pod.is_gated or pod.is_deleted)
    ]


class Rounds:
    """Progress of a reconciler: it gets the policy once a round."""

    def __init__(self, reconciler: Reconciler) -> None:
        self.count = 0
        self._reconciler = reconciler
        self._policy = reconciler.policy
        reconciler.policy = self._next

    def _next(self) -> Policy:
        self.count += 1
        return self._policy()

    def has_work(self) -> bool:
        """Whether its last round decided actions, so that another round is to come."""
        latest = self._reconciler.latest
        return latest is None or bool(latest.actions)

    async def another(self) -> None:
        """Wait until the reconciler has decided again, as of now."""
        seen = self.count
        self._reconciler.wake()
        await eventually(
            lambda: self.count != seen, "another round", _LONGEST_ROUND_SECONDS, pause_seconds=_POLL_SECONDS / 4
        )

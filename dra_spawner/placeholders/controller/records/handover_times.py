"""How long handovers take: from a reservation to the server's pod on its node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

__all__ = ["HandoverTimes"]

_LONGEST: Final = 600.0


class HandoverTimes:
    """Watches for the pods of reservations.

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, watch: ClusterWatch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._begun: dict[ObjectKey, float] = {}
        self._callbacks: list[Callable[[float], None]] = []
        watch.on_change(self._note)

    def on_bound(self, callback: Callable[[float], None]) -> None:
        """Register a callback for the seconds of each handover."""
        self._callbacks.append(callback)

    def begin(self, namespace: str, pod: str) -> None:
        """Note a reservation for a pod that does not exist yet."""
        now = self._clock()
        # Forget pods that never came.
        self._begun = {key: since for key, since in self._begun.items() if now - since < _LONGEST}
        self._begun[ObjectKey(namespace, pod)] = now

    def _note(self, change: Change) -> None:
        if change.kind is not Kind.POD or change.key not in self._begun:
            return
        pod = self._watch.snapshot.pods.get(change.key)
        if pod is not None and pod.node_name:
            seconds = self._clock() - self._begun.pop(change.key)
            for callback in self._callbacks:
                callback(seconds)

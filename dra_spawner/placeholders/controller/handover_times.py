"""How long handovers take: from a reservation to the server's pod on its node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["HandoverTimes"]

_LONGEST: Final = 600.0


class HandoverTimes:
    """Watches for the pods that claims were reserved for.

    Parameters
    ----------
    clock
        Seconds that only go forward.
    """

    def __init__(self, watch: ClusterWatch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._begun: dict[ObjectKey, float] = {}
        self._callbacks: list[Callable[[float], None]] = []
        watch.on_change(self._note)

    def on_bound(self, callback: Callable[[float], None]) -> None:
        """Be told of each handover's seconds."""
        self._callbacks.append(callback)

    def begin(self, namespace: str, pod: str) -> None:
        """A claim was reserved for a pod that is yet to come."""
        now = self._clock()
        # Those that never came are not waited for.
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

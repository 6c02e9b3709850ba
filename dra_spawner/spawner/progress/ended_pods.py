"""KubeSpawner's reflector of pods, which also keeps the last state of pods that are gone.

KubeSpawner looks at a server's pod every half a minute. A pod that Kubernetes evicts is gone by then, and with it the
condition that says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from kubespawner.spawner import PodReflector

from dra_spawner.common.json_types import JsonObject
from dra_spawner.spawner.progress.patient_reflectors import PatientReflector

#: Pods that are kept, the oldest is forgotten first; a hub looks at each within a minute.
_MAX_KEPT: Final = 1_000
_MISSING: Final = object()
#: Seconds after the longest watch until the next list must have been answered; service and pages have the same limit.
_ANSWER_SECONDS: Final = 5.0


class _Pods(dict[str, JsonObject]):
    """The present pods; one that is removed goes to the ended ones."""

    def __init__(
        self, pods: Mapping[str, JsonObject], ended: dict[str, JsonObject], forced: dict[str, JsonObject]
    ) -> None:
        super().__init__(pods)
        self.ended = ended
        self.forced = forced

    def __setitem__(self, key: str, pod: JsonObject) -> None:
        """Take a pod's new state. A grace of 0 is the end of each deletion, and the begin of one by force."""
        before, metadata = self.get(key), pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and not _is_stopped(before):
            _keep(self.forced, key, pod)
        super().__setitem__(key, pod)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a pod, as KubeSpawner does when the watch reports its deletion."""
        found = super().pop(key) if default is _MISSING else super().pop(key, default)
        if found is not default:
            _keep(self.ended, key, found)
        return found


def _is_stopped(pod: JsonObject | None) -> bool:
    return pod is not None and bool(pod["metadata"].get("deletionTimestamp"))


def _keep(ended: dict[str, JsonObject], key: str, pod: JsonObject) -> None:
    ended.pop(key, None)
    while len(ended) >= _MAX_KEPT:
        del ended[next(iter(ended))]
    ended[key] = pod


class EndedPodsReflector(PatientReflector, PodReflector):
    """See the module.

    Attributes
    ----------
    ended
        Last seen state of pods that are gone, by namespace and name.
    forced
        Pods that were deleted by force.
    """

    resources: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ended: dict[str, JsonObject] = {}
        self.forced: dict[str, JsonObject] = {}
        self._listed_at = math.inf
        super().__init__(*args, **kwargs)

    async def _list_and_update(self, *args: Any, **kwargs: Any) -> Any:
        """List the pods, as KubeSpawner does from time to time; the list may lack pods whose end the watch missed."""
        before = self.resources
        version = await super()._list_and_update(*args, **kwargs)
        for key, pod in before.items():
            if key not in self.resources:
                _keep(self.ended, key, pod)
        self.resources = _Pods(self.resources, self.ended, self.forced)
        self._listed_at = monotonic()
        return version

    def is_silent(self) -> bool:
        """Whether the API server does not answer: KubeSpawner lists the pods after each watch, which has an end."""
        longest = self.timeout_seconds or math.inf
        return monotonic() - self._listed_at > longest + _ANSWER_SECONDS

    def is_stopped(self, key: str, pod: JsonObject) -> bool:
        """Whether the deletion of a pod was seen to begin, with time to end."""
        forced = self.forced.get(key)
        return _is_stopped(pod) and (forced is None or forced["metadata"].get("uid") != pod["metadata"].get("uid"))

"""Parts of zero-to-jupyterhub that do the same as this service. The service reports them and does not change them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.names import MANAGED_BY, MANAGER, PLACEHOLDER
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

log = logging.getLogger(__name__)

_COMPONENT: Final = "component"
_SCHEDULER: Final = "user-scheduler"

_SENTENCES: Final = {
    PLACEHOLDER: "The chart's own placeholders run here, too ({names}): they ignore devices and duplicate this "
    "service's. Set scheduling.userPlaceholder.enabled: false in the Helm values.",
    _SCHEDULER: "The chart's own scheduler runs here, too ({names}): up to chart 4.4 it cannot place pods with "
    "devices, and it counts placeholders for users. Set scheduling.userScheduler.enabled: false in the Helm values.",
}


@dataclass
class ChartParts:
    """Finds pods of these parts.

    Attributes
    ----------
    namespaces
        Namespaces of the hub and of the servers.
    with_placeholders
        Whether to report the chart's placeholders. They are useful where this service has no placeholders.
    """

    watch: ClusterWatch
    namespaces: Collection[str]
    with_placeholders: bool = True
    _found: dict[str, set[ObjectKey]] = field(init=False)
    _logged: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        parts = (PLACEHOLDER, _SCHEDULER) if self.with_placeholders else (_SCHEDULER,)
        self._found = {part: set() for part in parts}
        for key in self.watch.snapshot.pods:
            self._check(key)
        self.watch.on_change(self._note)

    def problems(self) -> tuple[str, ...]:
        """A sentence for each part that was found, with the setting that removes it."""
        return tuple(_sentence(part, keys) for part, keys in self._found.items() if keys)

    def _note(self, change: Change) -> None:
        if change.kind is Kind.POD:
            self._check(change.key)

    def _check(self, key: ObjectKey) -> None:
        if key.namespace not in self.namespaces:
            return
        pod = self.watch.snapshot.pods.get(key)
        part = pod.labels.get(_COMPONENT, "") if pod is not None and not pod.is_finished else ""
        is_ours = pod is not None and pod.labels.get(MANAGED_BY) == MANAGER
        for each, keys in self._found.items():
            if each == part and not is_ours:
                keys.add(key)
                if each not in self._logged:
                    self._logged.add(each)
                    log.warning("%s", _sentence(each, keys))
            else:
                keys.discard(key)


def _sentence(part: str, keys: Collection[ObjectKey]) -> str:
    names = f"pod {min(keys)}" if len(keys) == 1 else f"pod {min(keys)} and {len(keys) - 1} more"
    return _SENTENCES[part].format(names=names)

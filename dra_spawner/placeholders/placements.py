"""Promises: which place a server gets that is about to start, and that nobody else gets it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.cluster.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.headroom.placement import Placement, PlacementKind, find_placement
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.shapes import Shape
from dra_spawner.headroom.view import Placeholder, View, label_of
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["Promise", "Promises"]

log = logging.getLogger(__name__)

_DRA: Final = "resource.k8s.io/v1"
#: Others may want the same claim at the same time; then the next one is tried.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Promise:
    """What a server gets.

    Attributes
    ----------
    claims
        Warm claims that its pod is to name, by entry of ``resourceClaims``; none if it makes its own.
    until
        The pod must be there by then, if there are any.
    """

    placement: Placement
    claims: Mapping[str, str] = field(default_factory=dict)
    until: datetime | None = None


@dataclass
class Promises:
    """Gives promises while this process leads.

    Attributes
    ----------
    lasting
        How long a promise holds.
    """

    api: KubernetesApi
    watch: ClusterWatch
    view: Callable[[], View]
    policy: Callable[[], Policy]
    may_act: Callable[[], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    lasting: timedelta = timedelta(seconds=30)
    _given: dict[ObjectKey, datetime] = field(default_factory=dict)
    """Placeholders that are promised, until when that is sure to be seen in the watch."""

    async def place(self, shape: Shape, namespace: str, pod: str) -> Promise:
        """Where a server gets its place; what a placeholder keeps is promised to it from here on.

        Raises
        ------
        NotLeading
            When another replica must be asked.
        KubernetesError
            When the API server cannot be reached.
        """
        for _ in range(_TRIES):
            self.may_act()
            view = self._view()
            placement = find_placement(view, self.policy(), shape, namespace)
            if placement.kind is not PlacementKind.WARM or placement.placeholder is None:
                return Promise(placement)
            placeholder = placement.placeholder
            self._given[placeholder.key] = self.now() + self.lasting
            if not placeholder.claims:
                # It has no device: the scheduler preempts it for CPU and memory.
                return Promise(placement)
            until = self.now() + self.lasting
            if await self._promise(placeholder, pod, until):
                return Promise(placement, _entries(placeholder), until)
            log.info("Somebody else was quicker: placeholder=%s pod=%s", placeholder.key, pod)
        return Promise(Placement(PlacementKind.FRESH, "what was kept went to others a moment ago"))

    def _view(self) -> View:
        """The cluster, without placeholders that are promised already although the watch does not show it yet."""
        now = self.now()
        self._given = {key: until for key, until in self._given.items() if now < until}
        view = self.view()
        for key in self._given:
            view.placeholders.pop(key, None)
        return view

    async def _promise(self, placeholder: Placeholder, pod: str, until: datetime) -> bool:
        """Write on all claims for whom they are kept, if nobody has done so before."""
        for key in placeholder.claims:
            seen = self.watch.observed(Kind.RESOURCE_CLAIM, key)
            if seen is None:
                return False
            named = {**seen.labels, labels.RESERVED_FOR: pod, labels.RESERVED_UNTIL: label_of(until)}
            body = {"metadata": {"resourceVersion": seen.resource_version, "uid": seen.uid, "labels": named}}
            self.may_act()
            try:
                path = resource_path(_DRA, "resourceclaims", key.namespace, key.name)
                await self.api.patch(path, body, patch_type=PatchType.MERGE)
            except KubernetesError as error:
                if error.conflict or error.not_found:
                    return False
                raise
        return True


def _entries(placeholder: Placeholder) -> dict[str, str]:
    return {each.name: each.claim for each in placeholder.pod.claims if each.claim}

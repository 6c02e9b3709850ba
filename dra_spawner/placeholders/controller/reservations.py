"""Promises: which place a server gets that is about to start, and that nobody else gets it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.placeholders.controller.reconciler import Reconciler
from dra_spawner.placeholders.planner.placement import Placement, PlacementKind, find_placement
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.safeguards import frozen_because
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import Placeholder, Reservation, label_of
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["Frozen", "Reservations", "ReservedPlacement"]

log = logging.getLogger(__name__)

#: Others may want the same claim at the same time; then the next one is tried.
_TRIES: Final = 5
#: For so long at most an answer is given again.
_SAME_SECONDS: Final = 1.0
#: So many answers are remembered: users can make shapes of their own.
_MOST_ANSWERS: Final = 200


@dataclass(frozen=True, slots=True)
class ReservedPlacement:
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


class Frozen(Exception):
    """Nothing is promised: what is known of the cluster is too old, its API fails, or a search for devices was stopped.
    The message says which.
    """


_Ground: TypeAlias = tuple[int, Policy, frozenset[ObjectKey], float]


def _is_same(before: _Ground, now: _Ground) -> bool:
    """Whether an answer still holds; the last is when it was given."""
    return (
        before[0] == now[0] and before[1] is now[1] and before[2] == now[2] and 0 <= now[3] - before[3] < _SAME_SECONDS
    )


@dataclass
class Reservations:
    """Gives promises while this process leads.

    Attributes
    ----------
    reconciler
        Of this process: it knows the cluster, and must know what was promised.
    lasting
        How long a promise holds.
    """

    api: KubernetesApi
    reconciler: Reconciler
    may_act: Callable[[], None]
    lasting: timedelta = timedelta(seconds=30)
    _answers: dict[tuple[str, str], tuple[_Ground, Placement]] = field(default_factory=dict)

    async def place(self, shape: Shape, namespace: str, pod: str) -> ReservedPlacement:
        """Where a server gets its place; what a placeholder keeps is promised to it from here on.

        Raises
        ------
        NotLeading
            When another replica must be asked.
        Frozen
            When the cluster is not known well enough.
        KubernetesError
            When the API server cannot be reached.
        """
        for _ in range(_TRIES):
            self.may_act()
            reconciler = self.reconciler
            placement = self._find(shape, namespace)
            if placement.kind is not PlacementKind.WARM or placement.placeholder is None:
                return ReservedPlacement(placement)
            placeholder = placement.placeholder
            now = reconciler.now()
            until = now + self.lasting
            # From here on neither another promise nor a decision touches it, although the watch shows nothing yet.
            reconciler.reserved[placeholder.key] = Reservation(pod, until, now)
            if not placeholder.claims:
                # It has no device: the scheduler preempts it for CPU and memory.
                return ReservedPlacement(placement)
            try:
                is_promised = await self._reserve(placeholder, pod, now)
            except KubernetesError as error:
                if not error.retryable:
                    # It was refused. What was written before, on another of its claims, is to be seen there.
                    reconciler.reserved.pop(placeholder.key, None)
                raise
            if is_promised:
                return ReservedPlacement(placement, _entries(placeholder), until)
            log.info("Somebody else was quicker: placeholder=%s pod=%s", placeholder.key, pod)
        return ReservedPlacement(Placement(PlacementKind.FRESH, "what was kept went to others a moment ago"))

    def _find(self, shape: Shape, namespace: str) -> Placement:
        """Many ask at once in the morning. What is not promised is the same for all of them while nothing changes."""
        reconciler = self.reconciler
        policy = reconciler.policy()
        ground = (reconciler.changes, policy, frozenset(reconciler.reserved), asyncio.get_running_loop().time())
        answer = self._answers.get((shape.id, namespace))
        if answer is not None and reconciler.is_running and _is_same(answer[0], ground):
            return answer[1]
        view = reconciler.view()
        if reason := frozen_because(view, policy):
            raise Frozen(reason)
        drivers = reconciler.latest.planner_state.drivers if reconciler.latest is not None else {}
        try:
            placement = find_placement(view, policy, shape, namespace, drivers)
        except SearchStopped as stopped:
            raise Frozen(f"it is not known where a server of shape {shape.id} fits: {stopped}") from None
        if placement.kind is PlacementKind.WARM:
            self._answers.pop((shape.id, namespace), None)
        else:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[shape.id, namespace] = ground, placement
        return placement

    async def _reserve(self, placeholder: Placeholder, pod: str, now: datetime) -> bool:
        """Write on all claims for whom they are kept; whether nobody has done so before."""
        for key in placeholder.claims:
            seen = self.reconciler.watch.observed(Kind.RESOURCE_CLAIM, key)
            if seen is None:
                return False
            if not await self._reserve_claim(key, pod, now, seen.resource_version):
                return False
        return True

    async def _reserve_claim(self, key: ObjectKey, pod: str, now: datetime, version: str) -> bool:
        path = resource_path(names.RESOURCE_API, "resourceclaims", key.namespace, key.name)
        # From now on it does not go with the placeholder, which the scheduler may preempt at any time.
        written = {
            "labels": {
                names.RESERVED_FOR: pod,
                names.RESERVED_SINCE: label_of(now),
                names.RESERVED_UNTIL: label_of(now + self.lasting),
            },
            "ownerReferences": None,
        }
        for _ in range(_TRIES):
            self.may_act()
            try:
                await self.api.patch(path, {"metadata": {"resourceVersion": version, **written}})
                return True
            except KubernetesError as error:
                if error.not_found:
                    return False
                if not error.conflict:
                    raise
            # It changed since it was last seen: in what matters, or otherwise.
            try:
                metadata = (await self.api.get(path))["metadata"]
            except KubernetesError as error:
                if error.not_found:
                    return False
                raise
            if names.RESERVED_FOR in metadata.get("labels", {}) or "deletionTimestamp" in metadata:
                return False
            version = metadata["resourceVersion"]
        return False


def _entries(placeholder: Placeholder) -> dict[str, str]:
    return {each.name: each.claim for each in placeholder.pod.claims if each.claim}

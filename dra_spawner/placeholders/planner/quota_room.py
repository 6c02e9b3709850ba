"""What ResourceQuotas have left for placeholders, beside users' servers."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.limit_usage import claim_of_extended_resources
from dra_spawner.placeholders.planner.placeholder_objects import requests_of
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.quotas import (
    Amounts,
    Quota,
    claim_amounts,
    pod_amounts,
    summed,
    without_requests,
)
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import View, age
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod

__all__ = ["QuotaRoom", "needed_amounts"]

_NAMESPACE: Final = "default"
#: Pods that are younger than this may not be counted yet in what was last seen of a quota.
_UNCOUNTED: Final = timedelta(seconds=3)


class QuotaRoom:
    """What the quotas have left, before and while placeholders are granted.

    A placeholder for a target leaves room for one more server of its shape, and of each shape with pending servers, as
    a server exists beside its placeholder during a handover.
    """

    def __init__(self, view: View, policy: Policy) -> None:
        self._view = view
        self._shapes = policy.shapes
        self._pending = {shape for pod in view.pending_users if (shape := view.shape_of(pod)) in policy.shapes}
        self._placeholder: dict[str, list[Amounts]] = {}
        self._server: dict[str, list[Amounts]] = {}
        self._quotas = list(view.quotas)
        for pod in (*(each.pod for each in view.placeholders.values()), *view.users.values()):
            if age(pod.created, view.now) < _UNCOUNTED:
                self._note_uncounted(pod)

    def shortage(self, shape: str, *, for_pending_pod: bool = False) -> str:
        """The quota that does not admit one more placeholder, as a clause; empty if all do."""
        for index, quota in enumerate(self._quotas):
            kept: Amounts = {}
            if not for_pending_pod:
                kept = summed(self._of_server(each)[index] for each in {*self._pending, shape})
            found = quota.shortage(self._of_placeholder(shape)[index], kept=kept)
            if found:
                return found if for_pending_pod else f"{found}, which leaves room for users' servers"
        return ""

    def take(self, shape: str) -> None:
        """One more placeholder of a shape exists."""
        taken = self._of_placeholder(shape)
        self._quotas = [quota.without(taken[index]) for index, quota in enumerate(self._quotas)]

    def _note_uncounted(self, pod: Pod) -> None:
        is_placeholder = ObjectKey.of(pod) in self._view.placeholders
        shape = pod.labels.get(names.SHAPE, "")
        if shape not in self._shapes:
            return
        used = self._of_placeholder(shape) if is_placeholder else self._of_server(shape)
        self._quotas = [quota.without(used[index]) for index, quota in enumerate(self._quotas)]

    def _of_placeholder(self, shape: str) -> list[Amounts]:
        """What a placeholder counts for each quota."""
        if shape not in self._placeholder:
            self._placeholder[shape] = [
                needed_amounts(self._shapes[shape], self._view, each, for_server=False) for each in self._view.quotas
            ]
        return self._placeholder[shape]

    def _of_server(self, shape: str) -> list[Amounts]:
        if shape not in self._server:
            self._server[shape] = [
                needed_amounts(self._shapes[shape], self._view, each, for_server=True) for each in self._view.quotas
            ]
        return self._server[shape]


def needed_amounts(shape: Shape, view: View, quota: Quota, *, for_server: bool) -> Amounts:
    """What a placeholder or a server of a shape counts for a quota."""
    parts: list[Amounts] = []
    requests = requests_of(shape)
    if (quota.for_servers if for_server else quota.for_placeholders) and quota.counts_pods(requests):
        parts.append(pod_amounts(requests))
    if quota.for_claims and (quota.for_servers or not for_server):
        classes = view.snapshot.classes
        pod, claims = simulated_placeholder(shape, _NAMESPACE)
        parts.append(claim_amounts([each.claim for each in claims], classes, from_templates=for_server))
        generated = claim_of_extended_resources(pod, view)
        if generated.requests:
            parts.append(without_requests(claim_amounts([generated], classes)))
    return summed(parts)

"""What ResourceQuotas have left for placeholders, beside users' servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.amounts.limit_usage import claim_of_extended_resources
from dra_spawner.placeholders.planner.cluster.quotas import (
    Amounts,
    Quota,
    claim_amounts,
    most_of,
    pod_amounts,
    summed,
    without_requests,
)
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.placeholder_objects import requests_of
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod

__all__ = ["QuotaNeeds", "RemainingQuotas", "UnservedServer", "needed_amounts"]

_NAMESPACE: Final = "default"
#: Pods that are younger than this may not be counted yet in what was last seen of a quota.
_UNCOUNTED: Final = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class UnservedServer:
    """A server whose pod or whose claims do not exist yet.

    Attributes
    ----------
    since
        Time since it was about to start.
    amounts
        What is to be created for it, by quota.
    what
        The missing part, for people.
    """

    pod: ObjectKey
    since: timedelta
    amounts: list[Amounts]
    what: str


class QuotaNeeds:
    """What placeholders and servers count for each quota of a view; the lists are in the order of the quotas."""

    def __init__(self, view: View, policy: Policy) -> None:
        self._view = view
        self._shapes = policy.shapes
        self._pending = {shape for pod in view.pending_users if (shape := view.shape_of(pod)) in policy.shapes}
        self._amounts: dict[tuple[str, bool, bool, bool], list[Amounts]] = {}
        self._for_servers: dict[str, list[Amounts]] = {}

    def of_placeholder(self, shape: str) -> list[Amounts]:
        """Of a placeholder and its claims."""
        return self._of(self._shapes[shape], for_server=False)

    def of_pod(self, shape: str) -> list[Amounts]:
        """Of a placeholder whose claims a server has."""
        return self._of(self._shapes[shape], for_server=False, with_claims=False)

    def of_server(self, shape: str) -> list[Amounts]:
        """Of a server with claims of its own."""
        return self._of(self._shapes[shape], for_server=True)

    def of_unserved(self) -> Iterator[UnservedServer]:
        """Servers that exist in part, the API server's refusals by a quota being one reason."""
        view = self._view
        for each in view.awaited:
            amounts = self._of(each.shape, for_server=True, with_claims=not each.has_claims)
            yield UnservedServer(each.pod, view.now - each.since, amounts, f"{each.pod}, which is about to start")
        for pod in view.pending_users:
            if _lacks_claims(view, pod) and (shape := self._shapes.get(view.shape_of(pod))) is not None:
                key = ObjectKey.of(pod)
                claims = self._of(shape, for_server=True, with_pod=False)
                yield UnservedServer(key, age(pod.created, view.now), claims, f"the claims of {key}")

    def _of(self, shape: Shape, *, for_server: bool, with_pod: bool = True, with_claims: bool = True) -> list[Amounts]:
        key = (shape.id, for_server, with_pod, with_claims)
        if key not in self._amounts:
            self._amounts[key] = [
                needed_amounts(
                    shape, self._view, each, for_server=for_server, with_pod=with_pod, with_claims=with_claims
                )
                for each in self._view.quotas
            ]
        return self._amounts[key]

    def left_for_servers(self, shape: str) -> list[Amounts]:
        """What placeholders of a shape leave: one more server of the shape, and one of each shape with pending servers.

        A server exists beside its placeholder during a handover.
        """
        if shape not in self._for_servers:
            servers = [self.of_server(each) for each in {*self._pending, shape}]
            self._for_servers[shape] = [summed(amounts) for amounts in zip(*servers, strict=True)]
        return self._for_servers[shape]


class RemainingQuotas:
    """What the quotas have left, before and while placeholders are granted.

    A placeholder for a target leaves what placeholders of all shapes leave (`QuotaNeeds.left_for_servers`), and what
    servers lack that are about to start. A placeholder for a pending pod leaves only the latter.
    """

    def __init__(self, view: View, policy: Policy) -> None:
        self._view = view
        self._shapes = policy.shapes
        self._needs = QuotaNeeds(view, policy)
        self._quotas = list(view.quotas)
        self._present = {each.shape for each in view.placeholders.values() if each.shape in policy.shapes}
        unserved = [each.amounts for each in self._needs.of_unserved()]
        self._unserved = [summed(each[index] for each in unserved) for index in range(len(self._quotas))]
        for pod in (*(each.pod for each in view.placeholders.values()), *view.users.values()):
            if age(pod.created, view.now) < _UNCOUNTED:
                self._note_uncounted(pod)

    def shortage(self, shape: str, *, for_pending_pod: bool = False) -> str:
        """The quota that does not admit one more placeholder, as a clause; empty if all do."""
        for index, quota in enumerate(self._quotas):
            kept = self._unserved[index]
            if not for_pending_pod:
                left_by = (self._needs.left_for_servers(each)[index] for each in {*self._present, shape})
                kept = most_of((*left_by, kept))
            found = quota.shortage(self._needs.of_placeholder(shape)[index], kept=kept)
            if found:
                return found if for_pending_pod else f"{found}, which leaves capacity for users' servers"
        return ""

    def take(self, shape: str) -> None:
        """One more placeholder of a shape exists."""
        self._present.add(shape)
        self._use(self._needs.of_placeholder(shape))

    def _note_uncounted(self, pod: Pod) -> None:
        shape = pod.labels.get(names.SHAPE, "")
        if shape in self._shapes:
            is_placeholder = ObjectKey.of(pod) in self._view.placeholders
            self._use(self._needs.of_placeholder(shape) if is_placeholder else self._needs.of_server(shape))

    def _use(self, amounts: list[Amounts]) -> None:
        self._quotas = [quota.without(used) for quota, used in zip(self._quotas, amounts, strict=True)]


def needed_amounts(
    shape: Shape, view: View, quota: Quota, *, for_server: bool, with_pod: bool = True, with_claims: bool = True
) -> Amounts:
    """What a placeholder or a server of a shape counts for a quota: its pod, its claims, or both.

    Of a server's claims alone, their templates exist already.
    """
    parts: list[Amounts] = []
    requests = requests_of(shape)
    if with_pod and (quota.for_servers if for_server else quota.for_placeholders) and quota.counts_pods(requests):
        parts.append(pod_amounts(requests))
    if with_claims and quota.for_claims and (quota.for_servers or not for_server):
        classes = view.snapshot.classes
        pod, claims = simulated_placeholder(shape, _NAMESPACE)
        parts.append(claim_amounts([each.claim for each in claims], classes, from_templates=for_server and with_pod))
        generated = claim_of_extended_resources(pod, view)
        if generated.requests:
            parts.append(without_requests(claim_amounts([generated], classes)))
    return summed(parts)


def _lacks_claims(view: View, pod: Pod) -> bool:
    """Whether claims of its templates do not exist yet."""
    wanted = sum(each.template is not None and each.claim is None and each.is_needed for each in pod.claims)
    if not wanted:
        return False
    # A claim may be there before the pod's status names it.
    snapshot = view.snapshot
    made = [snapshot.claims[key] for key in snapshot.state.generated_claims[ObjectKey.of(pod)]]
    named = sum(each.template is not None and each.claim is not None for each in pod.claims)
    return sum(each.belongs_to(pod) for each in made) < wanted + named

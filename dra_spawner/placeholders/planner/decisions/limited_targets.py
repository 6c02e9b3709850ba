"""How many of the wanted placeholders may exist: limits, ResourceQuotas, the autoscaler's maximum, failures, taints.

Only targets become lower. Placeholders for users' pending pods are exempt, except from ResourceQuotas: the API server
would refuse them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder
from dra_spawner.placeholders.planner.amounts.limit_usage import OWN, LimitTotal, LimitUsage, Usage
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.passing_devices import without_lasting_devices
from dra_spawner.placeholders.planner.cluster.pod_kinds import hub_of
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age, newest_first, reservation_of
from dra_spawner.placeholders.planner.decisions.quota_preemption import RemainingQuotas
from dra_spawner.placeholders.planner.round import Denial, DenialCause, Round
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod

#: Head start of each hub with less when a limit of all hubs has free capacity: longer than a watch and a round take.
_TURN: Final = timedelta(seconds=2)
_LONGEST_TURN: Final = timedelta(seconds=10)
#: Age of a placeholder that the scheduler has judged, and of which all services have seen that.
_NEW: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class LimitedTargets:
    """What a round may create.

    Attributes
    ----------
    replicas
        The lower targets, by shape.
    denials
        By shape.
    capacity_since
        By shape: since when limits of all hubs have had capacity that other hubs may use first.
    surplus
        Placeholders that are above a limit of all hubs. These go before any other: the services of the other hubs count
        on just these, and would end one more if another one went.
    """

    replicas: Mapping[str, ReplicaRange] = field(default_factory=dict)
    denials: Mapping[str, Denial] = field(default_factory=dict)
    capacity_since: Mapping[str, datetime] = field(default_factory=dict)
    surplus: frozenset[ObjectKey] = frozenset()
    _remaining: RemainingQuotas | None = None

    def policy(self, policy: Policy) -> Policy:
        """The policy with these targets."""
        return replace(policy, replicas={**policy.replicas, **self.replicas}) if self.replicas else policy

    def reason(self, shape: str) -> str:
        """Why there is a lower target, as a clause; empty if there is none."""
        denial = self.denials.get(shape)
        return denial.because if denial is not None else ""

    def within_quotas(self, actions: Iterable[Action]) -> tuple[tuple[Action, ...], Mapping[str, Denial]]:
        """The actions without creations for pending pods that a quota would refuse; and all denials."""
        remaining = self._remaining
        if remaining is None:
            return tuple(actions), self.denials
        wanted, allowed, because = Counter[str](), Counter[str](), dict[str, str]()
        kept: list[Action] = []
        for action in actions:
            if isinstance(action, CreatePlaceholder) and action.for_pending_pod is not None:
                wanted[action.shape] += 1
                shortage = remaining.shortage(action.shape, for_pending_pod=True)
                if shortage:
                    because[action.shape] = f"for pending servers by {shortage}"
                    continue
                allowed[action.shape] += 1
                remaining.take(action.shape)
            kept.append(action)
        denials = {
            shape: Denial(shape, DenialCause.QUOTA, wanted[shape], allowed[shape], why)
            for shape, why in because.items()
        }
        return tuple(kept), {**denials, **self.denials}


def limit_targets(round_: Round) -> LimitedTargets:
    """The targets that may be reached now."""
    view, policy = round_.view, round_.policy
    capped = dict(_caps(view, policy, round_.state))
    if not (policy.limits or view.quotas or capped):
        return LimitedTargets()
    return _Targets(round_, capped).found()


def _caps(view: View, policy: Policy, planner_state: PlannerState) -> Iterator[tuple[str, tuple[DenialCause, str]]]:
    """Shapes of which no more may be created, each with its cause; the last cause counts."""
    for shape in without_lasting_devices(view, policy):
        yield (
            shape,
            (DenialCause.TAINT, "as Kubernetes would end them for the taint of each device that they could get"),
        )
    for shape, cap in planner_state.scale_up_caps.at(view.now).items():
        since = f"{cap.since:%H:%M:%S %Z}"
        yield shape, (DenialCause.AUTOSCALER, f"as the autoscaler adds no node (since {since}): {cap.reason}")
    for shape, loss in planner_state.creations.capped(policy).items():
        count = loss.in_a_row
        failed = f"{count} replacements in a row have" if count > 1 else "its replacement has"
        because = f"as {failed} failed, too; no more are created until an operator says: try again"
        yield shape, (DenialCause.FAILURES, because)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A placeholder that counts for limits.

    Attributes
    ----------
    shape
        Id of its shape; None for one of another hub, which that hub's service ends.
    """

    pod: Pod
    shape: str | None = None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.pod)

    def counts_for(self, limit: Limit) -> bool:
        """Whether it counts for a limit."""
        return limit.all_hubs if self.shape is None else limit.applies_to(self.shape)

    def order(self, now: datetime) -> tuple[bool, tuple[int, ...], str]:
        """Sorting key, the first to go first; the same in the services of all hubs.

        A new pod counts as one with a node: services see at different moments that it has one, and each of them would
        end another placeholder.
        """
        is_placed = bool(self.pod.node_name) or age(self.pod.created, now) < _NEW
        return is_placed, tuple(-ord(each) for each in self.pod.created), self.pod.uid


class _Targets:
    """One round's count."""

    def __init__(self, round_: Round, capped: Mapping[str, tuple[DenialCause, str]]) -> None:
        view, policy, ending = round_.view, round_.policy, round_.ending
        self._view = view
        self._policy = policy
        self._needing = round_.servers.needing_node
        self._capped = capped
        self._remaining = RemainingQuotas(view, policy) if view.quotas else None
        self._capacity_before = round_.state.capacity_since
        self._capacity_since: dict[str, datetime] = {}
        self._usage = LimitUsage(view)
        self._totals = [LimitTotal(each) for each in policy.limits]
        self._because: dict[str, tuple[DenialCause, str]] = {}
        self._surplus: set[ObjectKey] = set()
        self._free: dict[str, list[Placeholder]] = {
            shape: [
                each
                for each in view.placeholders_of_shape.get(shape, ())
                if each.key not in ending and each.may_end(Cause.SURPLUS)
            ]
            for shape in policy.shapes
        }
        self._warm = {each.key for shape in policy.shapes for each in view.warm(shape)}
        for_servers = (round_.servers.placeholders_for(shape, there) for shape, there in self._free.items())
        self._exempt = set().union(*for_servers)
        self._others, self._others_on_top = self._of_others()
        self._ending = ending
        if self._totals:
            for each in view.placeholders.values():
                if each.key not in self._exempt and each.key not in ending:
                    self._count(_Counted(each.pod, each.shape))
        for other in self._others:
            self._count(other)

    def found(self) -> LimitedTargets:
        going = self._decide_surplus()
        self._count_unavailable()
        granted = self._grant(going)
        replicas, denials = {}, {}
        for shape, wanted in self._policy.replicas.items():
            if shape not in self._policy.shapes or shape not in self._because:
                continue
            allowed = len(self._free[shape]) - going[shape] + granted[shape]
            if allowed < wanted.min:
                replicas[shape] = replace(wanted, min=allowed, least=min(wanted.least, allowed))
                cause, because = self._because[shape]
                denials[shape] = Denial(shape, cause, wanted.min, allowed, because)
        return LimitedTargets(replicas, denials, self._capacity_since, frozenset(self._surplus), self._remaining)

    def _count(self, each: _Counted, sign: int = 1) -> None:
        for total in self._totals:
            if each.counts_for(total.limit):
                total.add(self._usage_of(total.limit, each), OWN if each.shape is not None else hub_of(each.pod), sign)

    def _count_unavailable(self) -> None:
        """Count placeholders that use capacity which new ones could have, but are no reason to end another one."""
        if self._totals:
            for key in self._ending:
                placeholder = self._view.placeholders.get(key)
                if placeholder is not None and key not in self._exempt:
                    self._count(_Counted(placeholder.pod, placeholder.shape))
            # Their devices are free soon, but not yet. On lost nodes they stay for ever.
            for pod in self._view.terminating_soon:
                if not pod.is_finished:
                    self._count(_Counted(pod, pod.labels.get(names.SHAPE, "")))
        for each in self._others_on_top:
            self._count(each)

    def _of_others(self) -> tuple[list[_Counted], list[_Counted]]:
        """Placeholders of other hubs; and those that terminate, or may stand for pending servers, apart."""
        if not any(total.limit.all_hubs for total in self._totals):
            return [], []
        servers = self._view.pending_servers_of_all_hubs()
        found: list[_Counted] = []
        on_top: list[_Counted] = []
        for pod in self._view.other_placeholders:
            shape = pod.labels.get(names.SHAPE, "")
            if pod.is_deleted:
                if self._view.has_kubelet(pod):
                    on_top.append(_Counted(pod))
            elif not pod.node_name and servers[shape] > 0:
                servers[shape] -= 1
                on_top.append(_Counted(pod))
            else:
                found.append(_Counted(pod))
        return found, on_top

    def _decide_surplus(self) -> Counter[str]:
        """How many placeholders of each shape are above a limit; warm ones and old ones stay longest."""
        going: Counter[str] = Counter()
        if not any(total.is_exceeded() for total in self._totals):
            return going
        # If users of a shape need a node, its placeholders stay: they ask for these users' nodes.
        free = [each for shape, there in self._free.items() if not self._needing.get(shape) for each in there]
        free.sort(key=lambda each: (each.key in self._warm, newest_first(each)))
        own = [_Counted(each.pod, each.shape) for each in free]
        others = [each for each in self._others if not self._is_bound(each.pod)]
        of_all_hubs = sorted((*own, *others), key=lambda each: each.order(self._view.now))
        gone: set[ObjectKey] = set()
        for total in sorted(self._totals, key=lambda each: each.limit.all_hubs):
            for each in of_all_hubs if total.limit.all_hubs else own:
                if not total.is_exceeded():
                    break
                if each.key in gone or not each.counts_for(total.limit):
                    continue
                bound = total.exceeded_bound(self._usage_of(total.limit, each), with_it=False)
                if bound is None:
                    continue
                gone.add(each.key)
                if each.shape is not None:
                    going[each.shape] += 1
                    if total.limit.all_hubs:
                        self._surplus.add(each.key)
                    self._because.setdefault(each.shape, (DenialCause.LIMIT, total.because(bound)))
                self._count(each, -1)
        # Until their services have ended them, they use their capacity.
        for each in others:
            if each.key in gone:
                self._count(each)
        return going

    def _is_bound(self, pod: Pod) -> bool:
        """Whether the service of another hub does not end its placeholder as surplus, as far as is seen."""
        claims = (self._view.snapshot.claims.get(ObjectKey(pod.namespace, each.claim or "")) for each in pod.claims)
        return any(reservation_of(each) is not None for each in claims)

    def _usage_of(self, limit: Limit, each: _Counted) -> Usage:
        shape = self._policy.shapes.get(each.shape) if each.shape is not None else None
        return self._usage.of_placeholder(limit, each.pod, shape)

    def _grant(self, going: Counter[str]) -> Counter[str]:
        """How many placeholders of each shape may be created; shapes take turns."""
        granted: Counter[str] = Counter()
        missing = {
            shape: wanted.min - len(self._free[shape])
            for shape, wanted in self._policy.replicas.items()
            if shape in self._policy.shapes and not going[shape]
        }
        turns = [shape for shape, count in missing.items() if count > 0]
        while turns:
            for shape in tuple(turns):
                denied = self._denied(shape) or self._not_its_turn(shape)
                if denied is not None:
                    self._because[shape] = denied
                    turns.remove(shape)
                    continue
                self._take(shape)
                granted[shape] += 1
                if granted[shape] >= missing[shape]:
                    turns.remove(shape)
        return granted

    def _denied(self, shape: str) -> tuple[DenialCause, str] | None:
        """Why no placeholder of a shape may be created; None if one may be."""
        if shape in self._capped:
            return self._capped[shape]
        for total in self._totals:
            limit = total.limit
            if limit.applies_to(shape):
                bound = total.exceeded_bound(self._usage.of_shape(limit, self._policy.shapes[shape]), with_it=True)
                if bound is not None:
                    return DenialCause.LIMIT, total.because(bound)
        shortage = self._remaining.shortage(shape) if self._remaining is not None else ""
        return (DenialCause.QUOTA, f"by {shortage}") if shortage else None

    def _not_its_turn(self, shape: str) -> tuple[DenialCause, str] | None:
        """Why other hubs are first to use capacity that was freed; None if it is this hub's turn.

        All services see the capacity at the same moment. If each of them created a placeholder, most would be deleted.
        A hub without placeholders is unknown to the others, so each hub that has some waits for one.
        """
        wanted, own = self._policy.shapes[shape], self._view.own_hub
        before, limit = max(
            (
                (total.hubs_before(own), total.limit)
                for total in self._totals
                if total.limit.all_hubs and total.counts(self._usage.of_shape(total.limit, wanted))
            ),
            key=lambda each: each[0],
            default=(0, None),
        )
        before += bool(self._view.placeholders)
        if limit is None or not before:
            return None
        since = self._capacity_since.setdefault(shape, self._capacity_before.get(shape, self._view.now))
        if self._view.now - since >= min(before * _TURN, _LONGEST_TURN):
            return None
        return DenialCause.LIMIT, f"for a few seconds by the {limit}, as hubs with fewer placeholders are first"

    def _take(self, shape: str) -> None:
        for total in self._totals:
            if total.limit.applies_to(shape):
                total.add(self._usage.of_shape(total.limit, self._policy.shapes[shape]))
        if self._remaining is not None:
            self._remaining.take(shape)

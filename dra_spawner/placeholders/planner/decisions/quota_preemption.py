"""ResourceQuotas in a round: what they have left for placeholders, and preemption where they lack it for servers.

A quota may be lowered below what exists, and users may fill it. The API server then refuses users' pods and their
claims, so no pending pod shows the shortage. Therefore capacity for one more server is freed before the server comes,
and for each server that is about to start and whose pod or claims do not come. `RemainingQuotas` leaves the same
capacity, so that no placeholder is created that would be preempted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Final, TypeAlias

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import Action, DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.amounts.planner_state import EndedPlaceholder
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age, newest_first
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.limits import Quota, needed_amounts
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod

#: Time until a quota counts a new object, or shows that one is gone.
_UNCOUNTED: Final = timedelta(seconds=3)
#: Time in which a server's pod and claims have to come. After it, the quota counts as the reason why they do not.
_LATE: Final = timedelta(seconds=3)
#: A handover that is younger than this is short: its placeholder ends soon and frees the capacity for the next server.
_SHORT_HANDOVER: Final = timedelta(minutes=1)

#: A resource that a quota limits: the quota's place in the view, and the resource.
_Bound: TypeAlias = tuple[int, str]
_FIRST: Final = (PlaceholderState.PENDING, PlaceholderState.STARTING, PlaceholderState.WARM)


@dataclass(frozen=True, slots=True)
class _UnservedServer:
    """A server whose pod or whose claims do not exist yet.

    Attributes
    ----------
    since
        Time since it was about to start.
    amounts
        What is to be created for it.
    what
        The missing part, for people.
    """

    pod: ObjectKey
    since: timedelta
    amounts: Counter[_Bound]
    what: str


class _QuotaNeeds:
    """What placeholders and servers count for the quotas of a view."""

    def __init__(self, view: View, policy: Policy) -> None:
        self._view = view
        self._shapes = policy.shapes
        self._pending = {shape for pod in view.pending_users if (shape := view.shape_of(pod)) in policy.shapes}
        self._memo = view.index.of_devices
        self._memo.classes_are(view.snapshot.classes)
        self._amounts: dict[tuple[str, bool, bool, bool], Counter[_Bound]] = {}

    def of_placeholder(self, shape: str) -> Counter[_Bound]:
        """Of a placeholder and its claims."""
        return self._of(self._shapes[shape], for_server=False)

    def of_pod(self, shape: str) -> Counter[_Bound]:
        """Of a placeholder whose claims a server has."""
        return self._of(self._shapes[shape], for_server=False, with_claims=False)

    def of_server(self, shape: str) -> Counter[_Bound]:
        """Of a server with claims of its own."""
        return self._of(self._shapes[shape], for_server=True)

    def of_unserved(self) -> Iterator[_UnservedServer]:
        """Servers that exist in part, the API server's refusals by a quota being one reason."""
        view = self._view
        for each in view.awaited:
            amounts = self._of(each.shape, for_server=True, with_claims=not each.has_claims)
            yield _UnservedServer(each.pod, view.now - each.since, amounts, f"{each.pod}, which is about to start")
        for pod in view.pending_users:
            if _lacks_claims(view, pod) and (shape := self._shapes.get(view.shape_of(pod))) is not None:
                key = ObjectKey.of(pod)
                claims = self._of(shape, for_server=True, with_pod=False)
                yield _UnservedServer(key, age(pod.created, view.now), claims, f"the claims of {key}")

    def left_for_servers(self, shape: str) -> Counter[_Bound]:
        """What placeholders of a shape leave: one more server of the shape, and one of each shape with pending servers.

        A server exists beside its placeholder during a handover.
        """
        return sum(map(self.of_server, {*self._pending, shape}), Counter())

    def _of(
        self, shape: Shape, *, for_server: bool, with_pod: bool = True, with_claims: bool = True
    ) -> Counter[_Bound]:
        def of_quota(quota: Quota) -> Counter[str]:
            rules = (quota.for_placeholders, quota.for_servers, quota.for_claims, quota.best_effort)
            return self._memo.of(
                ("quota", *key, *rules),
                lambda: needed_amounts(
                    shape,
                    self._view.snapshot.classes,
                    quota,
                    for_server=for_server,
                    with_pod=with_pod,
                    with_claims=with_claims,
                ),
            )

        key = (shape.id, for_server, with_pod, with_claims)
        if key not in self._amounts:
            self._amounts[key] = Counter(
                {
                    (index, resource): amount
                    for index, quota in enumerate(self._view.quotas)
                    for resource, amount in of_quota(quota).items()
                    if resource in quota.left
                }
            )
        return self._amounts[key]


class RemainingQuotas:
    """What the quotas have left, before and while placeholders are granted.

    A placeholder for a target leaves what placeholders of all shapes leave (`_QuotaNeeds.left_for_servers`), and what
    servers lack that are about to start. A placeholder for a pending pod leaves only the latter.
    """

    def __init__(self, view: View, policy: Policy) -> None:
        self._quotas = view.quotas
        self._needs = needs = _QuotaNeeds(view, policy)
        self._left = _left(view.quotas)
        self._kept: dict[frozenset[str], Counter[_Bound]] = {}
        self._present = {each.shape for each in view.placeholders.values() if each.shape in policy.shapes}
        self._unserved = sum((each.amounts for each in needs.of_unserved()), Counter[_Bound]())
        for placeholder in view.placeholders.values():
            if placeholder.shape in policy.shapes and age(placeholder.pod.created, view.now) < _UNCOUNTED:
                self._left.subtract(needs.of_placeholder(placeholder.shape))
        for pod in view.users_younger_than(_UNCOUNTED):
            if (shape := pod.labels.get(names.SHAPE, "")) in policy.shapes:
                self._left.subtract(needs.of_server(shape))

    def shortage(self, shape: str, *, for_pending_pod: bool = False) -> str:
        """The quota that does not admit one more placeholder, as a clause; empty if all do."""
        kept = self._unserved if for_pending_pod else self._kept_with(shape)
        for bound, amount in self._needs.of_placeholder(shape).items():
            if self._left[bound] - kept[bound] < amount:
                found = _text(self._quotas, bound)
                return found if for_pending_pod else f"{found}, which leaves capacity for users' servers"
        return ""

    def take(self, shape: str) -> None:
        """One more placeholder of a shape exists."""
        self._present.add(shape)
        self._left.subtract(self._needs.of_placeholder(shape))

    def _kept_with(self, shape: str) -> Counter[_Bound]:
        """What is left for servers with a placeholder of a shape: the most of each resource."""
        shapes = frozenset((*self._present, shape))
        if shapes not in self._kept:
            self._kept[shapes] = reduce(or_, map(self._needs.left_for_servers, shapes), self._unserved)
        return self._kept[shapes]


def _left(quotas: Iterable[Quota]) -> Counter[_Bound]:
    """What quotas have left."""
    return Counter(
        {(index, resource): left for index, each in enumerate(quotas) for resource, left in each.left.items()}
    )


def _text(quotas: Sequence[Quota], bound: _Bound) -> str:
    index, resource = bound
    return f"ResourceQuota {quotas[index].name!r} (at most {quotas[index].hard[resource]} of {resource})"


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


def decide_quota_preemption(round_: Round) -> list[DeletePlaceholder]:
    """Delete as few placeholders as free capacity for users' servers; none where that does not help.

    A quota counts an object before a watch shows it, so a shortage must last for a moment.
    """
    victims = _victims(round_)
    shortage = round_.state.quota_shortage.after(victims, round_.view.now)
    round_.remember(quota_shortage=shortage)
    return victims if shortage.lasts(round_.view.now) else []


def _victims(round_: Round) -> list[DeletePlaceholder]:
    """Deletions that free capacity now.

    None while the quotas or a kind cannot be followed: they would show no effect of a deletion.
    """
    view, policy = round_.view, round_.policy
    if not view.quotas or not view.knows_quotas or view.unknown_kinds:
        return []
    candidates = _candidates(round_)
    needs = _QuotaNeeds(view, policy)
    preemption = _QuotaPreemption(needs, view.quotas, candidates)
    for each in _ended_placeholders(round_).values():
        if each.shape in policy.shapes:
            preemption.add(needs.of_pod(each.shape) if each.has_no_claims else needs.of_placeholder(each.shape))
    # The quota may be the reason why their objects do not come.
    preemption.free_for(each for each in needs.of_unserved() if each.since >= _LATE)
    for shape in _in_handover(view, policy):
        preemption.add(needs.of_pod(shape))
    preemption.free_for_one_more()
    preemption.end_excess()
    return preemption.victims


def remember_ended(round_: Round) -> tuple[Action, ...]:
    """Remember the placeholders that quotas may still count."""
    round_.remember(ended=_ended_placeholders(round_))
    return ()


def _ended_placeholders(round_: Round) -> dict[str, EndedPlaceholder]:
    """Placeholders that end, those of this round included, and those that have just ended; by uid."""
    view = round_.view
    if not view.quotas:
        return {}
    ends = (view.snapshot.pods.get(each.key) for each in round_.ends)
    # A quota does not count finished pods.
    ending = [each for each in (*view.terminating_soon, *ends) if each is not None and not each.is_finished]
    found = {pod.uid: EndedPlaceholder(pod.labels.get(names.SHAPE, ""), _has_no_claims(view, pod)) for pod in ending}
    # The API server may have refused a deletion.
    there = {each.pod.uid for each in view.placeholders.values()}
    for uid, each in round_.state.ended.items():
        gone = each.gone if each.gone is not None else view.now
        if uid not in found and uid not in there and view.now - gone < _UNCOUNTED:
            found[uid] = replace(each, gone=gone)
    return found


#: Of each shape, what must be left while it has placeholders.
_WantedOfShapes = Mapping[str, Mapping[_Bound, int]]
#: Instead of a shape, for what must be left in any case.
_ALWAYS: Final = ""


class _QuotaPreemption:
    """What the quotas have left, and the victims."""

    def __init__(self, needs: _QuotaNeeds, quotas: Sequence[Quota], candidates: Sequence[Placeholder]) -> None:
        self._needs = needs
        self._quotas = quotas
        self._candidates = candidates
        self._going: set[ObjectKey] = set()
        self._staying = Counter(each.shape for each in candidates)
        # What is not counted yet tells nothing.
        left = _left(quotas).items()
        self._left = {(index, name): most for (index, name), most in left if name not in quotas[index].uncounted}
        self.victims: list[DeletePlaceholder] = []

    def add(self, amounts: Mapping[_Bound, int], sign: int = 1) -> None:
        """Count these amounts as left, or as used if `sign` is -1."""
        for bound, amount in amounts.items():
            if bound in self._left:
                self._left[bound] += sign * amount

    def free_for(self, servers: Iterable[_UnservedServer]) -> None:
        """Free capacity for each of these servers that fits without placeholders."""
        used = Counter[_Bound]()
        for each in servers:
            if self._preempt({_ALWAYS: each.amounts}, f"has no capacity for {each.what}", each.pod):
                used += each.amounts
                self.add(each.amounts, -1)
        # The capacity for one more server is for one of them.
        self.add(used)

    def free_for_one_more(self) -> None:
        """Free capacity for one more server of each shape with placeholders, if it fits without them."""
        wanted = {shape: self._needs.of_server(shape) for shape in self._staying}
        if self._lacking(wanted) is not None:
            possible = {shape: amounts for shape, amounts in wanted.items() if self._is_possible(amounts)}
            self._preempt(possible, "has no capacity for one more server")

    def end_excess(self) -> None:
        """End what is above a quota, if that is possible."""
        for bound in self._left:
            self._preempt({_ALWAYS: {bound: 0}}, "is exceeded")

    def _preempt(self, wanted: _WantedOfShapes, reason: str, pod: ObjectKey | None = None) -> bool:
        """Choose as few victims as leave what is wanted; none if all placeholders together are not enough."""
        chosen: dict[ObjectKey, tuple[Placeholder, _Bound]] = {}
        while (lacking := self._lacking(wanted)) is not None:
            victim = next((each for each in self._stay_now() if self._freed(each, lacking) > 0), None)
            if victim is None:
                for each, _ in chosen.values():
                    self._stay(each)
                return False
            self._go(victim)
            chosen[victim.key] = victim, lacking
        for each, _ in tuple(chosen.values()):  # one that was chosen later may free the same
            self._stay(each)
            if self._lacking(wanted) is None:
                del chosen[each.key]
            else:
                self._go(each)
        for each, bound in chosen.values():
            because = f"{_text(self._quotas, bound)} {reason}"
            self.victims.append(delete_placeholder(each.pod, each.state, Cause.QUOTA, because, pod))
        return True

    def _lacking(self, wanted: _WantedOfShapes) -> _Bound | None:
        """The first resource of which too little is left."""
        for shape, amounts in wanted.items():
            if shape == _ALWAYS or self._staying[shape]:
                for bound, amount in amounts.items():
                    if bound in self._left and self._left[bound] < amount:
                        return bound
        return None

    def _is_possible(self, wanted: Mapping[_Bound, int]) -> bool:
        """Whether this would be left without any placeholder."""
        return all(
            self._left[bound] + sum(self._freed(other, bound) for other in self._stay_now()) >= amount
            for bound, amount in wanted.items()
            if bound in self._left
        )

    def _stay_now(self) -> Iterator[Placeholder]:
        return (each for each in self._candidates if each.key not in self._going)

    def _freed(self, placeholder: Placeholder, bound: _Bound) -> int:
        return self._needs.of_placeholder(placeholder.shape)[bound]

    def _go(self, placeholder: Placeholder) -> None:
        self._going.add(placeholder.key)
        self._staying[placeholder.shape] -= 1
        self.add(self._needs.of_placeholder(placeholder.shape))

    def _stay(self, placeholder: Placeholder) -> None:
        self._going.remove(placeholder.key)
        self._staying[placeholder.shape] += 1
        self.add(self._needs.of_placeholder(placeholder.shape), -1)


def _candidates(round_: Round) -> list[Placeholder]:
    """Possible victims: placeholders that help users least come first, and the newest of them."""
    found: list[Placeholder] = []
    for shape, there in round_.view.placeholders_of_shape.items():
        if shape not in round_.policy.shapes:
            continue
        free = [each for each in there if each.key not in round_.ending and each.may_end(Cause.QUOTA)]
        for_servers = round_.servers.placeholders_for(shape, free)
        found += (each for each in free if each.key not in for_servers)
    return sorted(found, key=lambda each: (_FIRST.index(each.state), newest_first(each)))


def _in_handover(view: View, policy: Policy) -> Iterator[str]:
    """Shapes of placeholders whose servers' pods have come a short time ago."""
    for each in view.placeholders.values():
        if each.reservation is not None and each.shape in policy.shapes:
            pod = view.users.get(ObjectKey(each.pod.namespace, each.reservation.pod))
            if pod is not None and age(pod.created, view.now) < _SHORT_HANDOVER:
                yield each.shape


def _has_no_claims(view: View, pod: Pod) -> bool:
    """Whether a server names the claims of a placeholder."""
    keys = [ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim]
    return any(ObjectKey.of(other) in view.users for key in keys for other in view.pods_naming(key))

"""Watches a cluster by a connection of its own, and notes violations."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from dra_spawner import names
from dra_spawner.history.decision_log import NumberedDecision
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.cluster.view import Reservation, reservation_of
from dra_spawner.placeholders.planner.targets.policy import Grace, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from tests.service.chaos_hub import SWEEP_EVERY
from tests.service.virtual_replica import VirtualTime

#: Stamps and labels have whole seconds, and rounds take their time.
_SLACK = timedelta(seconds=5)
_STAMP = timedelta(seconds=1)
#: Real seconds: a leader may not have seen newer changes when it decided.
_TOGETHER = 0.5
#: Real seconds for which a server that was pending may still be the reason for a placeholder, on a busy machine, too.
_PENDING_LATELY = 5.0


@dataclass(frozen=True, slots=True)
class _Loss:
    """A placeholder that was warm and is not any more.

    Attributes
    ----------
    left
        How many of its shape are warm then.
    is_deleted
        Whether it was deleted, and not preempted by the scheduler; else its node, its claims or its images changed.
    others
        All other placeholders of its shape then, for people.
    """

    key: ObjectKey
    shape: str
    at: float
    left: int
    is_deleted: bool
    others: str


class Observer:
    """See the module.

    Parameters
    ----------
    replicas
        By shape.

    Attributes
    ----------
    left
        Users' pods whose user has left.
    lost
        Nodes that are gone, with all pods there.
    gone
        Users' pods that were there.
    wrong
        Violations.
    ended
        Placeholders that the replicas ended, by cause.
    handed
        The users' pods that have named a claim, by their uids.
    reserved
        Reservations by claim: the pod, and the end.
    """

    def __init__(
        self, watch: ClusterWatch, time: VirtualTime, namespace: str, replicas: Mapping[str, ReplicaRange], grace: Grace
    ) -> None:
        self.watch = watch
        self.left: set[str] = set()
        self.lost: set[str] = set()
        self.gone: set[str] = set()
        self.wrong: list[str] = []
        self.ended: Counter[str] = Counter()
        self.handed: dict[ObjectKey, set[str]] = {}
        self._time = time
        self._namespace = namespace
        self._replicas = replicas
        self._grace = grace
        self._warm: dict[str, set[ObjectKey]] = {shape: set() for shape in replicas}
        self._node_of: dict[str, str] = {}
        self._made: dict[ObjectKey, datetime] = {}
        self.reserved: dict[ObjectKey, Reservation] = {}
        self._unused_reservations: set[ObjectKey] = set()
        self._terminating: set[str] = set()
        self._losses: list[_Loss] = []
        self._pending_servers: deque[tuple[float, Counter[str]]] = deque()
        self._judged = 0.0
        self._causes: dict[ObjectKey, str] = {}
        self._since: dict[tuple[str, ObjectKey], datetime] = {}
        watch.on_change(self._note)

    # --- objects ----------------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        """Pods of the test that are not terminating."""
        pods = self.watch.snapshot.pods.values()
        return [pod for pod in pods if pod.namespace == self._namespace and not pod.is_deleted]

    def users(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.labels.get(names.COMPONENT) == names.USER_SERVER]

    def running_users(self) -> list[Pod]:
        """Users' pods that have a node and have not finished."""
        return [pod for pod in self.users() if pod.node_name and not pod.is_finished]

    def pending_users(self) -> list[Pod]:
        """Pending users' pods."""
        return [pod for pod in self.users() if not pod.node_name and not pod.is_finished]

    def placeholders(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER]

    def claims(self) -> list[TrackedClaim]:
        claims = self.watch.snapshot.claims.values()
        return [each for each in claims if each.key.namespace == self._namespace]

    def warm(self, shape: str) -> set[ObjectKey]:
        """Warm placeholders, which can be reserved for the next user."""
        return {ObjectKey.of(pod) for pod in self.placeholders() if _shape(pod) == shape and self._is_warm(pod)}

    def _is_warm(self, pod: Pod) -> bool:
        state = self.watch.snapshot.nodes.get(pod.node_name)
        if state is None or pod.is_finished or names.IMAGES_READY not in state.node.labels:
            return False
        claims = [self.watch.snapshot.claims.get(key) for key in claims_named(pod)]
        return all(each is not None and names.RESERVED_FOR not in each.labels for each in claims)

    # --- changes -----------------------------------------------------------------------------------------------------

    def note_decision(self, numbered: NumberedDecision) -> None:
        """A replica has decided something."""
        decision = numbered.decision
        if decision.kind == "delete-placeholder":
            namespace, _, name = decision.subject.removeprefix("Pod ").partition("/")
            self._causes[ObjectKey(namespace, name)] = decision.code
            self.ended[decision.code] += decision.outcome == "done"
            if decision.code == Cause.EXPIRED:
                self._look_at_expiry(ObjectKey(namespace, name), decision.at)
        elif decision.kind == "delete-claim":
            namespace, _, name = decision.subject.removeprefix("ResourceClaim ").partition("/")
            made = self._made.get(ObjectKey(namespace, name), decision.at)
            if decision.at - made < self._grace.orphan - _SLACK:
                self._report(f"claim {name} is deleted as a leftover after {decision.at - made}")

    def _look_at_expiry(self, placeholder: ObjectKey, at: datetime) -> None:
        """A reservation lasts until its end, unless the pod exists but references none of its reserved claims."""
        claims = [key for key in self.reserved if key.name.startswith(f"{placeholder.name}-")]
        until = [self.reserved[key].until for key in claims if key not in self._unused_reservations]
        if until and at < max(until) - _STAMP:
            self._report(f"{placeholder} ended at {at}, and is reserved until {max(until)}")

    def _note(self, change: Change) -> None:
        if change.key.namespace not in ("", self._namespace):
            return
        if change.kind is Kind.POD and change.key.name.startswith("user-"):
            self._look_at_user(change)
        elif change.kind is Kind.POD:
            self._look_at_placeholder(change.key)
        self._look_at_users()
        self._look_at_numbers()
        self._look_at_claims()
        self._look_at_orphans()

    def _look_at_user(self, change: Change) -> None:
        name, pod = change.key.name, self.watch.snapshot.pods.get(change.key)
        if change.type is ChangeType.REMOVED or pod is None:
            self.gone.add(name)
        else:
            self._node_of[name] = pod.node_name
            if not pod.is_deleted:
                return
        if name not in self.left and self._node_of.get(name) not in self.lost:
            self._report(f"{name} was ended by somebody else")

    def _look_at_placeholder(self, key: ObjectKey) -> None:
        """A placeholder stays until the server with its warm claim runs; else the kubelet could unprepare the claim."""
        pod = self.watch.snapshot.pods.get(key)
        if pod is None or not pod.is_deleted or pod.is_preempted or pod.uid in self._terminating:
            return
        self._terminating.add(pod.uid)
        for user in self.running_users():
            shared = set(claims_named(pod)) & set(claims_named(user))
            if shared and not user.is_running and user.node_name not in self.lost:
                self._report(f"{key} goes before {user} runs with its warm claim")

    def _look_at_users(self) -> None:
        for pod in self.users():
            for key in claims_named(pod):
                new_users = self.handed.setdefault(key, set())
                new_users.add(pod.uid)
                if len(new_users) > 1:
                    self._report(f"{key} was given to {len(new_users)} users")
        holders = Counter(each.id for claim in self.claims() for each in claim.claim.status.devices or ())
        for device, count in holders.items():
            if count > 1:
                self._report(f"{device} is {count} claims'")

    def _look_at_numbers(self) -> None:
        counted = Counter(_shape(pod) for pod in self.placeholders())
        pending = self._pending_lately()
        for shape, replicas in self._replicas.items():
            # An administrator's maximum denies no pending server its node.
            most = max(replicas.max, replicas.min + pending[shape])
            if counted[shape] > most:
                self._report(f"{counted[shape]} placeholders of {shape}, {most} at most")
            warm = self.warm(shape)
            lost = self._warm[shape] - warm
            self._losses += [self._loss(key, shape, len(warm)) for key in lost]
            self._warm[shape] = warm

    def _pending_lately(self) -> Counter[str]:
        """By shape, the most servers that were pending at once a short time ago."""
        now = monotonic()
        self._pending_servers.append((now, Counter(_shape(pod) for pod in self.pending_users())))
        while self._pending_servers[0][0] < now - _PENDING_LATELY:
            self._pending_servers.popleft()
        most = Counter[str]()
        for _, pending in self._pending_servers:
            most |= pending
        return most

    def _loss(self, key: ObjectKey, shape: str, left: int) -> _Loss:
        pod = self.watch.snapshot.pods.get(key)
        is_deleted = pod is None or (pod.is_deleted and not pod.is_preempted)
        others = (
            f"{each.name} on {each.node_name or 'no node'}" for each in self.placeholders() if _shape(each) == shape
        )
        return _Loss(key, shape, monotonic(), left, is_deleted, ", ".join(others) or "none")

    def _look_at_claims(self) -> None:
        now = self._time.now()
        for claim in self.claims():
            self._made.setdefault(claim.key, now)
            for each in claim.consumers:
                if each.resource != "pods":
                    self._report(f"{claim.key} has a consumer that is no pod: {each.resource}")
            if (reservation := reservation_of(claim)) is not None:
                self.reserved[claim.key] = reservation
                pod = self.watch.snapshot.pods.get(ObjectKey(claim.key.namespace, reservation.pod))
                if pod is not None and claim.key not in claims_named(pod):
                    self._unused_reservations.add(claim.key)

    def _look_at_orphans(self) -> None:
        found = dict(self._orphans())
        now = self._time.now()
        self._since = {key: self._since.get(key, now) for key in found}

    def _orphans(self) -> Iterator[tuple[tuple[str, ObjectKey], None]]:
        """Claims and placeholders that serve no purpose and that nobody has deleted."""
        named = {key for pod in self.pods() for key in claims_named(pod)}
        for claim in self.claims():
            is_warm = claim.labels.get(names.COMPONENT) == names.PLACEHOLDER
            if is_warm and claim.key not in named and not claim.consumers and not claim.is_deleted:
                yield ("claim", claim.key), None
        for pod in self.placeholders():
            if pod.is_finished or any(key not in self.watch.snapshot.claims for key in claims_named(pod)):
                yield ("placeholder", ObjectKey.of(pod)), None

    def _report(self, text: str) -> None:
        if text not in self.wrong:
            self.wrong.append(text)

    # --- checks after the leader has decided --------------------------------------------------------------------------

    def judge_losses(self) -> None:
        """The floor holds: evictions by the service leave enough warm placeholders."""
        begin, self._judged = self._judged, monotonic() - _TOGETHER
        for loss in self._losses:
            if not begin < loss.at <= self._judged or not self._is_eviction(loss):
                continue
            others = sum(
                each.shape == loss.shape and abs(each.at - loss.at) < _TOGETHER and not self._is_eviction(each)
                for each in self._losses
            )
            floor = self._replicas[loss.shape].effective_floor
            if loss.left + others < floor:
                cause = self._causes[loss.key]
                self._report(
                    f"{loss.key} was evicted ({cause}), and {loss.left} of {floor} are left warm; others: {loss.others}"
                )

    def judge_orphans(self, now: datetime) -> None:
        """Nothing is left over for longer than its grace.

        A reservation has no grace. It is of use until its end, or until its pod has the claim. The leader, which has
        decided by now, removes it in its next round. The policy's grace for orphans is for claims without consumers.

        Parameters
        ----------
        now
            When the leader decided last.
        """
        for (kind, key), since in self._since.items():
            claim = self.watch.snapshot.claims.get(key) if kind in ("claim", "reservation") else None
            reservation = reservation_of(claim)
            grace = timedelta(0) if kind in ("reservation", "unused reservation") else self._grace.orphan
            until = max(since + grace, reservation.until if reservation is not None else since)
            if now > until + _SLACK:
                self._report(f"{kind} {key} is left over since {now - since}")
        for pod in self.placeholders():
            for key in claims_named(pod):
                reservation = reservation_of(self.watch.snapshot.claims.get(key))
                if reservation is not None and key not in self.handed and now > reservation.until + _SLACK:
                    self._report(
                        f"{pod} is reserved for {reservation.pod}, which did not come, {now - reservation.until}"
                    )
        for kind in (Kind.RESOURCE_CLAIM_TEMPLATE, Kind.RESOURCE_CLAIM):
            for key, observed in self.watch.observed_of(kind).items():
                ends = observed.annotations.get(names.START_ENDS, "")
                is_own = key.namespace == self._namespace and not observed.owners and not observed.deleted
                if ends and is_own and now > datetime.fromisoformat(ends) + SWEEP_EVERY + _SLACK:
                    self._report(f"{kind} {key} is left over of a start that ended at {ends}")

    def judge_users(self, spoiled: Collection[str]) -> None:
        """Users keep their claims.

        Parameters
        ----------
        spoiled
            Claims that an administrator deleted.
        """
        for pod in self.users():
            for key in claims_named(pod):
                claim = self.watch.snapshot.claims.get(key)
                stays = pod.name not in self.left and pod.node_name not in self.lost and key.name not in spoiled
                if stays and (claim is None or claim.is_deleted):
                    self._report(f"{key} of {pod} is {'gone' if claim is None else 'being deleted'}")

    def _is_eviction(self, loss: _Loss) -> bool:
        cause = self._causes.get(loss.key)
        return loss.is_deleted and cause is not None and Cause(cause).is_eviction


def _shape(pod: Pod) -> str:
    return pod.labels.get(names.SHAPE, "")


def claims_named(pod: Pod) -> list[ObjectKey]:
    """Claims that a pod names, without claims made from templates."""
    return [ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim and each.template is None]

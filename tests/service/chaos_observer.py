"""Sees a cluster by a connection of its own, and notes whatever must never be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from dra_spawner import names
from dra_spawner.history.decision_log import NumberedDecision
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.policy import Grace, ReplicaRange
from dra_spawner.placeholders.planner.view import Reservation, reservation_of
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod
from tests.service.chaos_hub import SWEEP_EVERY
from tests.service.virtual_replica import VirtualTime

#: Stamps and labels have whole seconds, and rounds take their time.
_SLACK = timedelta(seconds=5)
_STAMP = timedelta(seconds=1)
#: What happens within so many real seconds, a leader may not have seen when it decided.
_TOGETHER = 0.5


@dataclass(frozen=True, slots=True)
class _Loss:
    """A placeholder that was warm and is not any more.

    Attributes
    ----------
    left
        How many of its shape are warm then.
    """

    key: ObjectKey
    shape: str
    at: float
    left: int


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
        What must never be, and was.
    ended
        Placeholders that the replicas ended, by cause.
    handed
        The users' pods that have named a claim, by their uids.
    reserved
        To whom claims were promised, and until when.
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
        self._judged = 0.0
        self._causes: dict[ObjectKey, str] = {}
        self._since: dict[tuple[str, ObjectKey], datetime] = {}
        watch.on_change(self._note)

    # --- what there is -----------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        """Of the test, those on their way out not included."""
        pods = self.watch.snapshot.pods.values()
        return [pod for pod in pods if pod.namespace == self._namespace and not pod.is_deleted]

    def users(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.labels.get(names.COMPONENT) == names.USER_SERVER]

    def running_users(self) -> list[Pod]:
        """Those that have a node and have not finished."""
        return [pod for pod in self.users() if pod.node_name and not pod.is_finished]

    def pending_users(self) -> list[Pod]:
        """Those without a node."""
        return [pod for pod in self.users() if not pod.node_name and not pod.is_finished]

    def placeholders(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER]

    def claims(self) -> list[TrackedClaim]:
        claims = self.watch.snapshot.claims.values()
        return [each for each in claims if each.key.namespace == self._namespace]

    def warm(self, shape: str) -> set[ObjectKey]:
        """Placeholders that keep a place which the next user can have."""
        return {ObjectKey.of(pod) for pod in self.placeholders() if _shape(pod) == shape and self._is_warm(pod)}

    def _is_warm(self, pod: Pod) -> bool:
        state = self.watch.snapshot.nodes.get(pod.node_name)
        if state is None or pod.is_finished or names.IMAGES_READY not in state.node.labels:
            return False
        claims = [self.watch.snapshot.claims.get(key) for key in claims_named(pod)]
        return all(each is not None and names.RESERVED_FOR not in each.labels for each in claims)

    # --- what happens ------------------------------------------------------------------------------------------------

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
                self._tell(f"claim {name} is deleted as a leftover after {decision.at - made}")

    def _look_at_expiry(self, placeholder: ObjectKey, at: datetime) -> None:
        """Who is promised a place has all of the time that he was told, unless he comes without it."""
        claims = [key for key in self.reserved if key.name.startswith(f"{placeholder.name}-")]
        until = [self.reserved[key].until for key in claims if key not in self._unused_reservations]
        if until and at < max(until) - _STAMP:
            self._tell(f"{placeholder} ended at {at}, and is promised until {max(until)}")

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
            self._tell(f"{name} was ended by somebody else")

    def _look_at_placeholder(self, key: ObjectKey) -> None:
        """A server joins what a placeholder keeps prepared: its kubelet may lose it if that goes before it runs."""
        pod = self.watch.snapshot.pods.get(key)
        if pod is None or not pod.is_deleted or pod.is_preempted or pod.uid in self._terminating:
            return
        self._terminating.add(pod.uid)
        for user in self.running_users():
            shared = set(claims_named(pod)) & set(claims_named(user))
            if shared and not user.is_running and user.node_name not in self.lost:
                self._tell(f"{key} goes before {user} runs with what it kept")

    def _look_at_users(self) -> None:
        for pod in self.users():
            for key in claims_named(pod):
                takers = self.handed.setdefault(key, set())
                takers.add(pod.uid)
                if len(takers) > 1:
                    self._tell(f"{key} was given to {len(takers)} users")
        holders = Counter(each.id for claim in self.claims() for each in claim.claim.status.devices or ())
        for device, count in holders.items():
            if count > 1:
                self._tell(f"{device} is {count} claims'")

    def _look_at_numbers(self) -> None:
        counted = Counter(_shape(pod) for pod in self.placeholders())
        for shape, replicas in self._replicas.items():
            if counted[shape] > replicas.max:
                self._tell(f"{counted[shape]} placeholders of {shape}, {replicas.max} at most")
            warm = self.warm(shape)
            lost = self._warm[shape] - warm
            self._losses += [_Loss(key, shape, monotonic(), len(warm)) for key in lost]
            self._warm[shape] = warm

    def _look_at_claims(self) -> None:
        now = self._time.now()
        for claim in self.claims():
            self._made.setdefault(claim.key, now)
            for each in claim.consumers:
                if each.resource != "pods":
                    self._tell(f"{claim.key} has a consumer that is no pod: {each.resource}")
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
        """Claims, promises and placeholders that are good for nothing, and whose end nobody has asked for."""
        named = {key for pod in self.pods() for key in claims_named(pod)}
        for claim in self.claims():
            is_warm = claim.labels.get(names.COMPONENT) == names.PLACEHOLDER
            if is_warm and claim.key not in named and not claim.consumers and not claim.is_deleted:
                yield ("claim", claim.key), None
        for pod in self.placeholders():
            if pod.is_finished or any(key not in self.watch.snapshot.claims for key in claims_named(pod)):
                yield ("placeholder", ObjectKey.of(pod)), None

    def _tell(self, text: str) -> None:
        if text not in self.wrong:
            self.wrong.append(text)

    # --- what must be so once the leader has had its say ---------------------------------------------------------------

    def judge_losses(self) -> None:
        """The floor holds: what the service itself moved about left as many warm as must be."""
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
                self._tell(f"{loss.key} was evicted ({cause}), and {loss.left} of {floor} are left warm")

    def judge_orphans(self) -> None:
        """Nothing is left over for longer than its grace.

        A promise among the consumers has none: it is of use until the moment it ends, or its pod has the claim, and the
        leader, which has had its say by now, takes it away in its next round. Of the policy's times none comes between:
        that for orphans is for what is left then, a claim without consumers.
        """
        now = self._time.now()
        for (kind, key), since in self._since.items():
            claim = self.watch.snapshot.claims.get(key) if kind in ("claim", "promise") else None
            reservation = reservation_of(claim)
            grace = timedelta(0) if kind in ("promise", "kept promise") else self._grace.orphan
            until = max(since + grace, reservation.until if reservation is not None else since)
            if now > until + _SLACK:
                self._tell(f"{kind} {key} is left over since {now - since}")
        for pod in self.placeholders():
            for key in claims_named(pod):
                reservation = reservation_of(self.watch.snapshot.claims.get(key))
                if reservation is not None and key not in self.handed and now > reservation.until + _SLACK:
                    self._tell(f"{pod} is kept for {reservation.pod}, which did not come, {now - reservation.until}")
        for kind in (Kind.RESOURCE_CLAIM_TEMPLATE, Kind.RESOURCE_CLAIM):
            for key, observed in self.watch.observed_of(kind).items():
                ends = observed.annotations.get(names.START_ENDS, "")
                is_own = key.namespace == self._namespace and not observed.owners and not observed.deleted
                if ends and is_own and now > datetime.fromisoformat(ends) + SWEEP_EVERY + _SLACK:
                    self._tell(f"{kind} {key} is left over of a start that ended at {ends}")

    def judge_users(self, spoiled: Collection[str]) -> None:
        """Nobody takes from a user what he has.

        Parameters
        ----------
        spoiled
            Claims that somebody deleted who is none of us.
        """
        for pod in self.users():
            for key in claims_named(pod):
                claim = self.watch.snapshot.claims.get(key)
                stays = pod.name not in self.left and pod.node_name not in self.lost and key.name not in spoiled
                if stays and (claim is None or claim.is_deleted):
                    self._tell(f"{key} of {pod} is {'gone' if claim is None else 'being deleted'}")

    def _is_eviction(self, loss: _Loss) -> bool:
        cause = self._causes.get(loss.key)
        return cause is not None and Cause(cause).is_eviction


def _shape(pod: Pod) -> str:
    return pod.labels.get(names.SHAPE, "")


def claims_named(pod: Pod) -> list[ObjectKey]:
    """Claims that a pod names, other than those made for it."""
    return [ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim and each.template is None]

"""The world of the chaos: a cluster with two replicas and a hub, whose clock jumps; and its invariants.

Whole replicas of the service run in it, each with a network of its own that fails; other worlds have one reconciler or none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import PATIENCE_SECONDS, eventually
from tests.service.chaos_hub import Hub, Start
from tests.service.chaos_observer import Observer, claims_named
from tests.service.replica import writes
from tests.service.virtual_replica import VirtualReplica, VirtualTime

T = TypeVar("T")

#: Watches last 30 s, and nothing is decided on a view of the cluster that is 60 s old.
_LONGEST_JUMP = timedelta(seconds=20)


class ChaosWorld:
    """See the module.

    Attributes
    ----------
    nodes
        Names of the nodes that exist.
    slow_starts
        Starts that asked for a placement and have made no pod yet.
    did
        Number of events by name.
    waited
        Number of pending users' pods seen, by the first words of the cause.
    """

    def __init__(
        self,
        cluster: ClusterUnderTest,
        time: VirtualTime,
        observer: Observer,
        hub: Hub,
        replicas: list[VirtualReplica],
    ) -> None:
        self.cluster = cluster
        self.time = time
        self.observer = observer
        self.hub = hub
        self.replicas = replicas
        self.begun = time.now()
        self.nodes: list[str] = []
        self.slow_starts: list[Start] = []
        self.did: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()

    @property
    def lasted(self) -> timedelta:
        return self.time.now() - self.begun

    async def start(self, replica: VirtualReplica) -> None:
        running = await replica.start()
        running.context.decisions.on_append(self.observer.note_decision)

    async def heal(self) -> None:
        for each in self.replicas:
            each.heal()

    # --- time ----------------------------------------------------------------------------------------------------------

    async def pass_time(self, seconds: float) -> None:
        """Go ahead in short steps, so that the view of the cluster stays fresh unless the network is broken."""
        end = self.time.now() + timedelta(seconds=seconds)
        while (now := self.time.now()) < end:
            self.time.clock.jump_to(min(now + _LONGEST_JUMP, end))
            for each in self.replicas:
                each.note_jump()
            with contextlib.suppress(AssertionError):  # a fault of the network may last
                await self.until(
                    lambda: all(each.is_fresh for each in self.replicas), "the view of the cluster is fresh", 0.3
                )

    async def pods_of_lost_nodes_go(self) -> None:
        """As kube-controller-manager removes them, only sooner; also terminating ones, which have no kubelet any more."""
        for pod in list(self.observer.watch.snapshot.pods.values()):
            if pod.namespace == self.cluster.namespace and pod.node_name in self.observer.lost:
                path = self.cluster.path("pods", pod.name)
                await self.cluster.admin.delete(path, grace_period_seconds=0, missing_ok=True)
        self.hub.users = [name for name in self.hub.users if name not in self.observer.gone]

    async def settle(self) -> None:
        """All trouble is over, and the leader has acted on the present state."""
        await self.heal()
        slow, self.slow_starts = self.slow_starts, []
        for start in slow:
            await self.hub.finish(start)
        await self.pods_of_lost_nodes_go()
        await self.hub.sweep()
        since = self.time.now()
        at = await self.until(lambda: self._done_at(since), "the leader is done")
        self.observer.judge_orphans(at)
        self.observer.judge_losses()
        self.observer.judge_users(self.hub.spoiled)

    def _done_at(self, since: datetime) -> datetime | None:
        """When the leader decided that there is nothing to do, from all that the observer knows; None if it did not."""
        for replica in self.replicas:
            if not replica.leads:
                continue
            controller = replica.running.controller
            decided, latest = replica.running.context.decisions.decided_at, controller.latest
            if latest is None or latest.on_hold or latest.actions or decided is None or decided < since:
                continue
            if all(
                _versions(controller.watch, kind, self.cluster.namespace)
                == _versions(self.observer.watch, kind, self.cluster.namespace)
                for kind in (Kind.NODE, Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE)
            ):
                return decided
        return None

    async def until(self, condition: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
        """Wait for something, at real speed; the first true answer."""
        return await eventually(condition, what, seconds, shows=self.picture, pause_seconds=0.01)

    # --- what must hold --------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        for each in self.replicas:
            if each.is_running:
                await self.check_causes(each)
        await self.check_running()
        assert self.observer.wrong + self.hub.wrong == [], self.picture()
        assert sum(each.leads for each in self.replicas) <= 1, self.picture()

    async def check_running(self) -> None:
        """A running pod has all of its claims, and is among their consumers: no other claim can get the devices.

        Claims are read after the pods were seen to run, as a watch may show a pod before it shows its claims.
        """
        running = self.observer.running_users()
        answer = await self.cluster.admin.list(self.cluster.path("resourceclaims"))
        claims = {claim.key: claim for claim in map(TrackedClaim.from_json, answer["items"])}
        for pod in running:
            found = [claims.get(key) for key in claims_named(pod)]
            found += [claim for claim in claims.values() if claim.belongs_to(pod)]
            is_whole = all(each is not None and each.claim.is_allocated and each.is_reserved_for(pod) for each in found)
            if (len(found) < len(pod.claims) or not is_whole) and await self._still_runs(pod):
                shown = [each and (str(each.key), each.claim.status) for each in found]
                raise AssertionError(f"{pod} runs on {pod.node_name} without its claims: {shown}\n{self.picture()}")

    async def _still_runs(self, pod: Pod) -> bool:
        """Whether the pod still runs: an ended pod loses its claims."""
        try:
            seen = await self.cluster.admin.get(self.cluster.path("pods", pod.name))
        except KubernetesError as error:
            if error.not_found:
                return False
            raise
        is_same = seen["metadata"]["uid"] == pod.uid and "deletionTimestamp" not in seen["metadata"]
        return is_same and seen["status"].get("phase") not in ("Succeeded", "Failed")

    async def check_causes(self, replica: VirtualReplica) -> None:
        """The API names a cause for every pending user's pod; a replica that is cut off, for the pods that it knows.

        The standby does so, too, as it sees the same cluster.
        """
        service = replica.running
        blind = [each for each in self.replicas if each.is_cut_off and (each is replica or each.leads)]
        for _ in range(500):
            answer = {each["name"]: each["cause"] for each in (await service.get_json("pending-servers"))["items"]}
            pending = {pod.name for pod in self.observer.pending_users()}
            for each in blind:
                pending &= {pod.name for pod in each.running.controller.watch.snapshot.pods.values()}
            missing = [name for name in pending if not answer.get(name)]
            if not missing:
                self.waited.update(_kind_of_cause(answer[name]) for name in pending)
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"no cause is named for {missing}\n{self.picture()}")

    def picture(self) -> str:
        """The state of the world, for the message of a failure."""
        lines = [
            *self.observer.wrong,
            *self.hub.wrong,
            f"{self.lasted} {dict(self.did)} {dict(self.waited)} {dict(self.observer.ended)} {dict(self.seen())}",
        ]
        for each in self.replicas:
            if each.is_running:
                newest = [numbered.decision for numbered in each.running.context.decisions.newest(15)]
                lines += [f"{each.running.url} leads: {each.leads} problems: {each.running.context.problems()}"]
                lines += [
                    f"  {each.at:%H:%M:%S} {each.kind} {each.subject} {each.code} {each.reason} {each.outcome}"
                    for each in newest
                ]
        lines += [
            f"{pod.name} on {pod.node_name} {pod.phase} {[each.claim for each in pod.claims]}"
            for pod in self.observer.pods()
        ]
        lines += [f"{each.key} {each.labels} {each.consumers}" for each in self.observer.claims()]
        return "\n".join(lines)

    def seen(self) -> Counter[str]:
        """Counts of the events that a run must contain."""
        observer = self.observer
        in_vain = sum(key not in observer.handed for key in observer.reserved)
        return Counter(
            {"handed over": self.hub.handed_over, "reserved": len(observer.reserved), "reserved in vain": in_vain}
        )

    def done_so_far(self) -> list[int]:
        """Numbers of decisions of running replicas, and of writes that each replica tried."""
        decided = [each.running.context.decisions.count for each in self.replicas if each.is_running]
        return decided + [len(writes(each.proxy)) for each in self.replicas]


def _versions(watch: ClusterWatch, kind: Kind, namespace: str) -> dict[ObjectKey, str]:
    return {
        key: observed.resource_version
        for key, observed in watch.observed_of(kind).items()
        if key.namespace in ("", namespace)
    }


def _kind_of_cause(cause: str) -> str:
    """Its first words."""
    return " ".join(word for word in cause.split()[:4] if not any(each.isdigit() for each in word))

"""Half an hour of anything that can happen to a cluster, its hub and two replicas, on clusters as they are.

The clock jumps, the cluster does not: API server, scheduler, controllers and kubelet are at work in real time. What must
always hold is checked after every step, by an observer with a connection of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.cluster.api import KubernetesError, resource_path
from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.headroom.policy import Grace, Headroom
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import RESOURCE_API, ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.world import IMAGE, claim_spec, shape
from tests.service.chaos_hub import Choice, Death, Hub, Start
from tests.service.chaos_observer import Observer, claims_named
from tests.service.replica import WHOLE, node, prepare, publish_shapes
from tests.service.test_faults import writes
from tests.service.virtual_replica import VirtualReplica, VirtualTime
from tests.virtual_time.api import VirtualTimeApi

pytestmark = pytest.mark.timeout(240)

#: More than the one of CI where somebody looks for trouble: ``DRA_SPAWNER_CHAOS_SEEDS=20``.
SEEDS = int(os.environ.get("DRA_SPAWNER_CHAOS_SEEDS", "1"))
LONG = timedelta(minutes=30)
GPU, PLAIN = shape(WHOLE), shape({})
PAIR = {"gpu": claim_spec()}
PAIR["gpu"]["devices"]["requests"][0]["exactly"]["count"] = 2
CHOICES = {
    "gpu": Choice(GPU, WHOLE),
    "plain": Choice(PLAIN, {}),
    # Nothing is kept for it; placeholders make way.
    "pair": Choice(shape(PAIR), PAIR),
}
HEADROOM = {"gpu": Headroom(2, 5), "plain": Headroom(2, 4)}
GRACE = Grace(orphan=timedelta(seconds=60))
MOST_NODES, MOST_USERS = 4, 12
FAULTS = (
    Fault.lose_answer(),
    Fault.refuse(),
    Fault.hold(),
    Fault.hold_answer(),
    *(Fault.answer(status) for status in (403, 409, 422, 429, 500, 503)),
)
WRITES = (
    ("create", "pods"),
    ("create", "resourceclaims"),
    ("patch", "resourceclaims"),
    ("patch", "pods"),
    ("delete", "pods"),
    ("delete", "resourceclaims"),
    ("update", "resourceclaims/status"),
    ("patch", "nodes"),
    ("get", "resourceclaims"),
)


#: Watches last 30 s, and nothing is decided on knowledge that is 60 s old.
_LONGEST_JUMP = timedelta(seconds=20)


class Chaos:
    """Does one random thing after the other."""

    def __init__(
        self,
        cluster: ClusterUnderTest,
        seed: int,
        time: VirtualTime,
        observer: Observer,
        hub: Hub,
        replicas: list[VirtualReplica],
    ) -> None:
        self.cluster = cluster
        self.time = time
        self.random = random.Random(seed)
        self.observer = observer
        self.hub = hub
        self.replicas = replicas
        self.begun = time.now()
        self.nodes: list[str] = []
        self.slow_starts: list[Start] = []
        self.did: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()
        self.number = 0
        self.cards: list[Callable[[], Any]] = []

    @property
    def lasted(self) -> timedelta:
        return self.time.now() - self.begun

    async def step(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 3))):
            happening = self.next_happening()
            self.did[happening.__name__] += 1
            await happening()
        await self.pass_time(self.random.choice((0.5, 2, 5, 15, 30, 60)))
        if self.random.random() < 0.7:
            await self.settle()
        await self.check()

    def next_happening(self) -> Callable[[], Any]:
        """As from a pack of cards, so that each comes soon enough."""
        if not self.cards:
            happenings: dict[Callable[[], Any], int] = {
                self.arrive: 16,
                self.leave: 8,
                self.node_comes: 4,
                self.node_is_lost: 3,
                self.images_come: 3,
                self.placeholder_fails: 1,
                self.claim_is_deleted: 1,
                self.requests_fail: 8,
                self.watches_are_cut: 3,
                self.api_is_away: 1,
                self.leader_is_killed: 1,
                self.leader_stops: 1,
                self.leader_is_cut_off: 1,
            }
            self.cards = [each for each, count in happenings.items() for _ in range(count)]
            self.random.shuffle(self.cards)
        return self.cards.pop()

    # --- users ---------------------------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        """With a question where there is a place, at once or slowly, or without; some hubs die midway."""
        if len(self.hub.users) >= MOST_USERS:
            return
        self.number += 1
        choice = self.random.choices(list(CHOICES), (7, 3, 1))[0]
        deaths = (Death.NEVER, *Death) if self.random.random() < 0.3 else (Death.NEVER,)
        start = Start(f"user-{self.number}-{choice}", CHOICES[choice], self.random.choice(deaths))
        running = [each.running for each in self.replicas if each.is_running]
        if running and self.random.random() < 0.8:
            await self.hub.ask(start, self.random.choice(running))
        if start.answer is not None and self.random.random() < 0.3:
            self.slow_starts.append(start)
        else:
            await self.hub.finish(start)

    async def leave(self) -> None:
        if self.hub.users:
            name = self.random.choice(self.hub.users)
            self.observer.left.add(name)
            await self.hub.stop(name)

    # --- nodes ---------------------------------------------------------------------------------------------------------

    async def node_comes(self, devices: int = 2) -> None:
        if len(self.nodes) >= MOST_NODES:
            return
        self.number += 1
        name = f"node-{self.number}"
        images = (IMAGE,) if self.random.random() < 0.7 else ()
        self.nodes.append(name)
        await self.cluster.publish(*node(name, *(whole(f"gpu-{each}") for each in range(devices)), images=images))

    async def node_is_lost(self) -> None:
        """With its pods and what its driver has published."""
        if len(self.nodes) < 2:
            return
        name = self.nodes.pop(self.random.randrange(len(self.nodes)))
        self.observer.lost.add(name)
        await self.cluster.remove_node(name)
        await self.cluster.admin.delete(
            resource_path(RESOURCE_API, "resourceslices", name=f"{name}-gpu.example.com"), missing_ok=True
        )

    async def pods_of_lost_nodes_go(self) -> None:
        """As kube-controller-manager removes them, only sooner."""
        for pod in self.observer.pods():
            if pod.node_name in self.observer.lost:
                path = self.cluster.path("pods", pod.name)
                await self.cluster.admin.delete(path, grace_period_seconds=0, missing_ok=True)
        self.hub.users = [name for name in self.hub.users if name not in self.observer.gone]

    async def images_come(self) -> None:
        """Every node has pulled all images."""
        body = {"status": {"images": [{"names": [IMAGE], "sizeBytes": 1}]}}
        for name in self.nodes:
            await self.cluster.admin.patch(resource_path("v1", "nodes", name=name, subresource="status"), body)

    async def placeholder_fails(self) -> None:
        """As when a node is short of memory: the kubelet ends the pod, and leaves it there."""
        if kept := sorted(pod.name for pod in self.observer.placeholders() if pod.node_name):
            body = {"status": {"phase": "Failed", "reason": "Evicted"}}
            path = self.cluster.path("pods", self.random.choice(kept), "status")
            with contextlib.suppress(KubernetesError):  # it has gone meanwhile
                await self.cluster.admin.patch(path, body)

    async def claim_is_deleted(self) -> None:
        """By an administrator who takes it for a leftover."""
        if warm := sorted(key.name for pod in self.observer.placeholders() for key in claims_named(pod)):
            name = self.random.choice(warm)
            self.hub.spoiled.add(name)
            await self.cluster.admin.delete(self.cluster.path("resourceclaims", name), missing_ok=True)

    # --- trouble -------------------------------------------------------------------------------------------------------

    async def requests_fail(self) -> None:
        for _ in range(self.random.choice((1, 2, 4))):
            verb, resource = self.random.choice(WRITES)
            proxy = self.random.choice(self.replicas).proxy
            proxy.fail(self.random.choice(FAULTS), verb=verb, resource=resource, times=self.random.choice((1, 2, 3)))

    async def watches_are_cut(self) -> None:
        self.random.choice(self.replicas).proxy.cut()

    async def api_is_away(self) -> None:
        """For up to ten minutes, in which nothing is decided as soon as what is known is too old."""
        for each in self.replicas:
            each.cut_off()
        await self.pass_time(90)
        await self.check()
        # What is under way comes to its end.
        await self.until(
            lambda: all(not each.is_running or each.is_frozen for each in self.replicas), "nothing is done"
        )
        before = self.done_so_far()
        for _ in range(self.random.choice((1, 3, 8))):
            await self.pass_time(60)
            await self.check()
        assert self.done_so_far() == before, self.picture()
        await self.heal()

    def done_so_far(self) -> list[int]:
        """Of each replica, what it decided and what it tried to write."""
        decided = [each.running.context.decisions.count for each in self.replicas if each.is_running]
        return decided + [len(writes(each.proxy)) for each in self.replicas]

    async def leader_is_killed(self) -> None:
        """In the middle of whatever it does; another begins with what is in the cluster."""
        for each in [each for each in self.replicas if each.leads]:
            await each.kill()
            await self.start(each)

    async def leader_stops(self) -> None:
        """As with a new version of the service."""
        for each in [each for each in self.replicas if each.leads]:
            await each.stop()
            await self.start(each)

    async def leader_is_cut_off(self) -> None:
        """It is alone in the world, and comes back when another leads."""
        for each in [each for each in self.replicas if each.leads]:
            each.cut_off()
            others = [other for other in self.replicas if other is not each]
            for other in others:
                other.heal()
            await self.pass_time(20)
            await self.check()
            await self.until(lambda: any(other.leads for other in others), "another leads")  # noqa: B023
            await self.check()
            each.heal()

    async def start(self, replica: VirtualReplica) -> None:
        running = await replica.start()
        running.context.decisions.on_append(self.observer.note_decision)

    async def heal(self) -> None:
        for each in self.replicas:
            each.heal()

    # --- time ----------------------------------------------------------------------------------------------------------

    async def pass_time(self, seconds: float) -> None:
        """Go ahead in steps so short that what is known stays fresh, where nothing is in its way."""
        end = self.time.now() + timedelta(seconds=seconds)
        while (now := self.time.now()) < end:
            self.time.clock.jump_to(min(now + _LONGEST_JUMP, end))
            for each in self.replicas:
                each.note_jump()
            with contextlib.suppress(AssertionError):  # what is done to the network may last
                await self.until(lambda: all(each.is_fresh for each in self.replicas), "what is known is fresh", 0.3)

    async def settle(self) -> None:
        """All trouble is over, and the leader has done what it sees as of now."""
        await self.heal()
        slow, self.slow_starts = self.slow_starts, []
        for start in slow:
            await self.hub.finish(start)
        await self.pods_of_lost_nodes_go()
        await self.hub.sweep()
        since = self.time.now()
        await self.until(lambda: any(self._is_done(each, since) for each in self.replicas), "the leader is done")
        self.observer.judge_orphans()
        self.observer.judge_losses()

    def _is_done(self, replica: VirtualReplica, since: Any) -> bool:
        if not replica.leads:
            return False
        keeper = replica.running.keeper
        decided, latest = replica.running.context.decisions.decided_at, keeper.latest
        if latest is None or latest.frozen or latest.actions or decided is None or decided < since:
            return False
        return all(
            _versions(keeper.watch, kind, self.cluster.namespace)
            == _versions(self.observer.watch, kind, self.cluster.namespace)
            for kind in (Kind.NODE, Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE)
        )

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 25) -> None:
        """Wait for something, at real speed."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110 (what is looked at is not always a change)
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not seen in {seconds} s: {what}\n{self.picture()}") from None

    # --- what must hold --------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        for each in self.replicas:
            if each.is_running:
                await self.check_causes(each)
        assert self.observer.wrong + self.hub.wrong == [], self.picture()

    async def check_causes(self, replica: VirtualReplica) -> None:
        """Every user's pod that waits has a cause that the API names; of a replica that is cut off, those it knows."""
        service = replica.running
        for _ in range(500):
            answer = {each["name"]: each["cause"] for each in (await service.get_json("waiting"))["items"]}
            waiting = {pod.name for pod in self.observer.waiting_users()}
            if replica.is_cut_off:
                waiting &= {pod.name for pod in service.keeper.watch.snapshot.pods.values()}
            missing = [name for name in waiting if not answer.get(name)]
            if not missing:
                self.waited.update(_kind_of_cause(answer[name]) for name in waiting)
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"no cause is named for {missing}\n{self.picture()}")

    def picture(self) -> str:
        """What somebody wants to see who looks for the reason."""
        told = [f"{self.lasted} {dict(self.did)}"]
        for each in self.replicas:
            if each.is_running:
                newest = [numbered.decision for numbered in each.running.context.decisions.newest(15)]
                told += [f"{each.running.url} leads: {each.leads} problems: {each.running.context.problems()}"]
                told += [
                    f"  {each.at:%H:%M:%S} {each.kind} {each.subject} {each.code} {each.reason} {each.outcome}"
                    for each in newest
                ]
        told += [
            f"{pod.name} on {pod.node_name} {pod.phase} {[each.claim for each in pod.claims]}"
            for pod in self.observer.pods()
        ]
        told += [f"{each.key} {each.labels} {each.consumers}" for each in self.observer.claims()]
        return "\n".join(told)

    # --- the end ---------------------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Trouble ends: everything comes to rest, and nothing is left over."""
        while len(self.nodes) < MOST_NODES:
            await self.node_comes()
        while len(self.hub.users) > 3:
            await self.leave()
        await self.images_come()
        for _ in range(10):
            await self.pass_time(120)
            await self.settle()
            await self.check()
        await self.until(lambda: not self.restless(), "all is at rest", seconds=40)
        before = self.done_so_far()
        for _ in range(3):
            await self.pass_time(200)
            await self.settle()
            await self.check()
        assert self.done_so_far() == before, self.picture()
        assert self.restless() == [], self.picture()

    def restless(self) -> list[str]:
        """What is not as it is to be in the end."""
        observer = self.observer
        found = [f"{pod} waits" for pod in observer.pods() if not pod.node_name]
        for name, headroom in HEADROOM.items():
            of_shape = CHOICES[name].shape.id
            if len(observer.warm(of_shape)) != headroom.min:
                found.append(f"{len(observer.warm(of_shape))} places for {name}")
        pods = observer.pods()
        named = {ObjectKey(pod.namespace, each.claim) for pod in pods for each in pod.claims if each.claim}
        found += [f"{each.key} is left over" for each in observer.claims() if each.key not in named]
        found += [f"{each.key} is promised" for each in observer.claims() if self._is_promised(each.key)]
        templates = {each.template for pod in pods for each in pod.claims}
        found += [
            f"{key} is left over"
            for key in observer.watch.observed_of(Kind.RESOURCE_CLAIM_TEMPLATE)
            if key.namespace == self.cluster.namespace and key.name not in templates
        ]
        return found

    def _is_promised(self, key: ObjectKey) -> bool:
        claim = self.observer.watch.snapshot.claims[key]
        return labels.RESERVED_FOR in claim.labels and key not in self.observer.handed


def _versions(watch: ClusterWatch, kind: Kind, namespace: str) -> dict[ObjectKey, str]:
    return {
        key: observed.resource_version
        for key, observed in watch.observed_of(kind).items()
        if key.namespace in ("", namespace)
    }


def _kind_of_cause(cause: str) -> str:
    """Its first words."""
    return " ".join(word for word in cause.split()[:4] if not any(each.isdigit() for each in word))


@contextlib.asynccontextmanager
async def chaos_on(cluster: ClusterUnderTest, seed: int) -> AsyncIterator[Chaos]:
    """Two replicas at work, and who does them no good."""
    await prepare(cluster)
    await publish_shapes(cluster, {name: CHOICES[name].shape for name in CHOICES})
    traits: dict[str, Any] = {
        "headroom": {name: {"min": each.min, "max": each.max} for name, each in HEADROOM.items()},
        "orphan_seconds": GRACE.orphan.total_seconds(),
        "drain_after_seconds": 120.0,
        "new_node_seconds": 300.0,
        "ready_deadline_seconds": 400.0,
    }
    time = VirtualTime()
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(await VirtualTimeApi.connect(cluster.admin_kubeconfig, time.stamps))
        watch = await stack.enter_async_context(ClusterWatch(api))
        await watch.wait_synced()
        by_shape = {CHOICES[name].shape.id: each for name, each in HEADROOM.items()}
        observer = Observer(watch, time, cluster.namespace, by_shape, GRACE)
        replicas = []
        for _ in range(2):
            proxy = await stack.enter_async_context(cluster.fault_proxy())
            replicas.append(VirtualReplica(cluster, time, proxy, traits))
        chaos = Chaos(cluster, seed, time, observer, Hub(cluster, time, api), replicas)
        for _ in range(3):
            await chaos.node_comes()
        for each in replicas:
            stack.push_async_callback(each.stop)
            await chaos.start(each)
        yield chaos


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_chaos(cluster: ClusterUnderTest, seed: int) -> None:
    async with chaos_on(cluster, seed) as chaos:
        await chaos.images_come()
        await chaos.settle()
        while chaos.lasted < LONG:
            await chaos.step()
        await chaos.rest()
        assert chaos.hub.taken_over >= 3, chaos.did
        print(chaos.did, chaos.observer.ended, chaos.waited, chaos.hub.taken_over)

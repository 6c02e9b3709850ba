"""Random events of a cluster, its hub and the replicas."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any

from dra_spawner.kube.client.api import KubernetesError, resource_path
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import RESOURCE_API
from tests.integration.devices import whole
from tests.placeholders.controller.objects import IMAGE, WHOLE, claim_spec, shape
from tests.placeholders.controller.objects import node as node_objects
from tests.service.chaos_hub import Choice, Death, Start
from tests.service.chaos_observer import claims_named
from tests.service.chaos_world import ChaosWorld

PAIR = {"gpu": claim_spec()}
PAIR["gpu"]["devices"]["requests"][0]["exactly"]["count"] = 2
BOTH = {"one": claim_spec(), "other": claim_spec()}
#: Of a node's eight CPUs: a user's pod does not fit beside its placeholder, which is deleted before the pod runs.
_MOST_OF_A_NODE = "5"


def _choice(claims: Mapping[str, Any], cpu: str = "1") -> Choice:
    return Choice(shape(claims, cpu), claims, cpu)


CHOICES = {
    "gpu": _choice(WHOLE),
    "plain": _choice({}),
    "full": _choice(WHOLE, _MOST_OF_A_NODE),
    "both": _choice(BOTH, _MOST_OF_A_NODE),
    # It has no placeholders; others are preempted for it.
    "pair": _choice(PAIR),
}
#: How often each is chosen.
_SHARES = (4, 2, 6, 2, 1)
MAX_NODES, MAX_USERS = 6, 8
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
    ("patch", "resourceclaims/status"),
    ("patch", "nodes"),
    ("get", "resourceclaims"),
)


class Chaos(ChaosWorld):
    """Does one random thing after the other."""

    def __init__(self, seed: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.random = random.Random(seed)
        self.number = 0
        self.cards: list[Callable[[], Any]] = []

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
        """The next event, as from a pack of cards, so that each event comes soon enough."""
        if not self.cards:
            happenings: dict[Callable[[], Any], int] = {
                self.user: 18,
                self.leave: 12,
                self.node: 6,
                self.lose_node: 3,
                self.pull: 3,
                self.placeholder_fails: 1,
                self.claim_is_deleted: 1,
                self.requests_fail: 8,
                self.watches_are_cut: 3,
                self.api_is_away: 1,
                self.watches_stay_broken: 1,
                self.pods_are_unseen: 2,
                self.many_ask: 1,
                self.leader_is_killed: 1,
                self.leader_stops: 1,
                self.leader_is_cut_off: 1,
            }
            self.cards = [each for each, count in happenings.items() for _ in range(count)]
            self.random.shuffle(self.cards)
        return self.cards.pop()

    # --- users ---------------------------------------------------------------------------------------------------------

    async def user(self) -> None:
        """A user arrives; the hub may ask for a placement, start the server slowly, or die midway."""
        if len(self.hub.users) >= MAX_USERS:
            return
        self.number += 1
        choice = self.random.choices(list(CHOICES), _SHARES)[0]
        deaths = (Death.NEVER, *Death) if self.random.random() < 0.3 else (Death.NEVER,)
        start = Start(f"user-{self.number}-{choice}", CHOICES[choice], self.random.choice(deaths))
        running = [each.running for each in self.replicas if each.is_running]
        if running and self.random.random() < 0.8:
            await self.hub.ask(start, self.random.choice(running))
        if start.answer is not None and self.random.random() < 0.3:
            self.slow_starts.append(start)
        else:
            await self.hub.finish(start)

    async def many_ask(self) -> None:
        """More users ask than there are placeholders, and none of their servers comes."""
        wanted = self.random.choice(("gpu", "full"))
        choice = CHOICES[wanted]
        for _ in range(4):
            running = [each.running for each in self.replicas if each.is_running]
            self.number += 1
            start = Start(f"user-{self.number}-{wanted}", choice, Death.RESERVED)
            await self.hub.ask(start, self.random.choice(running))
            with contextlib.suppress(AssertionError):  # another one may not fit
                await self.until(lambda: bool(self.observer.warm(choice.shape.id)), "another is warm", 0.3)

    async def leave(self) -> None:
        if self.hub.users:
            name = self.random.choice(self.hub.users)
            self.observer.left.add(name)
            await self.hub.stop(name)

    # --- nodes ---------------------------------------------------------------------------------------------------------

    async def node(self, devices: int = 2) -> None:
        if len(self.nodes) >= MAX_NODES:
            return
        self.number += 1
        name = f"node-{self.number}"
        images = (IMAGE,) if self.random.random() < 0.7 else ()
        self.nodes.append(name)
        await self.cluster.publish(
            *node_objects(name, *(whole(f"gpu-{each}") for each in range(devices)), images=images)
        )

    async def lose_node(self) -> None:
        """A node is lost with its pods and the slices of its driver."""
        if len(self.nodes) < 2:
            return
        name = self.nodes.pop(self.random.randrange(len(self.nodes)))
        self.observer.lost.add(name)
        await self.cluster.remove_node(name)
        await self.cluster.admin.delete(
            resource_path(RESOURCE_API, "resourceslices", name=f"{name}-gpu.example.com"), missing_ok=True
        )

    async def pull(self) -> None:
        """Every node has pulled all images."""
        for name in self.nodes:
            await self.cluster.pull_image(name, IMAGE)

    async def placeholder_fails(self) -> None:
        """The kubelet ends a placeholder and leaves the pod object, as when a node is short of memory."""
        if with_node := sorted(pod.name for pod in self.observer.placeholders() if pod.node_name):
            body = {"status": {"phase": "Failed", "reason": "Evicted"}}
            path = self.cluster.path("pods", self.random.choice(with_node), "status")
            with contextlib.suppress(KubernetesError):  # it has gone meanwhile
                await self.cluster.admin.patch(path, body)

    async def claim_is_deleted(self) -> None:
        """An administrator deletes a warm claim, mistaken for a leftover."""
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
        """The API server is away for up to ten minutes; nothing is decided once the view of the cluster is too old."""
        for each in self.replicas:
            each.cut_off()
        await self.pass_time(90)
        await self.check()
        # Actions under way end.
        await self.until(
            lambda: all(not each.is_running or each.is_on_hold for each in self.replicas), "nothing is done"
        )
        before = self.done_so_far()
        for _ in range(self.random.choice((1, 3, 8))):
            await self.pass_time(60)
            await self.check()
        assert self.done_so_far() == before, self.picture()
        await self.heal()

    async def watches_stay_broken(self) -> None:
        """Requests still get through, but the leader is on hold, as its view of the cluster is too old."""
        leaders = [each for each in self.replicas if each.leads]
        for each in leaders:
            each.break_watches()
        await self.pass_time(90)
        await self.until(lambda: all(each.is_on_hold for each in leaders), "nothing is done")
        before = [each.running.context.decisions.count for each in leaders if each.leads]
        for _ in range(self.random.choice((2, 4))):
            await self.leave()
            await self.pass_time(45)
            await self.check()
        after = [each.running.context.decisions.count for each in leaders if each.leads]
        assert after == before or len(after) < len(before), self.picture()
        await self.heal()

    async def pods_are_unseen(self) -> None:
        """The leader sees no pods but still decides: only the claim shows that the reserved-for pod exists."""
        for each in [each for each in self.replicas if each.leads]:
            self.number += 1
            start = Start(f"user-{self.number}-full", CHOICES["full"], Death.NEVER)
            await self.hub.ask(start, each.running)
            if start.answer is not None and start.answer["claims"]:
                each.break_watches("pods")
            await self.hub.finish(start)
            await self.pass_time(35)
            await self.check()
            each.heal()

    async def leader_is_killed(self) -> None:
        """The leader dies in the middle of its work; its successor begins with the state of the cluster."""
        for each in [each for each in self.replicas if each.leads]:
            await each.kill()
            await self.start(each)

    async def leader_stops(self) -> None:
        """The leader ends and starts again, as with a new version of the service."""
        for each in [each for each in self.replicas if each.leads]:
            await each.stop()
            await self.start(each)

    async def leader_is_cut_off(self) -> None:
        """The leader loses its network, and gets it back when another replica leads."""
        for each in [each for each in self.replicas if each.leads]:
            each.cut_off()
            others = [other for other in self.replicas if other is not each]
            for other in others:
                other.heal()
            await self.pass_time(20)
            await self.check()
            await self.until(lambda: any(other.leads for other in others), "another leads")  # noqa: B023 (awaited at once)
            await self.check()
            each.heal()

"""Random events of a hub in a cluster, and the invariants that hold after each step."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.decide import Decisions
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.policy import Budget, Grace, Policy, Renewal, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import (
    PublishedShapes,
    policy_with,
    published_config_map,
    read_config_map,
)
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.nonsense_shapes import NONSENSE
from tests.placeholders.planner.objects import GPU, IMAGE, NAMESPACE, PLAIN, SHARE, gpu_claim, share_claim, user_shape
from tests.placeholders.planner.world import World
from tests.presence import present

BUDGET = Budget(per_second=0.2, burst=4, per_node=2)
RENEWAL = Renewal(per_second=0.1, burst=10, whole_in=timedelta(minutes=10))
KINDS = {
    "plain": ({}, PLAIN),
    "gpu": ({"gpu": gpu_claim()}, GPU),
    "share": ({"gpu": share_claim("10Gi")}, SHARE),
    "large": ({"gpu": share_claim("20Gi")}, user_shape({"gpu": share_claim("20Gi")})),
}
#: Profiles that the hub may publish, one set after the other.
PUBLISHED = tuple(
    tuple(zip(shapes, (ReplicaRange(3, 6), ReplicaRange(1, 4), ReplicaRange(2, 5)), strict=False))
    for shapes in (
        (PLAIN, GPU, SHARE),
        (user_shape(cpu="900m"), GPU, user_shape({"gpu": share_claim("5Gi")})),
        (PLAIN, user_shape({"gpu": gpu_claim()}, cpu="900m")),
    )
)
MAX_PLACEHOLDERS = 6
#: Limits of an administrator, one after the other.
LIMITS = (
    (),
    (Limit("few", placeholders=3),),
    (Limit("gpus", devices=2), Limit("many", placeholders=5)),
    (Limit("memory", capacity={"memory": Quantity.parse("20Gi")}, device_class="gpu.example.com"),),
)


def world(*, packs_devices: bool = False) -> World:
    policy = Policy(
        shapes={shape.id: shape for shape, _ in PUBLISHED[0]},
        replicas={shape.id: replicas for shape, replicas in PUBLISHED[0]},
        budget=BUDGET,
        packs_devices=packs_devices,
        renewal=RENEWAL,
        grace=Grace(new_node=timedelta(minutes=2), freed_node=timedelta(minutes=2)),
        newest=timedelta(minutes=10),
    )
    return World(policy)


class Chaos:
    """Does one random step after the other."""

    def __init__(self, seed: int, *, packs_devices: bool = False) -> None:
        self.random = random.Random(seed)
        self.world = world(packs_devices=packs_devices)
        self.number = 0
        self.begun = self.world.now
        self.restarts = 0
        self.max_pending = 0
        self.handed: Counter[str] = Counter()

    def name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}-{self.number}"

    changes_images = False
    """Whether the image of placeholders changes."""

    def step(self) -> None:
        if self.changes_images and self.random.random() < 0.03:
            self.another_image()
        happening = self.random.choices(
            (
                self.node,
                self.lose_node,
                self.user,
                self.placed_user,
                self.leave,
                self.pull,
                self.fail,
                self.fail_all,
                self.delete_all,
                self.publish,
                self.limit,
                self.refuse_nodes,
                self.trouble,
                self.restart,
                self.wait,
            ),
            (3, 1, 3, 5, 8, 3, 1, 1, 1, 2, 1, 1, 1, 1, 6),
        )[0]
        happening()
        if self.random.random() < 0.8:
            self.world.schedule()
        self.decide()
        if self.random.random() < 0.8:
            self.world.schedule()
        self.world.pass_time(seconds=self.random.choice((0.2, 1, 3, 10)))

    def decide(self) -> None:
        """Evictions leave the floor of warm placeholders; users and lost nodes may take more."""
        view = self.world.view()
        warm = {shape: {each.key for each in view.warm(shape)} for shape in self.world.policy.replicas}
        decided = self.world.decide()
        evicted = {
            each.key for each in decided.actions if isinstance(each, DeletePlaceholder) and each.cause.is_eviction
        }
        for shape, keys in warm.items():
            # A lowered limit leaves as many as it allows.
            if keys & evicted and not self.world.policy.limits:
                assert len(keys - evicted) >= self.world.policy.replicas_of(shape).effective_floor, decided.actions

        if any(isinstance(each, CreatePlaceholder) and each.for_pending_pod is None for each in decided.actions):
            self.check_limits(decided)

    def check_limits(self, decided: Decisions) -> None:
        """After new placeholders for targets no limit is exceeded; placeholders for users do not count."""
        view = self.world.view()
        needing = Counter(view.shape_of(view.users[each.pod]) for each in decided.pending if each.needs_node)
        counted, devices, asked = 0, set[DeviceId](), 0
        for shape, there in view.placeholders_of_shape.items():
            pending = sum(each.is_pending for each in there)
            counted += len(there) - min(pending, needing[shape])
            known = self.world.policy.shapes.get(shape)
            asked += max(pending - needing[shape], 0) if known is None or known.claims else 0
            for each in there:
                own = [
                    key for key in each.claims if all(ObjectKey.of(pod) == each.key for pod in view.pods_naming(key))
                ]
                claims = [view.snapshot.claims[key].claim for key in own if key in view.snapshot.claims]
                devices |= {device.id for claim in claims for device in claim.status.devices or ()}
        for limit in self.world.policy.limits:
            if limit.placeholders is not None:
                assert counted <= limit.placeholders, limit
            if limit.devices is not None:
                assert len(devices) + asked <= limit.devices, limit

    def limit(self) -> None:
        """An administrator changes the limits."""
        self.world.policy = replace(self.world.policy, limits=self.random.choice(LIMITS))

    def another_image(self) -> None:
        """The service begins again with other settings of placeholders; sometimes a webhook writes its own image."""
        image, priority_class = self.random.choice(("pause:1", "pause:2")), self.random.choice(("low", "lower"))
        self.world.policy = replace(
            self.world.policy, placeholder_image=image, placeholder_priority_class=priority_class
        )
        self.world.settings = replace(self.world.settings, priority_class=priority_class)
        if self.random.random() < 0.8:
            self.world.settings = replace(self.world.settings, image=image)
        self.restart()

    def refuse_nodes(self) -> None:
        """The autoscaler adds no node for pending pods."""
        self.world.no_node = {pod.uid: "1 max node group size reached" for pod in self.world.pending_pods()}

    def node(self) -> None:
        if len(self.world.snapshot.nodes) < 8:
            gpus, memory = self.random.choice(((0, ""), (2, ""), (1, "40Gi")))
            images = self.random.choice(((), (IMAGE,)))
            self.world.node(self.name("node"), "6", gpus, memory, images)

    def lose_node(self) -> None:
        if self.world.snapshot.nodes and self.random.random() < 0.5:
            self.world.remove_node(self.random.choice(sorted(self.world.snapshot.nodes)))

    def user(self) -> None:
        claims, _ = KINDS[self.random.choice(sorted(KINDS))]
        self.world.user(self.name("user"), claims)

    def placed_user(self) -> None:
        """As the spawner does: ask for a placement, get a reservation, create a pod that names the claim, or die."""
        kind = self.random.choice(("plain", "gpu", "share"))
        claims, shape = KINDS[kind]
        name = self.name("user")
        found = self.world.placement(shape)
        if found.state is AvailabilityState.READY and (warm := present(found.placeholder)).claims:
            assert warm.reservation is None
            claim = self.world.reservation(found, name)
            if self.random.random() < 0.2:
                return  # the hub dies
            self.world.user(name, claim_names={"gpu": claim})
            self.handed[claim] += 1
        else:
            self.world.user(name, claims)

    def leave(self) -> None:
        users = sorted(self.world.view().users)
        if users:
            self.world.leave(self.random.choice(users).name)

    def pull(self) -> None:
        for name in sorted(self.world.snapshot.nodes):
            self.world.pull(name)

    def fail(self) -> None:
        """The kubelet ends a placeholder, as its node is short of something."""
        if kept := sorted(self.world.view().placeholders):
            pod = self.world.snapshot.pods[self.random.choice(kept)]
            self.world.snapshot.put(replace(pod, phase="Failed"))

    def fail_all(self) -> None:
        """No placeholder can run: a device plugin is broken on every node."""
        for key in self.world.view().placeholders:
            pod = self.world.snapshot.pods[key]
            if pod.node_name:
                self.world.snapshot.put(replace(pod, phase="Failed"))

    def delete_all(self) -> None:
        """A user or a program deletes all placeholders that are not reserved."""
        for key, each in self.world.view().placeholders.items():
            if each.reservation is None:
                self.world.remove_pod(key)

    def publish(self) -> None:
        """The hub's profiles change back and forth; some are invalid."""
        choices = {f"choice-{number}": each for number, each in enumerate(self.random.choice(PUBLISHED))}
        shapes = {name: shape for name, (shape, _) in choices.items()}
        if self.random.random() < 0.5:
            shapes["nonsense"] = NONSENSE[self.random.choice(sorted(NONSENSE))]
        published = read_config_map(published_config_map(PublishedShapes(shapes), NAMESPACE, {}))
        replicas = {name: each for name, (_, each) in choices.items()}
        self.world.policy, _ = policy_with(self.world.policy, published, {**replicas, "nonsense": ReplicaRange(1, 2)})

    def trouble(self) -> None:
        self.world.problem = self.random.choice(("", "", "the API server does not answer"))

    def restart(self) -> None:
        """A new leader knows only the objects in the cluster."""
        self.world.restart()
        self.restarts += 1

    def wait(self) -> None:
        self.world.pass_time(seconds=self.random.choice((5, 20, 60)))

    def check(self) -> None:
        world = self.world
        view = world.view()
        # No warm claim is handed over to two users.
        assert not [name for name, times in self.handed.items() if times > 1]
        users_of_claim = Counter(
            each.claim for pod in view.users.values() for each in pod.claims if each.claim and each.template is None
        )
        assert all(times == 1 for times in users_of_claim.values())
        # Budgets hold, over all restarts.
        tidied = [each for each in world.actions(DeletePlaceholder) if each.cause.is_eviction]
        seconds = (world.now - self.begun).total_seconds()
        assert len(tidied) <= BUDGET.burst + BUDGET.per_second * seconds
        # Creations stay within their budget, too; only a new leader has a full bucket again.
        self.max_pending = max(self.max_pending, len(view.pending_users), len(world.pending_records))
        wanted = MAX_PLACEHOLDERS + self.max_pending
        of_users = sum(each.cause.is_of_users for each in world.actions(DeletePlaceholder))
        most = (self.restarts + 1) * RENEWAL.most(wanted) + RENEWAL.rate(wanted) * seconds + of_users
        assert world.made <= most
        # Never more placeholders than wanted, plus one for each pending server.
        for shape, replicas in world.policy.replicas.items():
            max_there = max(replicas.max, replicas.min + self.max_pending)
            assert len(view.placeholders_of_shape.get(shape, ())) <= max_there
        # Every pending user has a reason.
        if not world.last.on_hold:
            assert {each.pod for each in world.last.pending} == world.pending_records

    def rest(self) -> None:
        """Trouble ends: the world comes to rest without leftovers, and all wanted placeholders exist or are pending."""
        world = self.world
        world.problem = ""
        world.no_node = {}
        world.policy = replace(world.policy, limits=())
        self.publish()
        for shape in world.policy.shapes:
            world.planner_state = world.planner_state.resumed(shape)
        for name in sorted(world.snapshot.nodes):
            world.pull(name)
        world.run(minutes=30, every_seconds=20)
        world.log.clear()
        world.run(minutes=10, every_seconds=60)
        assert world.log == [], "with no change in the cluster nothing is done"
        view = world.view()
        assert view.terminating == [], "failed placeholders are deleted"
        kept = {claim for each in view.placeholders.values() for claim in each.claims}
        had = {(pod.namespace, each.claim) for pod in view.users.values() for each in pod.claims}
        for tracked in view.warm_claims:
            assert tracked.key in kept or tuple(tracked.key) in had, f"orphan {tracked.key}"
        assert view.placeholders_of_shape.keys() <= world.policy.shapes.keys(), "none is outdated"
        for shape, replicas in world.policy.replicas.items():
            assert len(view.placeholders_of_shape.get(shape, ())) >= replicas.min
        for each in view.placeholders.values():
            assert each.reservation is None
        # No user is pending for a device of a placeholder.
        for user in world.last.pending:
            assert user.needs_node, user

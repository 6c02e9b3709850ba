"""A store with controllers and scheduler at work, and no loop: each test lets it settle and looks at what it wrote."""

from __future__ import annotations

import itertools
import random

from dra_spawner.devcluster.api.resource_types import EVENTS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.controllers.claim_controller import ClaimController
from dra_spawner.devcluster.controllers.taint_eviction import TaintEviction
from dra_spawner.devcluster.scheduler.scheduler import Scheduler
from tests.devcluster.cluster_objects import NAMESPACE, TurnedClock, gpu_slice, node

NO_PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
ALL_TAKEN = f"0/1 nodes are available: 1 cannot allocate all claims. {NO_PREEMPTION}"


class ScheduledStore:
    """A store with controllers and scheduler at work."""

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.store = Store(self.clock.now, random=random.Random(1))
        numbers = itertools.count()
        self.controllers = (
            ClaimController(self.store, self.clock),
            TaintEviction(self.store, self.clock),
            Scheduler(
                self.store,
                self.clock,
                random=random.Random(1),
                new_share_id=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
            ),
        )
        for controller in self.controllers:
            controller.attach()
        self.scheduler = self.controllers[-1]

    def settle(self):
        before = None
        while before != self.store.resource_version:
            before = self.store.resource_version
            for controller in self.controllers:
                controller.settle()

    def create(self, resource_type, *objects):
        for obj in objects:
            self.store.create(resource_type, obj)
        self.settle()

    def add_node(self, name, *devices, **options):
        self.create(NODES, node(name, **options))
        if devices:
            self.create(RESOURCESLICES, gpu_slice(name, *devices))

    def pod(self, name):
        return self.store.get(PODS, NAMESPACE, name)

    def place(self, name):
        return self.pod(name)["spec"].get("nodeName")

    def condition(self, name):
        for condition in self.pod(name)["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled":
                return condition["status"], condition.get("reason"), condition.get("message")
        return None

    def claim(self, name):
        return self.store.get(RESOURCECLAIMS, NAMESPACE, name)

    def claim_of(self, name):
        return self.claim(self.pod(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"])

    def devices_of(self, name):
        return self.devices(self.claim_of(name))

    @staticmethod
    def devices(obj):
        results = obj["status"]["allocation"]["devices"]["results"]
        return [(each["pool"], each["device"], each.get("consumedCapacity")) for each in results]

    def run(self, name):
        """Changes by a kubelet."""
        self.store.modify(PODS, NAMESPACE, name, lambda obj: obj["status"].update(phase="Running"), "status")
        self.settle()

    def delete(self, name):
        self.store.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
        self.settle()

    def events(self, name):
        return [
            (event["reason"], event["message"], event["series"]["count"] if "series" in event else 1)
            for event in self.store.objects(EVENTS)
            if event["involvedObject"]["name"] == name
        ]

    def attempts(self, name):
        return sum(count for reason, _, count in self.events(name) if reason == "FailedScheduling")

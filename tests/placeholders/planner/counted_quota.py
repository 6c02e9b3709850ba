"""A ResourceQuota that is counted as in Kubernetes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dra_spawner import names
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity
from dra_spawner.placeholders.planner.targets.limits import Quota, claim_amounts, pod_amounts, quota_of
from dra_spawner.placeholders.planner.targets.placeholder_objects import requests_of
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.world import World

PRIORITY_CLASS = "dra-spawner-placeholder"
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    status = {"hard": dict(hard), "used": dict(used)} if used is not None else {}
    return {"metadata": {"name": "q", "namespace": NAMESPACE}, "spec": {"hard": dict(hard), **spec}, "status": status}


class Counting:
    """Acts as the quota controller: counts all pods and claims of the namespace."""

    def __init__(self, world: World, hard: Mapping[str, str], **spec: Any) -> None:
        self.world = world
        self.hard = hard
        self.spec = spec
        self._before = self._used()
        world.quotas = self

    def __call__(self) -> tuple[Quota, ...]:
        used = self._used()
        counted = {name: str(Quantity(used[name])) for name in self.hard}
        found = quota_of(quota(self.hard, counted, **self.spec), PRIORITY_CLASS)
        # The API server would have refused it. Pods that existed before a quota was lowered stay.
        assert all(
            used[name] <= max(Quantity.parse(most).nano, self._before[name]) for name, most in self.hard.items()
        ), counted
        self._before = used
        return (found,)

    def _used(self) -> Counter[str]:
        used: Counter[str] = Counter()
        for pod in self.world.snapshot.pods.values():
            placeholders = pod.labels.get(names.COMPONENT) == names.PLACEHOLDER
            if self.spec and not placeholders:
                continue  # a quota for the placeholders' PriorityClass
            shape = self.world.policy.shapes.get(pod.labels.get(names.SHAPE, ""))
            used.update(pod_amounts(requests_of(shape)) if shape is not None else {"pods": NANO_PER_UNIT})
        for claim in self.world.snapshot.claims.values():
            used.update(claim_amounts([claim.claim], self.world.snapshot.classes))
        return used

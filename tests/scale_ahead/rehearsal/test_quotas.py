"""Quotas: how many more servers fit."""

from __future__ import annotations

from typing import Any

from dra_spawner.placeholders.planner.targets.limits import Quota, quota_of
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.scale_ahead.rehearsal.quotas import quota_capacity, unchecked_resources
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU
from tests.placeholders.planner.world import World

DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Quota:
    unused = dict.fromkeys(hard, "0")
    obj = {
        "metadata": {"name": "q", "namespace": "hub"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": {**unused, **(used or {})}},
    }
    return quota_of(obj, "placeholder")


@all_of_them(
    "hard, used, resource, servers",
    [
        ({"pods": "10"}, {"pods": "4"}, "pods", 6),
        ({"requests.cpu": "10", "pods": "100"}, {"requests.cpu": "500m"}, "requests.cpu", 9),
        ({"memory": "10Gi"}, {}, "memory", 10),
        ({CLAIMS: "3"}, {}, CLAIMS, 3),
        ({DEVICES: "8"}, {DEVICES: "9"}, DEVICES, 0),
    ],
)
def test_a_quota_limits_further_servers(
    hard: dict[str, str], used: dict[str, str], resource: str, servers: int
) -> None:
    capacity = quota_capacity(quota(hard, used), GPU, World(Policy()).view())
    assert capacity is not None
    assert (capacity.quota, capacity.resource, capacity.servers) == ("q", resource, servers)


def test_a_quota_of_other_pods_limits_nothing() -> None:
    assert quota_capacity(quota({"pods": "1"}, scopes=["BestEffort"]), GPU, World(Policy()).view()) is None


def test_resources_that_no_shape_has_are_unchecked() -> None:
    found = quota({"limits.cpu": "10", "services": "1", "limits.memory": "1Gi"})
    assert quota_capacity(found, GPU, World(Policy()).view()) is None
    assert unchecked_resources(found) == ("limits.cpu", "limits.memory")

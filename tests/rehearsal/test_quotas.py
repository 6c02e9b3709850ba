"""Quotas: for how many more servers they have room."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.rehearsal.quotas import not_judged, quota_needs, quota_of, room_of
from tests.placeholders.planner.world import GPU, gpu_claim, user_shape

MIXED = user_shape(
    {
        "one": gpu_claim(count=2),
        "other": {
            "devices": {
                "requests": [
                    {
                        "name": "any",
                        "firstAvailable": [
                            {"name": "a", "deviceClassName": "gpu.example.com", "count": 3},
                            {"name": "b", "deviceClassName": "nic.example.com"},
                        ],
                    },
                    {"name": "all", "exactly": {"deviceClassName": "nic.example.com", "allocationMode": "All"}},
                    {"name": "view", "exactly": {"deviceClassName": "gpu.example.com", "adminAccess": True}},
                ]
            }
        },
    },
    cpu="500m",
)


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "q", "namespace": "hub"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


def test_what_a_server_uses() -> None:
    """As Kubernetes counts claims: the most of each class that any alternative may get."""
    needs = quota_needs(MIXED)
    assert needs["count/resourceclaims.resource.k8s.io"] == 2
    assert needs["gpu.example.com.deviceclass.resource.k8s.io/devices"] == 5
    assert needs["nic.example.com.deviceclass.resource.k8s.io/devices"] == 33
    assert (needs["requests.cpu"], needs["cpu"], needs["pods"], needs["count/pods"]) == (500, 500, 1, 1)
    assert needs["requests.memory"] == needs["memory"] == 2**30


@pytest.mark.parametrize(
    ("hard", "used", "resource", "servers"),
    [
        ({"pods": "10"}, {"pods": "4"}, "pods", 6),
        ({"requests.cpu": "10", "pods": "100"}, {"requests.cpu": "500m"}, "requests.cpu", 9),
        ({"memory": "10Gi"}, {}, "memory", 10),
        ({"count/resourceclaims.resource.k8s.io": "3"}, {}, "count/resourceclaims.resource.k8s.io", 3),
        (
            {"gpu.example.com.deviceclass.resource.k8s.io/devices": "8"},
            {"gpu.example.com.deviceclass.resource.k8s.io/devices": "9"},
            "gpu.example.com.deviceclass.resource.k8s.io/devices",
            0,
        ),
    ],
)
def test_room_for_more(hard: dict[str, str], used: dict[str, str], resource: str, servers: int) -> None:
    room = room_of(quota_of(quota(hard, used)), quota_needs(GPU))
    assert room is not None
    assert (room.quota, room.resource, room.servers) == ("q", resource, servers)


def test_what_a_shape_does_not_tell() -> None:
    found = quota_of(quota({"limits.cpu": "10", "services": "1", "limits.memory": "1Gi"}))
    assert room_of(found, quota_needs(GPU)) is None
    assert not_judged(found) == ("limits.cpu", "limits.memory")
    assert quota_of(quota({"pods": "1"}, scopes=["BestEffort"])).is_scoped
    assert not quota_of(quota({"pods": "1"})).is_scoped


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "many"}}},
        {"metadata": {"name": "q"}, "spec": {"hard": 3}},
    ],
)
def test_a_quota_that_makes_no_sense(obj: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ResourceQuota makes no sense"):
        quota_of(obj)

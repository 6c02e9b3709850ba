"""Environment variables of containers about their devices."""

import json
from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.device_environment import container_devices, device_environment


def result(device: str, *, request: str = "gpu", pool: str = "node-a", **more: Any) -> dict[str, Any]:
    return {"request": request, "driver": "gpu.example.com", "pool": pool, "device": device, **more}


def claim(name: str, *results: dict[str, Any], config: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    devices: dict[str, Any] = {"results": list(results)}
    if config:
        devices["config"] = config
    return {"metadata": {"name": name}, "status": {"allocation": {"devices": devices}}}


def uses(*claims: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "resources": {"claims": list(claims)}}


SHARE = result("gpu-0", shareID="1", consumedCapacity={"memory": "10Gi"})


@pytest.mark.parametrize(
    ("container", "claims", "expected"),
    [
        pytest.param(uses(), {"gpu": claim("c", SHARE)}, {}, id="container without claims"),
        pytest.param({"name": "main"}, {"gpu": claim("c", SHARE)}, {}, id="container without resources"),
        pytest.param(
            uses({"name": "gpu"}),
            {"gpu": claim("c", result("gpu-0"))},
            {"DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0", "DRA_CLAIM_GPU_DEVICE": "node-a/gpu-0"},
            id="whole device",
        ),
        pytest.param(
            uses({"name": "gpu"}),
            {"gpu": claim("c", SHARE)},
            {
                "DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0",
                "DRA_CLAIM_GPU_DEVICE": "node-a/gpu-0",
                "DRA_CLAIM_GPU_MEMORY": "10Gi",
            },
            id="share",
        ),
        pytest.param(
            uses({"name": "my-gpu.2"}),
            {"my-gpu.2": claim("c", result("gpu-0", consumedCapacity={"gpu.example.com/max-bandwidth": "1G"}))},
            {
                "DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0",
                "DRA_CLAIM_MY_GPU_2_DEVICE": "node-a/gpu-0",
                "DRA_CLAIM_MY_GPU_2_MAX_BANDWIDTH": "1G",
            },
            id="names with other characters, qualified capacity",
        ),
        pytest.param(
            uses({"name": "gpu"}),
            {"gpu": claim("c", result("gpu-0"), result("gpu-1", consumedCapacity={"memory": "5Gi"}))},
            {
                "DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0",
                "DRA_DEVICE_1": "gpu.example.com/node-a/gpu-1",
                "DRA_CLAIM_GPU_DEVICE": "node-a/gpu-0,node-a/gpu-1",
                "DRA_CLAIM_GPU_MEMORY": ",5Gi",
            },
            id="several devices, one of them shared",
        ),
        pytest.param(
            uses({"name": "net"}, {"name": "gpu"}),
            {"gpu": claim("c", result("gpu-0")), "net": claim("d", result("nic-0", request="nic"))},
            {
                "DRA_DEVICE_0": "gpu.example.com/node-a/nic-0",
                "DRA_DEVICE_1": "gpu.example.com/node-a/gpu-0",
                "DRA_CLAIM_NET_DEVICE": "node-a/nic-0",
                "DRA_CLAIM_GPU_DEVICE": "node-a/gpu-0",
            },
            id="several claims, in the container's order",
        ),
        pytest.param(
            uses({"name": "all", "request": "gpu"}),
            {"all": claim("c", result("gpu-0", request="gpu/large"), result("nic-0", request="nic"))},
            {"DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0", "DRA_CLAIM_ALL_DEVICE": "node-a/gpu-0"},
            id="one request of a claim, by its subrequest",
        ),
        pytest.param(
            uses({"name": "all", "request": "gpu"}, {"name": "all"}),
            {"all": claim("c", result("gpu-0"), result("nic-0", request="nic"))},
            {
                "DRA_DEVICE_0": "gpu.example.com/node-a/gpu-0",
                "DRA_DEVICE_1": "gpu.example.com/node-a/nic-0",
                "DRA_CLAIM_ALL_DEVICE": "node-a/gpu-0,node-a/nic-0",
            },
            id="each device once",
        ),
    ],
)
def test_variables(container: dict[str, Any], claims: dict[str, Any], expected: dict[str, str]):
    environment = device_environment(container, claims)
    devices = environment.pop("DRA_DEVICES", None)
    assert environment == expected
    assert (devices is None) == (not expected)


def test_the_whole_truth_as_json():
    config = [
        {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}},
        {"source": "FromClaim", "requests": ["nic"], "opaque": {"driver": "gpu.example.com", "parameters": {"b": 1}}},
        {"source": "FromClaim", "opaque": {"driver": "other.example.com", "parameters": {"c": 1}}},
        {"source": "FromClass", "opaque": {"driver": "gpu.example.com", "parameters": {"d": 1}}},
    ]
    admin = result("gpu-0", adminAccess=True, shareID="s", consumedCapacity={"memory": "1Gi"})
    environment = device_environment(uses({"name": "gpu"}), {"gpu": claim("user-gpu-x", admin, config=config)})
    assert json.loads(environment["DRA_DEVICES"]) == [
        {
            "claim": "gpu",
            "resourceClaim": "user-gpu-x",
            "request": "gpu",
            "driver": "gpu.example.com",
            "pool": "node-a",
            "device": "gpu-0",
            "shareID": "s",
            "consumedCapacity": {"memory": "1Gi"},
            "adminAccess": True,
            "config": [{"d": 1}, {"a": 1}],
        }
    ]


def test_claim_that_needs_no_object_gives_nothing():
    assert container_devices(uses({"name": "gpu"}), {}) == []


def test_the_schedulers_claim_for_extended_resources_is_seen_like_any_claim():
    made = claim("pod-extended-resources-x", result("gpu-0", request="container-0-request-1"), result("gpu-1"))
    uses_of_it = [{"name": "extended-resources", "request": "container-0-request-1"}]
    environment = device_environment({"name": "main"}, {"extended-resources": made}, uses_of_it)
    assert environment["DRA_CLAIM_EXTENDED_RESOURCES_DEVICE"] == "node-a/gpu-0"
    assert "DRA_DEVICE_1" not in environment
    assert device_environment({"name": "main"}, {"extended-resources": made}) == {}

"""The words for a server's devices."""

from dra_spawner.spawner.devices.held import HeldDevice, claim_names, devices_in, place_text
from tests.all_of_them import all_of_them


def claim(*results, capacity=None):
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": capacity or {}}}}
    return {
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": list(results)}}},
    }


def result(device="gpu-3", pool="node-2", **consumed):
    return {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device, "consumedCapacity": consumed}


GPUS = [HeldDevice(f"gpu-{number}", "node-2") for number in range(8)]


def nic(**share):
    return [HeldDevice("nic-0", "node-2", share)]


TWO_CAPACITIES = {"example.com/bandwidth": "1G", "memory": "no amount"}


@all_of_them(
    "devices, words",
    {
        "share": ([HeldDevice("gpu-3", "node-2", {"memory": "15Gi"})], "15 GiB of gpu-3 on node-2"),
        "whole": (GPUS[3:4], "gpu-3 on node-2"),
        "of a shared pool": ([HeldDevice("nic-0", "rack")], "nic-0 of rack on node-2"),
        "two": (GPUS[:2], "gpu-0 and gpu-1 on node-2"),
        "many": (GPUS, "8 devices on node-2"),
        "several": ([HeldDevice("nic-0", "node-2", TWO_CAPACITIES)], "1 Gbit/s and no amount of nic-0 on node-2"),
        "in a VLAN": (nic(bandwidth="1G", vlans="1"), "1 Gbit/s in a VLAN of nic-0 on node-2"),
        "a VLAN alone": (nic(**{"dra.net/vlans": "1"}), "a VLAN of nic-0 on node-2"),
        "VLANs": (nic(**{"dra.net/bandwidth": "150M", "vlans": "3"}), "150 Mbit/s in 3 VLANs of nic-0 on node-2"),
        "one of many": (nic(queues="1", engines="2"), "2 engines and 1 queue of nic-0 on node-2"),
        "none": ([], ""),
    },
)
def test_place(devices, words):
    assert place_text(devices, "node-2") == words


def test_a_warm_claim_is_already_prepared():
    assert place_text([HeldDevice("gpu-3", "node-2")], "node-2", warm=True) == "gpu-3 on node-2, already prepared"


def test_only_requested_amounts_are_shown():
    found = devices_in(claim(result(memory="15Gi", cores="98"), capacity={"memory": "12Gi"}))
    assert found == [HeldDevice("gpu-3", "node-2", {"memory": "15Gi"})]


def test_a_claim_that_is_not_allocated_has_no_devices():
    assert devices_in({"spec": {}}) == []


def test_claims_of_a_pod():
    pod = {
        "spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "warm"}, {"name": "b"}]},
        "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}, {"name": "c"}]},
    }
    assert claim_names(pod) == ["warm", "made"]

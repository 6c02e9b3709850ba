"""How firmly each kind of share is enforced, as shown to a user."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.drivers import Enforcement, driver_of_class, share_enforcements
from tests.all_of_them import all_of_them
from tests.profiles.drivers.beds import FACTS
from tests.profiles.drivers.parameter_cases import mps, nvidia
from tests.profiles.drivers.rule_cases import claim

Json = dict[str, Any]
GPU, MIG, AMD, INTEL = "gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com"
HAMI, VF = "hami-core-gpu.project-hami.io", "sriovnetwork.k8snetworkplumbingwg.io"
HARDWARE, LIBRARY, DAEMON, NONE = Enforcement.HARDWARE, Enforcement.LIBRARY, Enforcement.DAEMON, Enforcement.NONE
TIME_SLICING = nvidia(sharing={"strategy": "TimeSlicing"})
PARTITION = 'device.attributes["gpu.amd.com"].type == "amdgpu-partition"'

#: Name -> claim, bed, enforcement and words: none where devices are the claim's alone.
CASES: dict[str, tuple[Json, str, Enforcement | None, str]] = {
    "a whole GPU": (claim(GPU), "a100-efa", None, ""),
    "a whole GPU, of an unknown cluster": (claim(GPU), "", None, ""),
    "a least amount of memory": (claim(GPU, capacity={"memory": "4Gi"}), "a100-efa", None, ""),
    "MIG, cut before": (claim(MIG), "static-mig", HARDWARE, "separated|cut out of the GPU in hardware"),
    "MIG, cut on demand": (claim(MIG), "dynamic-mig", HARDWARE, "in hardware"),
    "MIG, of an unknown cluster": (claim(MIG), "", HARDWARE, "in hardware"),
    "a share of memory": (
        claim(GPU, capacity={"memory": "4Gi"}),
        "memory-shares",
        NONE,
        "The memory share is not enforced: other users of this GPU can use more than theirs.",
    ),
    "a share of memory, of an unknown cluster": (claim(GPU, capacity={"memory": "4Gi"}), "", NONE, "not enforced"),
    "all memory of a shared GPU": (claim(GPU), "memory-shares", None, ""),
    "all memory of a shared GPU, asked for": (claim(GPU, capacity={"memory": "23034Mi"}), "memory-shares", None, ""),
    "one of ten": (claim(GPU), "counted-shares", NONE, "nothing limits"),
    "ten of ten": (claim(GPU, capacity={"shares": 10}), "counted-shares", None, ""),
    "without limit": (claim(GPU), "unlimited-shares", NONE, "Others use this GPU too"),
    "MPS, a percentage": (
        claim(GPU, mps(defaultActiveThreadPercentage=50)),
        "a100-efa",
        DAEMON,
        "computing time, and memory has no limit; two programs may take twice as much",
    ),
    "MPS, memory": (
        claim(GPU, mps(defaultPinnedDeviceMemoryLimit="10Gi")),
        "h100-one",
        DAEMON,
        "computing time has no limit",
    ),
    "MPS, both": (
        claim(GPU, mps(defaultPinnedDeviceMemoryLimit="10Gi", defaultActiveThreadPercentage=1)),
        "",
        DAEMON,
        "memory and of its computing time; two programs may take twice as much, and one that crashes",
    ),
    "MPS, 0 percent is no limit": (
        claim(GPU, mps(defaultActiveThreadPercentage=0)),
        "h100-one",
        NONE,
        "nothing limits",
    ),
    "MPS, 100 percent": (claim(GPU, mps(defaultActiveThreadPercentage=100)), "", NONE, "nothing limits"),
    "MPS, more memory than there is": (
        claim(GPU, mps(defaultPinnedDeviceMemoryLimit="500Gi")),
        "h100-one",
        NONE,
        "nothing limits",
    ),
    "MPS, a limit of nothing": (claim(GPU, mps(defaultPerDevicePinnedMemoryLimit={})), "", NONE, "nothing limits"),
    "MPS, a limit for each device": (
        claim(GPU, mps(defaultPerDevicePinnedMemoryLimit={"0": "10Gi"})),
        "h100-one",
        DAEMON,
        "part of the GPU's memory, and",
    ),
    "MPS, a limit for one of two devices": (
        claim(GPU, mps(defaultPerDevicePinnedMemoryLimit={"0": "10Gi"}), count=2),
        "a100-efa",
        NONE,
        "nothing limits",
    ),
    "MPS, which limits nothing": (claim(GPU, mps(multiUser=True)), "a100-efa", NONE, "nothing limits"),
    "MPS of a slice": (
        claim(MIG, nvidia("MigDeviceConfig", sharing={"strategy": "MPS"})),
        "static-mig",
        NONE,
        "nothing limits",
    ),
    "time-slicing of one container": (claim(GPU, TIME_SLICING), "a100-efa", None, ""),
    "time-slicing of two containers": (
        {"a": claim(GPU, TIME_SLICING)["a"] | {"containers": {"notebook": "all", "sidecar": "all"}}},
        "a100-efa",
        NONE,
        "take turns",
    ),
    "administration": (claim(GPU, admin_access=True, count="all"), "memory-shares", None, ""),
    "HAMi": (claim(HAMI, capacity={"cores": 30, "memory": "4Gi"}), "hami", LIBRARY, "library"),
    "HAMi, of an unknown cluster": (claim(HAMI, capacity={"cores": 30}), "", LIBRARY, "library"),
    "HAMi, all of it": (claim(HAMI), "hami", None, ""),
    "AMD": (claim(AMD), "mi300x", None, ""),
    "AMD, partitions": (claim(AMD), "mi300x-dpx", HARDWARE, "in hardware"),
    "AMD, partitions asked for": (claim(AMD, where=PARTITION), "", HARDWARE, "in hardware"),
    "AMD, a number of partitions": (claim(AMD, capacity={"partitions": 1}), "", HARDWARE, "in hardware"),
    "Intel": (claim(INTEL), "flex", None, ""),
    "Intel, millicores take the whole GPU": (claim(INTEL, capacity={"millicores": 100}), "flex", None, ""),
    "Intel, functions": (claim(INTEL), "flex-functions", HARDWARE, "virtual function"),
    "SR-IOV": (claim(VF), "sriov", HARDWARE, "virtual function"),
    "example": (
        claim("gpu.example.com", capacity={"memory": "16Gi", "compute": 20}),
        "example-shares",
        NONE,
        "example",
    ),
    "example, partitions": (claim("gpu.example.com"), "example-partitions", None, ""),
    "example net": (claim("net.example.com"), "example-net-cpu", NONE, "example"),
    "a driver that is not known": (claim("gpu.example.org", capacity={"memory": "4Gi"}), "", None, ""),
    "an interface": (claim("dra.net"), "network", None, ""),
}


@all_of_them("value, bed, enforcement, words", CASES)
def test_a_user_reads_how_a_share_is_enforced(value: Json, bed: str, enforcement: Enforcement | None, words: str):
    facts = FACTS[bed] if bed else None
    (parsed,) = parse_device_claims(value, admin_access=True)
    shares = share_enforcements(parsed, facts)
    if enforcement is None:
        assert shares == {}
    else:
        assert shares["r"].enforcement is enforcement
        assert any(word in shares["r"].sentence for word in words.split("|"))
        assert shares["r"].sentence.endswith(".")
    driver = driver_of_class(value["a"]["requests"]["r"]["device_class"], facts)
    if driver is not None:
        assert driver.enforcement(parsed, facts) == shares.get("r")


def test_alternatives_are_distinguished():
    value = {"a": {"first_available": {"slice": {"device_class": MIG}, "share": {"device_class": GPU, "capacity": {"memory": "4Gi"}}, "whole": {"device_class": GPU}}}}  # fmt: skip
    (parsed,) = parse_device_claims(value)
    shares = share_enforcements(parsed, None)
    assert {name: share.enforcement for name, share in shares.items()} == {"a/slice": HARDWARE, "a/share": NONE}
    driver = driver_of_class(GPU, None)
    assert driver is not None
    assert driver.enforcement(parsed, None) == shares["a/share"]


def test_nothing_is_said_of_claims_that_others_made():
    for value in ({"template": "imex"}, {"claim": "team"}):
        (parsed,) = parse_device_claims({"a": value})
        assert share_enforcements(parsed, None) == {}


def test_a_spec_is_understood_too():
    exactly = {"deviceClassName": GPU, "capacity": {"requests": {"memory": "4Gi"}}}
    (parsed,) = parse_device_claims({"a": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}})
    assert share_enforcements(parsed, FACTS["memory-shares"])["r"].enforcement is NONE

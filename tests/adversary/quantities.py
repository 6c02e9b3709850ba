"""Texts of every form that the grammar of quantities allows, and next to it; and devices that round sizes."""

from __future__ import annotations

from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject

DRIVER = "gpu.example.com"
DEVICE_CLASS = "sizes.example.com"

#: Sizes that ask for more than any device has.
OVERFLOWING = (
    "10e18",
    "10e399",
    "18446744073709551616",
    "18446744073709551615",
    "9223372036854775808",
    "9223372036854775807",
    "8Ei",
    "9Ei",
    "16E",
    "5001E",
    "28043930325G",
)

_EDGES = [2**power + offset for power in (31, 32, 53, 62, 63, 64) for offset in (-1, 0, 1)]
_EDGES += [0, 1, 7, 8, 999, 1000, 1023, 1024, 10**18 - 1, 10**18, 10**19, 8589934592]
_WHOLE = st.one_of(
    st.sampled_from(_EDGES).map(str),
    st.integers(0, 5000).map(str),
    st.integers(0, 10**25).map(str),
    st.builds(lambda zeros, number, more: "0" * zeros + str(number) + "0" * more, st.integers(0, 3), st.integers(0, 10**8), st.integers(0, 24)),
    st.just(""),
)  # fmt: skip
_FRACTION = st.one_of(
    st.just(""),
    st.just(""),
    st.sampled_from([".", ".0", ".5", ".000", ".25", ".123456789", ".1234567891", ".0000000001"]),
    st.text("0123456789", max_size=30).map(lambda digits: f".{digits}"),
)
_SUFFIXES = ["", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
#: Kubernetes keeps 32 bits of an exponent. Much larger ones would keep it busy for hours.
_EXPONENTS = ["e+2", "E+21", "e-12", "e399", "e-300", "e4294967299", "e-4294967290", "e4294967278"]
_WRONG = ["K", "i", "e", "e+", "Eie", "ki", "e9223372036854775808", "e1.5", " ", "x"]
_SUFFIX = st.one_of(
    st.sampled_from(_SUFFIXES),
    st.integers(-40, 60).map(lambda exponent: f"e{exponent}"),
    st.sampled_from(_EXPONENTS),
    st.sampled_from(_WRONG),
)

#: Any text that might be a quantity.
texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "", "", "-", "+"]),
    _WHOLE,
    _FRACTION,
    _SUFFIX,
)

#: Policies by which devices round sizes: steps, also large ones, none, values, and no policy at all.
CAPACITIES: tuple[JsonObject, ...] = (
    {"value": "40Gi", "requestPolicy": {"default": "40Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}}},
    {"value": "40Gi", "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}},
    {"value": "40Gi", "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi"}}},
    {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validValues": ["10Gi", "20Gi"]}},
    {"value": "40Gi"},
    {"value": "100", "requestPolicy": {"default": "10"}},
    {"value": "10G", "requestPolicy": {"default": "100M", "validRange": {"min": "100M", "step": "100M", "max": "10G"}}},
    {"value": "1001", "requestPolicy": {"default": "7", "validRange": {"min": "0", "step": "7"}}},
    {"value": "4Pi", "requestPolicy": {"default": "1Pi", "validRange": {"min": "1Pi", "step": "1Pi"}}},
    {"value": "100000", "requestPolicy": {"default": "3", "validRange": {"min": "3", "step": "1500m"}}},
)


def device(index: int, capacity: JsonObject) -> JsonObject:
    """A device that only requests with its index select."""
    return {
        "name": f"gpu-{index}",
        "allowMultipleAllocations": True,
        "attributes": {"place": {"int": index}},
        "capacity": {"memory": capacity},
    }


def request(name: str, index: int, size: str) -> JsonObject:
    """A request for a share of the device at an index."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].place == {index}'
    exactly = {
        "deviceClassName": DEVICE_CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
        "capacity": {"requests": {"memory": size}},
    }
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: JsonObject) -> JsonObject:
    """A claim of these requests."""
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def objects(node: str, capacities: list[JsonObject]) -> tuple[JsonObject, JsonObject]:
    """The class, and a slice of a node with a device for each capacity; at most 128."""
    devices = [device(index, capacity) for index, capacity in enumerate(capacities)]
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DEVICE_CLASS},
        "spec": {},
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    device_slice = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-sizes"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }
    return device_class, device_slice

"""Which claims are smaller than others."""

from dra_spawner.spawner.smaller_choice import claims_size, is_smaller
from tests.all_of_them import all_of_them


def specs(count=1, *, kind="gpu", claim="gpu", mode="ExactCount", **capacity):
    exactly = {"deviceClassName": kind, "allocationMode": mode, "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {claim: {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


@all_of_them(
    "one, other, smaller",
    {
        "smaller share": (specs(memory="5Gi"), specs(memory="10Gi"), True),
        "same": (specs(memory="10Gi"), specs(memory="10Gi"), False),
        "larger share": (specs(memory="15Gi"), specs(memory="10Gi"), False),
        "share of a whole one": (specs(memory="5Gi"), specs(), True),
        "whole instead of a share": (specs(), specs(memory="5Gi"), False),
        "fewer": (specs(1), specs(2), True),
        "another kind": (specs(1, kind="nic"), specs(2), False),
        "another claim": (specs(1, claim="nic"), specs(2), False),
        "one claim less": (specs(), {**specs(), **specs(claim="nic")}, True),
        "fewer but larger": (specs(1, memory="20Gi"), specs(2, memory="10Gi"), False),
        "nothing": ({}, specs(), False),
    },
)
def test_smaller(one, other, smaller):
    size, other_size = claims_size(one), claims_size(other)
    assert size is not None
    assert other_size is not None
    assert is_smaller(size, other_size) is smaller


@all_of_them(
    "unknown",
    {
        "all of a node": specs(mode="All"),
        "no amount": specs(memory="much"),
        "alternatives": {"gpu": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}}},
    },
)
def test_claims_that_cannot_be_compared(unknown):
    assert claims_size(unknown) is None

"""Which claims are smaller than others."""

import pytest

from dra_spawner.spawner.smaller_choice import claims_size, is_smaller


def specs(count=1, *, kind="gpu", claim="gpu", mode="ExactCount", **capacity):
    exactly = {"deviceClassName": kind, "allocationMode": mode, "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {claim: {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


@pytest.mark.parametrize(
    ("one", "other", "smaller"),
    [
        pytest.param(specs(memory="5Gi"), specs(memory="10Gi"), True, id="smaller share"),
        pytest.param(specs(memory="10Gi"), specs(memory="10Gi"), False, id="same"),
        pytest.param(specs(memory="15Gi"), specs(memory="10Gi"), False, id="larger share"),
        pytest.param(specs(memory="5Gi"), specs(), True, id="share of a whole one"),
        pytest.param(specs(), specs(memory="5Gi"), False, id="whole instead of a share"),
        pytest.param(specs(1), specs(2), True, id="fewer"),
        pytest.param(specs(1, kind="nic"), specs(2), False, id="another kind"),
        pytest.param(specs(1, claim="nic"), specs(2), False, id="another claim"),
        pytest.param(specs(), {**specs(), **specs(claim="nic")}, True, id="one claim less"),
        pytest.param(specs(1, memory="20Gi"), specs(2, memory="10Gi"), False, id="fewer but larger"),
        pytest.param({}, specs(), False, id="nothing"),
    ],
)
def test_smaller(one, other, smaller):
    size, other_size = claims_size(one), claims_size(other)
    assert size is not None
    assert other_size is not None
    assert is_smaller(size, other_size) is smaller


@pytest.mark.parametrize(
    "unknown",
    [
        specs(mode="All"),
        specs(memory="much"),
        {"gpu": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}}},
    ],
    ids=["all of a node", "no amount", "alternatives"],
)
def test_what_cannot_be_compared(unknown):
    assert claims_size(unknown) is None

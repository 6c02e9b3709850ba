"""Health of a device: the node's reports and the driver's marks."""

from __future__ import annotations

import pytest

from dra_spawner.dra.claims import Toleration
from dra_spawner.spawner.my_devices.device_health import HealthState, device_health, one_line, reported_names
from tests.spawner.my_devices.objects import GPU, gpu, pod, published

GOOD = {"resourceID": "gpu.nvidia.com/node-a/gpu-0", "health": "Healthy"}
BAD = {"resourceID": "k8s.gpu.nvidia.com/device=gpu-0", "health": "Unhealthy", "message": "Xid 48.\n\x1b[31mred"}
OTHER = {"resourceID": "gpu.nvidia.com/node-a/gpu-9", "health": "Unhealthy"}
OFFERED = published(gpu())
MARKED = published(gpu(taints=[{"key": "example.com/xid", "effect": "NoExecute"}]))
NOTED = published(gpu(taints=[{"key": "example.com/note", "effect": "None"}]))


@pytest.mark.parametrize(
    ("reports", "devices", "state", "says"),
    [
        pytest.param(None, OFFERED, HealthState.UNKNOWN, "Nothing reports", id="no report"),
        pytest.param([GOOD], OFFERED, HealthState.HEALTHY, "works", id="healthy"),
        pytest.param([{"health": "Unknown"}], OFFERED, HealthState.UNKNOWN, "Nothing reports", id="unknown"),
        pytest.param([BAD], OFFERED, HealthState.UNHEALTHY, "It reports: Xid 48. [31mred.", id="by another name"),
        pytest.param([GOOD, OTHER], OFFERED, HealthState.HEALTHY, "works", id="another device is not"),
        pytest.param([GOOD], MARKED, HealthState.WITHDRAWN, "marked “example.com/xid”", id="a mark beside a report"),
        pytest.param([BAD], MARKED, HealthState.UNHEALTHY, "does not work", id="the worst counts"),
        pytest.param([GOOD], NOTED, HealthState.HEALTHY, "works", id="a mark without effect"),
        pytest.param([GOOD], published(gpu("gpu-1")), HealthState.WITHDRAWN, "not offer", id="gone"),
        pytest.param(None, published(), HealthState.WITHDRAWN, "not offer", id="an empty pool"),
    ],
)
def test_health(reports, devices, state, says):
    found = device_health(pod(reports), reported_names("gpu", "gpu/first"), GPU, devices.find(GPU), ())
    assert found.state is state
    assert says in found.sentence


def test_reports_of_the_whole_claim_count():
    found = device_health(pod([BAD], "claim:gpu"), reported_names("gpu", "gpu"), GPU, OFFERED.find(GPU), ())
    assert found.state is HealthState.UNHEALTHY


def test_a_mark_that_the_request_tolerates_is_no_news():
    tolerated = [Toleration(key="example.com/xid", operator="Exists")]
    assert (
        device_health(pod(), reported_names("gpu", "gpu"), GPU, MARKED.find(GPU), tolerated).state
        is HealthState.UNKNOWN
    )


@pytest.mark.parametrize("value", [None, 3, ["a"], {}])
def test_only_text_is_shown(value):
    assert one_line(value) == ""

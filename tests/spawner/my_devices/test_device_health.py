"""Health of a device: the node's reports and the driver's marks."""

from __future__ import annotations

from dra_spawner.dra.model.claims import Toleration
from dra_spawner.spawner.my_devices.device_health import HealthState, device_health, one_line, reported_names
from tests.all_of_them import all_of_them
from tests.spawner.my_devices.objects import GPU, gpu, pod, published

GOOD = {"resourceID": "gpu.nvidia.com/node-a/gpu-0", "health": "Healthy"}
BAD = {"resourceID": "k8s.gpu.nvidia.com/device=gpu-0", "health": "Unhealthy", "message": "Xid 48.\n\x1b[31mred"}
OTHER = {"resourceID": "gpu.nvidia.com/node-a/gpu-9", "health": "Unhealthy"}
OFFERED = published(gpu())
MARKED = published(gpu(taints=[{"key": "example.com/xid", "effect": "NoExecute"}]))
NOTED = published(gpu(taints=[{"key": "example.com/note", "effect": "None"}]))


@all_of_them(
    "reports, devices, state, says",
    {
        "no report": (None, OFFERED, HealthState.UNKNOWN, "Nothing reports"),
        "healthy": ([GOOD], OFFERED, HealthState.HEALTHY, "works"),
        "unknown": ([{"health": "Unknown"}], OFFERED, HealthState.UNKNOWN, "Nothing reports"),
        "by another name": ([BAD], OFFERED, HealthState.UNHEALTHY, "It reports: Xid 48. [31mred."),
        "another device is not": ([GOOD, OTHER], OFFERED, HealthState.HEALTHY, "works"),
        "a mark beside a report": ([GOOD], MARKED, HealthState.WITHDRAWN, "marked “example.com/xid”"),
        "the worst counts": ([BAD], MARKED, HealthState.UNHEALTHY, "does not work"),
        "a mark without effect": ([GOOD], NOTED, HealthState.HEALTHY, "works"),
        "gone": ([GOOD], published(gpu("gpu-1")), HealthState.WITHDRAWN, "not offer"),
        "an empty pool": (None, published(), HealthState.WITHDRAWN, "not offer"),
    },
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
    found = device_health(pod(), reported_names("gpu", "gpu"), GPU, MARKED.find(GPU), tolerated)
    assert found.state is HealthState.UNKNOWN


@all_of_them("value", [None, 3, ["a"], {}])
def test_only_text_is_shown(value):
    assert one_line(value) == ""

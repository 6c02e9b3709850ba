"""Series of Prometheus, and whose use they are."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.fairness.idle.metrics import (
    InvalidMetrics,
    MetricQuery,
    TellsApart,
    drivers_without_values,
    read_metrics,
)
from tests.all_of_them import all_of_them

GPU = DeviceId("gpu.nvidia.com", "n1", "gpu-0")
OTHER = DeviceId("gpu.nvidia.com", "n1", "gpu-1")
POD = {"namespace": "hub", "pod": "jupyter-ada"}
DRA = {"dra_driver_name": GPU.driver, "dra_pool_name": GPU.pool, "dra_device_name": GPU.device}
PLAIN = {"driver": GPU.driver, "pool": GPU.pool, "device": GPU.device}
EXPORTED = {"namespace": "monitoring", "pod": "exporter", "exported_namespace": "hub", "exported_pod": "jupyter-ada"}


def answer(*series: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@all_of_them("series, is_shared, apart, expected", {
    "of the pod": ([(POD, "30")], False, TellsApart.DEVICE, (30.0, True)),
    "of the pod, whose labels the scrape has moved": ([(EXPORTED, "30")], False, TellsApart.DEVICE, (30.0, True)),
    "of the device": ([(PLAIN, "30")], False, TellsApart.DEVICE, (30.0, True)),
    "of the device, as NVIDIA's exporter names it": ([(DRA, "30")], False, TellsApart.DEVICE, (30.0, True)),
    "of pod and device": ([({**POD, **DRA}, "7"), (POD, "30")], False, TellsApart.DEVICE, (7.0, True)),
    "of another pod": ([({**POD, "pod": "other"}, "30")], False, TellsApart.DEVICE, (None, True)),
    "a share, and a query that does not tell shares apart": ([(POD, "30")], True, TellsApart.DEVICE, (30.0, False)),
    "a share, and a series of another pod": (
        [(POD, "0"), ({**POD, "pod": "other", **DRA}, "80")], True, TellsApart.DEVICE, (80.0, False),
    ),
    "a share by itself": ([(POD, "0"), (DRA, "80")], True, TellsApart.POD, (0.0, True)),
    "a share without a series of its own": ([(DRA, "80")], True, TellsApart.POD, (80.0, False)),
    "a pod's series beside the one of its device": ([(POD, "0"), (PLAIN, "80")], False, TellsApart.DEVICE, (80.0, True)),
    "a share and its device, which another one uses": (
        [({**POD, **DRA}, "0"), (PLAIN, "80")], True, TellsApart.DEVICE, (80.0, False),
    ),
    "the largest of several": ([(POD, "3"), (POD, "30"), (POD, "0")], False, TellsApart.DEVICE, (30.0, True)),
    "one that is no number": ([(POD, "3"), (POD, "NaN")], False, TellsApart.DEVICE, (None, True)),
    "one that is no number, first": ([(POD, "NaN"), (POD, "3")], False, TellsApart.DEVICE, (None, True)),
    "infinite": ([(POD, "+Inf")], False, TellsApart.DEVICE, (None, True)),
    "negative": ([(POD, "-1")], False, TellsApart.DEVICE, (None, True)),
    "labels that are no texts": ([({"namespace": 1, "pod": ["jupyter-ada"]}, "3")], False, TellsApart.DEVICE, (None, True)),
})  # fmt: skip
def test_whose_use_a_series_is(
    series: Any, is_shared: bool, apart: TellsApart, expected: tuple[float | None, bool]
) -> None:
    found = read_metrics(MetricQuery("q", apart=apart), answer(*series))
    assert found.of("hub", "jupyter-ada", GPU, is_shared=is_shared) == expected
    assert found.of("hub", "jupyter-bob", OTHER, is_shared=is_shared)[0] is None


def test_half_of_the_devices_prove_nothing() -> None:
    """Series of one GPU, told by its UUID, say nothing of the second one; a use is a use."""
    one, two = ({**POD, "UUID": f"GPU-{number}"} for number in range(2))
    for series, devices, expected in (
        ([(one, "0")], 1, 0.0),
        ([(one, "0")], 2, None),
        ([(one, "0"), (one, "0")], 2, None),
        ([(one, "0"), ({**one, "GPU_I_ID": "3"}, "0")], 2, 0.0),
        ([(one, "0"), (two, "0")], 2, 0.0),
        ([(one, "30")], 2, 30.0),
        ([(POD, "0")], 2, 0.0),  # a query that sums over devices
    ):
        found = read_metrics(MetricQuery("q"), answer(*series))
        percent, _ = found.of("hub", "jupyter-ada", GPU, is_shared=False, devices=devices)
        assert percent == expected, (series, devices)


@all_of_them("found", {
    "nothing": None,
    "a text": "up",
    "an error": {"status": "error", "error": "bad"},
    "a matrix": {"data": {"resultType": "matrix", "result": []}},
    "no list": {"data": {"resultType": "vector", "result": {}}},
    "a series that is a text": {"data": {"resultType": "vector", "result": ["up"]}},
    "no labels": {"data": {"resultType": "vector", "result": [{"value": [1, "2"]}]}},
    "no value": {"data": {"resultType": "vector", "result": [{"metric": {}}]}},
    "a value that is a number": {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, 2]}]}},
    "a value that is a word": {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "much"]}]}},
})  # fmt: skip
def test_an_answer_that_is_not_understood_tells_nothing(found: object) -> None:
    with pytest.raises(InvalidMetrics):
        read_metrics(MetricQuery("q"), found)


def test_an_exporter_that_is_down_is_named() -> None:
    found = read_metrics(MetricQuery("q", (GPU.driver,)), answer())
    other = read_metrics(MetricQuery("q", ("gpu.example.com",)), answer((POD, "0")))
    assert drivers_without_values((found, other)) == (GPU.driver,)

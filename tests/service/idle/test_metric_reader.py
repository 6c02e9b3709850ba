"""The use of devices: from Debian's Prometheus, and from servers that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.fairness.idle.metrics import PRESETS, MetricQuery, TellsApart
from dra_spawner.fairness.idle.policy import PrometheusAddress
from dra_spawner.service.idle.metric_reader import FoundMetrics, read_use
from tests.all_of_them import all_of_them
from tests.local_server import serving
from tests.ports import free_port
from tests.service.idle.prometheus import prometheus

NVIDIA, EXAMPLE = "gpu.nvidia.com", "gpu.example.com"
#: As NVIDIA's exporter writes them, with and without Dynamic Resource Allocation, and as the kubelet writes them.
SAMPLES = """
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="n1",namespace="hub",pod="jupyter-ada"} 37
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1",device="nvidia1",Hostname="n1",namespace="hub",pod="jupyter-bob",dra_driver_name="gpu.nvidia.com",dra_pool_name="n1",dra_device_name="gpu-1"} 0
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",GPU_I_ID="3",UUID="GPU-2",device="nvidia2",namespace="hub",pod="jupyter-cem",dra_driver_name="gpu.nvidia.com",dra_pool_name="n1",dra_device_name="gpu-2-mig-1g"} 0.25
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="notebook",namespace="hub",pod="jupyter-dan"} 12
container_cpu_usage_seconds_total{container="",namespace="hub",pod="jupyter-dan"} 12
own_use{driver="own.example.com",pool="n1",device="d0"} 5
own_use{driver="own.example.com",pool="n1",device="d1"} NaN
"""


def used(
    found: FoundMetrics, pod: str, driver: str, device: str, *, is_shared: bool = False
) -> tuple[float | None, bool]:
    values = found.of_driver(driver)
    assert values is not None
    return values.of("hub", pod, DeviceId(driver, "n1", device), is_shared=is_shared)


@pytest.mark.needs_program("prometheus")
async def test_presets_and_an_own_query_on_debians_prometheus(tmp_path: Path) -> None:
    own = MetricQuery("own_use", ("own.example.com",))
    async with prometheus(tmp_path, SAMPLES) as server:
        await server.has("DCGM_FI_DEV_GPU_UTIL")
        await server.has(PRESETS["example"].query)
        queries = (PRESETS["dcgm"], PRESETS["example"], own)
        found = await read_use(PrometheusAddress(server.url, queries=queries))
        assert found.problems == ()
        assert used(found, "jupyter-ada", NVIDIA, "gpu-0") == (37.0, True)
        assert used(found, "jupyter-ada", NVIDIA, "gpu-0", is_shared=True) == (37.0, False), "of all shares"
        assert used(found, "jupyter-bob", NVIDIA, "gpu-1") == (0.0, True)
        assert used(found, "jupyter-bob", NVIDIA, "gpu-1", is_shared=True) == (0.0, False)
        assert used(found, "jupyter-cem", NVIDIA, "gpu-2-mig-1g") == (25.0, True), "an instance of MIG"
        assert used(found, "jupyter-eve", NVIDIA, "gpu-9") == (None, True)
        assert used(found, "jupyter-dan", EXAMPLE, "gpu-0", is_shared=True) == (0.0, True), "by pod, so of this share"
        assert used(found, "any", "own.example.com", "d0") == (5.0, True)
        assert used(found, "any", "own.example.com", "d1") == (None, True)

        # A counter rises; a query is wrong; an exporter has no series.
        server.text = SAMPLES.replace(
            'container="notebook",namespace="hub",pod="jupyter-dan"} 12',
            'container="notebook",namespace="hub",pod="jupyter-dan"} 500',
        )
        await server.has(f"{PRESETS['example'].query} > 5")
        none = MetricQuery("nothing_has_this_name", ("b.example.com",))
        address = PrometheusAddress(
            server.url, queries=(PRESETS["example"], MetricQuery("sum(", ("a.example.com",)), none)
        )
        found = await read_use(address)
        percent, _ = used(found, "jupyter-dan", EXAMPLE, "gpu-0")
        assert percent is not None
        assert percent > 5
        assert found.problems == (
            "Prometheus has no series of the use of devices for: b.example.com.",
            "The use of devices is not known: Prometheus answers with status 400.",
        )
        assert used(found, "jupyter-dan", "a.example.com", "d") == (None, True)


@all_of_them("body, status, says", {
    "not JSON": ("<html>", 200, "Prometheus does not answer with JSON"),
    "deep": ("[" * 100_000, 200, "Prometheus does not answer with JSON"),
    "another type": (json.dumps({"data": {"resultType": "matrix", "result": []}}), 200, "the answer is no instant vector"),
    "huge": (" " * (17 * 2**20), 200, "Prometheus answers with more than 16 MiB"),
    "an error": ("{}", 503, "Prometheus answers with status 503"),
    "a redirect": ("", 302, "Prometheus answers with status 302"),
})  # fmt: skip
async def test_what_is_no_prometheus_tells_nothing(body: str, status: int, says: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status, headers={"Location": "/else"} if status == 302 else {})

    async with serving(answer) as url:
        found = await read_use(PrometheusAddress(url, queries=(MetricQuery("q", apart=TellsApart.POD),)))
    assert found.problems == (f"The use of devices is not known: {says}.",)
    assert used(found, "jupyter-ada", "any", "gpu-0") == (None, True)


async def test_without_an_answer_or_a_token_nothing_is_known(tmp_path: Path) -> None:
    assert await read_use(PrometheusAddress()) == FoundMetrics()
    secret = f"http://user:secret@127.0.0.1:{free_port()}"
    found = await read_use(PrometheusAddress(secret, queries=(MetricQuery("q"),)))
    assert "cannot be reached" in found.problems[0]
    assert "secret" not in str(found.problems)
    found = await read_use(PrometheusAddress(secret, str(tmp_path / "none"), (MetricQuery("q"),)))
    assert "the token cannot be read" in found.problems[0]

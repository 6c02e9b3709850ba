"""The use of devices: from Debian's Prometheus, and from servers that are none."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from aiohttp import web

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.fairness.idle.metrics import PRESETS, MetricQuery, MetricValues, TellsApart, read_metrics
from dra_spawner.fairness.idle.policy import PrometheusAddress
from dra_spawner.service.idle import metric_reader
from dra_spawner.service.idle.metric_reader import FoundMetrics, read_use
from tests.all_of_them import all_of_them
from tests.local_server import serving
from tests.ports import free_port
from tests.service.idle.prometheus import prometheus

NVIDIA, EXAMPLE = "gpu.nvidia.com", "gpu.example.com"


def dcgm(name: str, value: float, gpu: int, pod: str = "", device: str = "", **more: str) -> str:
    """A line as NVIDIA's exporter writes it, with the labels of Dynamic Resource Allocation where it reads claims."""
    labels = {
        "gpu": str(gpu),
        "UUID": f"GPU-0000000{gpu}-1111-2222-3333-444444444444",
        "pci_bus_id": f"00000000:0{gpu}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "Hostname": "n1",
        "DCGM_FI_DRIVER_VERSION": "580.1.2",
        **({"container": "notebook", "namespace": "hub", "pod": pod} if pod else {}),
        **({"dra_claim_name": f"{pod}-gpu", "dra_claim_namespace": "hub"} if device else {}),
        **({"dra_driver_name": NVIDIA, "dra_pool_name": "n1", "dra_device_name": device} if device else {}),
        **more,
    }
    return f"{name}{{{','.join(f'{key}={json.dumps(each)}' for key, each in labels.items())}}} {value}"


UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
MIG = {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7", "dra_mig_profile": "1g.5gb", "dra_mig_device_uuid": "MIG-1"}
OLD = {"pod_name": "jupyter-hal", "pod_namespace": "hub", "container_name": "notebook"}
#: As NVIDIA's exporter writes them, and as the kubelet does.
SAMPLES = f"""
# HELP {UTIL} GPU utilization (in %).
# TYPE {UTIL} gauge
{dcgm(UTIL, 37, 0, "jupyter-ada")}
{dcgm(UTIL, 0, 1, "jupyter-bob", "gpu-1")}
{dcgm(UTIL, 0, 2, "jupyter-cem", "gpu-2-mig-1g-0", **MIG)}
{dcgm(UTIL, 0, 2, "jupyter-deb", "gpu-2-mig-1g-1", **MIG | {"GPU_I_ID": "8"})}
{dcgm(UTIL, 64, 3, "jupyter-fay", "gpu-3", vgpu="0")}
{dcgm(UTIL, 64, 3, "jupyter-gus", "gpu-3", vgpu="1")}
{dcgm(UTIL, 0, 4, **OLD)}
{dcgm(UTIL, 0, 5, "jupyter-iva")}
{dcgm(UTIL, 0, 6)}
# HELP {ENGINE} Ratio of time the graphics engine is active.
# TYPE {ENGINE} gauge
{dcgm(ENGINE, 0.31, 0, "jupyter-ada")}
{dcgm(ENGINE, 0.25, 2, "jupyter-cem", "gpu-2-mig-1g-0", **MIG)}
"""
SAMPLES += """# HELP container_cpu_usage_seconds_total Cumulative cpu time.
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="notebook",namespace="hub",pod="jupyter-dan"} 12
container_cpu_usage_seconds_total{container="",namespace="hub",pod="jupyter-dan"} 12
own_use{driver="own.example.com",pool="n1",device="d0"} 5
own_use{driver="own.example.com",pool="n1",device="d1"} NaN
"""


def used(
    found: FoundMetrics, pod: str, driver: str, device: str, *, is_shared: bool = False, devices: int = 1
) -> tuple[float | None, bool]:
    values = found.of_driver(driver)
    assert values is not None
    return values.of("hub", pod, DeviceId(driver, "n1", device), is_shared=is_shared, devices=devices)


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
        assert used(found, "jupyter-cem", NVIDIA, "gpu-2-mig-1g-0") == (25.0, True), "the metric that MIG has"
        assert used(found, "jupyter-deb", NVIDIA, "gpu-2-mig-1g-1") == (None, True), (
            "the use of a GPU with MIG is always 0"
        )
        for pod in ("jupyter-fay", "jupyter-gus"):
            assert used(found, pod, NVIDIA, "gpu-3", is_shared=True) == (64.0, False), "of all shares, not of one"
        assert used(found, "jupyter-hal", NVIDIA, "gpu-4") == (0.0, True), "with --use-old-namespace"
        assert used(found, "jupyter-iva", NVIDIA, "gpu-5", devices=2) == (None, True), "one of two GPUs is silent"
        assert used(found, "jupyter-ada", NVIDIA, "gpu-0", devices=2) == (37.0, True), "what is used is known"
        assert used(found, "exporter", NVIDIA, "gpu-6") == (None, True), "a GPU of nobody is not the exporter's"
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


async def test_a_large_answer_is_understood_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 series take more than half a second, in which no placement would be answered."""
    threads: list[threading.Thread] = []

    def noted(query: MetricQuery, answer: object) -> MetricValues:
        threads.append(threading.current_thread())
        return read_metrics(query, answer)

    monkeypatch.setattr(metric_reader, "read_metrics", noted)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    async with serving(answer) as url:
        await read_use(PrometheusAddress(url, queries=(MetricQuery("up"), MetricQuery("down"))))
    assert len(threads) == 2
    assert threading.main_thread() not in threads

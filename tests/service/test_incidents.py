"""Incidents, in virtual time: which alert fires when, by promtool from the metrics of a service at work, and which page says it."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dra_spawner.kube.client.api import resource_path
from dra_spawner.kube.informers import InformerState
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.polling import eventually
from tests.promtool import RULES, promtool
from tests.service.replica import publish_shapes, server_objects
from tests.service.virtual_replica import PATIENT, VirtualReplica, VirtualTime
from tests.virtual_time.clock import StandingClock

GPU = shape(WHOLE)
SLICES = resource_path("resource.k8s.io/v1", "resourceslices")
#: Interval of the scrapes, and of the evaluation of rules, in seconds.
SCRAPE = 15
START_SECONDS = 60

pytestmark = pytest.mark.needs_program("promtool")


class Incident:
    """A service at work on a cluster with two nodes, each with a GPU, and a Prometheus that reads its metrics."""

    def __init__(self, cluster: ClusterUnderTest, time: VirtualTime, service: VirtualReplica) -> None:
        self.cluster = cluster
        self.time = time
        self.service = service
        self._scrapes: list[dict[str, float]] = []

    async def minutes(self, number: float) -> None:
        """Let time go on, with a scrape each 15 s."""
        for _ in range(round(number * 60 / SCRAPE)):
            await self.scrape()
            self.time.clock.jump_to(self.time.now() + timedelta(seconds=SCRAPE))
            self.service.note_jump()
            await eventually(lambda: self.service.is_fresh, "the watches are renewed")

    async def scrape(self) -> None:
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(await self.service.running.get("metrics")):
            for each in family.samples:
                if each.name.startswith("dra_spawner_") and not each.name.endswith(("_created", "_bucket")):
                    labels = {**each.labels, "job": "dra-spawner", "namespace": "hub", "instance": "a"}
                    text = ", ".join(f'{name}="{value}"' for name, value in labels.items())
                    found[f"{each.name}{{{text}}}"] = each.value
        self._scrapes.append(found)

    async def cut_off(self) -> None:
        """Let nothing get through any more, and wait until no answer is under way."""
        self.service.proxy.fail(Fault.hold(), times=None)
        self.service.proxy.cut()
        self.service.is_cut_off = True
        watch = self.service.running.controller.watch
        await eventually(
            lambda: all(each.problem or each.state is InformerState.OFF for each in watch.status()),
            "each watch is broken",
            shows=watch.status,
        )

    async def page(self, path: str = "page") -> str:
        """The text of a page."""
        html = re.sub(r"<(script|style).*?</\1>", "", await self.service.running.get(path), flags=re.S)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())

    def assert_alerts(self, directory: Path, expected: Mapping[float, set[str]]) -> None:
        """Exactly these alerts fire at these minutes."""
        names = sorted({name for each in self._scrapes for name in each})
        series = [{"series": name, "values": " ".join(self._values(name))} for name in names]
        asked = [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{round(minute * 60)}s",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
            }
            for minute, alerts in expected.items()
        ]
        tests = [{"interval": f"{SCRAPE}s", "input_series": series, "promql_expr_test": asked}]
        file = directory / "incident.yaml"
        file.write_text(
            yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": f"{SCRAPE}s", "tests": tests})
        )
        promtool("test", "rules", str(file))

    def _values(self, name: str) -> Iterator[str]:
        for each in self._scrapes:
            value = each.get(name)
            yield (
                "_"
                if value is None
                else str(value)
                if math.isfinite(value)
                else str(value).title().replace("Nan", "NaN")
            )


@contextlib.asynccontextmanager
async def incident(cluster: ClusterUnderTest) -> AsyncIterator[Incident]:
    await prepare(cluster, *node("node-a", whole("gpu-0")), *node("node-b", whole("gpu-0")))
    await publish_shapes(cluster, {"gpu-whole": GPU}, start_seconds=START_SECONDS)
    time = VirtualTime(clock=StandingClock)
    async with cluster.fault_proxy() as proxy:
        traits = {"placeholders": {"gpu-whole": {"min": 1, "max": 1}}}
        service = VirtualReplica(cluster, time, proxy, traits, replace(PATIENT, watch_seconds=10))
        running = await service.start()
        try:
            await running.until_warm(GPU, 1)
            yield Incident(cluster, time, service)
        finally:
            await service.stop()


async def test_a_driver_withdraws_all_devices(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    async with incident(embedded_cluster) as world:
        await world.minutes(2)
        for each in (await embedded_cluster.admin.list(SLICES))["items"]:
            await embedded_cluster.admin.delete(f"{SLICES}/{each['metadata']['name']}")
        watch = world.service.running.controller.watch
        await eventually(lambda: not watch.snapshot.slices, "the slices are gone")
        said = "The driver gpu.example.com published devices of node-a, node-b, and publishes none there now."
        assert said in await world.page()
        assert said in (await world.service.running.get_json("status"))["problems"]
        await world.minutes(5)
        world.assert_alerts(
            tmp_path, {2: set(), 4.75: set(), 5.25: {"DRASpawnerDriverGone"}, 6.75: {"DRASpawnerDriverGone"}}
        )


async def test_the_api_server_is_away(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    """A minute wakes nobody up, but each page says it within 20 s; longer is critical."""
    async with incident(embedded_cluster) as world:
        await world.minutes(1)
        assert "Figures are" not in await world.page()
        await world.cut_off()
        await world.minutes(0.25)
        world.time.clock.jump_to(world.time.now() + timedelta(seconds=5))
        for path in ("page", "placeholders-page", "decisions-page", "calendar-page"):
            assert "Figures are 20 s old" in await world.page(path), path
        await world.minutes(0.75)
        assert "Figures are 65 s old" in await world.page()
        async with aiohttp.ClientSession() as session, session.get(f"{world.service.running.url}/profiles") as answer:
            assert int(answer.headers["Age"]) >= 65, "forms show no availability that is older than 30 s"
        world.service.heal()
        await eventually(lambda: world.service.is_fresh, "the data are fresh again")
        assert "Figures are" not in await world.page()
        await world.minutes(3)
        await world.cut_off()
        await world.minutes(4)
        away = {"DRASpawnerClusterAway"}
        quiet = {minute / 2: set[str]() for minute in range(12)}
        world.assert_alerts(tmp_path, {**quiet, 7.5: away, 8.75: {*away, "DRASpawnerDataStale"}})
        world.service.heal()


async def test_the_cluster_is_full(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    async with incident(embedded_cluster) as world:
        running = world.service.running
        answers = [await running.place(GPU, f"jupyter-{user}") for user in ("ada",)]
        await running.start(GPU, "jupyter-ada", WHOLE, answers[0])
        await embedded_cluster.publish(*server_objects("jupyter-eve", GPU, WHOLE))
        for user in ("ada", "eve"):
            await running.until_running(f"jupyter-{user}")
        await world.minutes(1)
        await embedded_cluster.publish(*server_objects("jupyter-zoe", GPU, WHOLE))
        await running.until_pending("jupyter-zoe")
        await world.minutes(0.5)
        await running.decide()
        page = await world.page()
        assert "Pending servers" in page
        assert "jupyter-zoe gpu-whole" in page
        assert "All devices of this kind are in use." in page
        await world.minutes(0.5)
        # The hub gives up, and removes the pod.
        await embedded_cluster.admin.delete(embedded_cluster.path("pods", "jupyter-zoe"), grace_period_seconds=0)
        await running.until(lambda: not running.controller.view().pending_users, "it is gone")
        await world.minutes(2)
        world.assert_alerts(tmp_path, {1.5: set(), 2: {"DRASpawnerServersPending"}, 3.5: {"DRASpawnerServersPending"}})

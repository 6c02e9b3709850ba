"""Waits at `api/profiles`, and how true they are: on a cluster where every device is taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.kube.client.api import resource_path
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.replica import Replica, replica, server_objects, set_up

GPU = shape(WHOLE)
PLAIN = shape({}, cpu="1")


def sessions_lasted(controller: ScaleAheadController, **length: float) -> None:
    now = controller.now()
    for number in range(20):
        begin = now - timedelta(**length) * (1 + number / 20)
        controller.sessions.learn([Launch(f"past-{number}", begin, choice="gpu", bound=begin, ended=now)], begin)


async def availability(service: Replica) -> dict[str, Any]:
    (found,) = (await service.get_json("profiles?name=gpu"))["items"]
    answer: dict[str, Any] = found["availability"]
    return answer


@pytest.mark.promise("The service estimates a wait, and compares it with the real one.")
async def test_a_wait_is_estimated_and_compared(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu": GPU, "plain": PLAIN}, *node("node-a", whole("gpu-0")))
    async with replica(cluster, placeholders={"plain": {"min": 1}}) as service:
        await service.until_warm(PLAIN, 1)
        assert (await availability(service))["state"] == "free"
        await cluster.publish(*server_objects("ada", GPU, WHOLE))
        await service.until_running("ada")
        found = await availability(service)
        assert (found["state"], found["wait"]) == ("when-stopped", None), "nothing is known of sessions"

        sessions_lasted(service.controller, hours=1)
        await cluster.publish(*server_objects("bob", GPU, WHOLE))
        await service.until_pending("bob")
        found = await availability(service)
        assert found["state"] == "when-stopped"
        assert found["wait"] is None, "two servers must stop, and one runs"
        waits = service.context.waits
        assert waits is not None
        calibration = waits.calibration
        uid = service.controller.view().pending_users[0].uid
        await service.until(lambda: calibration.knows(uid), "bob's wait is estimated")
        await cluster.admin.delete(resource_path("v1", "pods", cluster.namespace) + "/ada")
        await cluster.wait_running("bob")
        await service.until(lambda: calibration.counts.total() == 1, "bob's wait is compared")
        status = (await service.get_json("status"))["wait_estimates"]
        assert status == {"inside": 0, "early": 1, "late": 0, "share_inside": 0.0, "aim": 0.8}
        assert 'dra_spawner_wait_estimates_total{outcome="early"} 1.0' in await service.get("metrics")
        assert "Estimated waits: 0 % of them ended in their interval" in await service.get("placeholders-page")


async def test_sessions_and_lead_times_are_learned_from_the_history(
    embedded_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu": GPU, "plain": PLAIN}, *node("node-a", whole("gpu-0")))
    begin = datetime.now(UTC) - timedelta(hours=3)
    url = f"sqlite:///{tmp_path}/history.sqlite"
    database = HistoryDatabase.open(url)
    database.add(
        [
            *(
                Launch(str(each), begin, choice="gpu", bound=begin, ended=begin + each * timedelta(minutes=9))
                for each in range(1, 12)
            ),
            NodeLeadTime("n", "n", "large", begin, begin, images=begin + timedelta(minutes=4)),
        ]
    )
    database.close()
    async with replica(cluster, placeholders={"plain": {"min": 1}}, history={"url": url, "keep_days": 30}) as service:
        controller = service.controller
        await service.until(lambda: controller.sessions.lengths_of("gpu") is not None, "sessions are learned")
        assert controller.node_ceilings.waits_for_new("large") == [240.0]

"""All observers of a cluster see one virtual time, and its API server knows nothing of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.kube.client.api import WatchEventType
from dra_spawner.placeholders.planner.cluster.view import age
from tests.cluster.under_test import ClusterUnderTest
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock

MORNING = datetime(2026, 3, 2, 7, tzinfo=UTC)
A_MOMENT = timedelta(seconds=30)


async def test_answers_lists_and_watches_agree(cluster: ClusterUnderTest) -> None:
    clock = JumpingClock(MORNING)
    stamps = Stamps(clock)
    path = cluster.path("configmaps")
    async with (
        await VirtualTimeApi.connect(cluster.admin_kubeconfig, stamps) as api,
        await VirtualTimeApi.connect(cluster.admin_kubeconfig, stamps) as other,
    ):
        for number, hour in enumerate((8, 12)):
            clock.jump_to(MORNING.replace(hour=hour))
            created = await api.create(path, {"metadata": {"name": f"map-{number}"}})
            assert timedelta(0) <= age(created["metadata"]["creationTimestamp"], clock.now()) < A_MOMENT
        clock.jump_to(MORNING.replace(hour=13))
        listed = {
            each["metadata"]["name"]: each["metadata"]["creationTimestamp"] for each in (await api.list(path))["items"]
        }
        for name, hours in (("map-0", 5), ("map-1", 1)):
            assert timedelta(hours=hours) <= age(listed[name], clock.now()) < timedelta(hours=hours) + A_MOMENT
            assert (await other.get(f"{path}/{name}"))["metadata"]["creationTimestamp"] == listed[name]
        async for event_type, obj in other.watch(path, field_selector="metadata.name=map-0"):
            assert event_type is WatchEventType.ADDED
            assert obj["metadata"]["creationTimestamp"] == listed["map-0"]
            break
        # An object that was read may be written back.
        obj["data"] = {"text": "new"}
        written = await api.replace(f"{path}/map-0", obj)
        assert written["metadata"]["creationTimestamp"] == listed["map-0"]

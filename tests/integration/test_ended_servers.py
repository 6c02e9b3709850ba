"""A server that Kubernetes ends: the hub says why, on the home page and after a restart."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from jupyterhub.utils import utcnow

from dra_spawner import names
from dra_spawner.devcluster.clock import timestamp
from dra_spawner.kube.client.api import KubernetesError, PatchType
from dra_spawner.kube.pod_ends import REMOVED
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.server_context import parts_of
from tests.integration.devices import whole
from tests.integration.warm_placeholders import WHOLE, node, warm_placeholders
from tests.polling import eventually


def ready_node():
    objects = node("node-a", whole("gpu-0"))
    objects[0]["metadata"]["labels"][names.IMAGES_READY] = "true"
    return objects


@pytest.fixture
async def ended_hub(cluster):
    async with warm_placeholders(cluster) as found:
        yield found


@pytest.mark.promise("A server that the cluster ends says why on the home page.")
async def test_the_reason_of_an_eviction_is_kept(ended_hub):
    """As kube-controller-manager evicts: it writes a condition, and deletes the pod. Who deletes by force writes none."""
    await ended_hub.cluster.publish(*ready_node())
    for disruption, sentence in (
        ("DeletionByDeviceTaintManager", "A device of it was withdrawn on machine node-a."),
        ("EvictionByEvictionAPI", "It was evicted: Machine node-a was to become empty, for example for maintenance."),
        ("", "Nothing said that it would end: it was deleted by force on machine node-a, or its end was not seen."),
    ):
        assert await ended_hub.spawn() is None
        spawner = ended_hub.user("ada").spawner
        assert await spawner.poll() is None
        # kube-controller-manager sets it to False, without its reason, where it is older than two minutes or has no time.
        now = {"lastTransitionTime": timestamp(datetime.now(UTC))}
        condition = {"type": "DisruptionTarget", "status": "True", "reason": disruption, "message": "by a test", **now}
        path = ended_hub.cluster.path("pods", "jupyter-ada")
        if disruption:
            await ended_hub.cluster.admin.patch(
                f"{path}/status", {"status": {"conditions": [condition]}}, patch_type=PatchType.STRATEGIC
            )

        async def is_seen(spawner=spawner, disruption=disruption) -> bool:
            (pod,) = spawner.pod_reflector.pods.values()
            return not disruption or disruption in [each.get("reason") for each in pod["status"]["conditions"]]

        # An eviction takes a pod's grace period; without one, a watch that is renewed just then would miss the condition.
        await eventually(is_seen, "the hub sees the condition")
        # The kubelet of these tests would write its own conditions in place of this one.
        await ended_hub.cluster.admin.delete(path, grace_period_seconds=0)

        async def is_gone() -> bool:
            with contextlib.suppress(KubernetesError):
                await ended_hub.pod()
                return False
            return True

        await eventually(is_gone, "the pod is gone")

        async def is_noticed(spawner=spawner) -> bool:
            return await spawner.poll() is not None

        await eventually(is_noticed, "the hub notices")
        assert (parts_of(spawner).home.record.failure, parts_of(spawner).home.record.was_ended) == (sentence, True)
        spawner.clear_state()
        kept = ServerRecord.of_state(spawner.get_state())
        assert (kept.failure, kept.was_ended, kept.place) == (sentence, True, "")
        await ended_hub.stop_last()


async def test_a_server_that_was_removed_while_no_hub_ran(ended_hub):
    """The hub finds no pod when it is there again, and at most events; a server that has ended by itself is no news."""
    await ended_hub.cluster.publish(*ready_node())
    path, events = ended_hub.cluster.path("pods", "jupyter-ada"), ended_hub.cluster.path("events")
    for reason, sentence in (("", REMOVED), ("TaintManagerEviction", "Its machine does not work or was closed")):
        assert await ended_hub.spawn() is None
        spawner = ended_hub.user("ada").spawner
        await DRASpawner._stop_all_reflectors()
        if reason:
            about = {"kind": "Pod", "name": "jupyter-ada", "namespace": ended_hub.cluster.namespace}
            event = {"metadata": {"name": "e"}, "reason": reason, "involvedObject": about}
            await ended_hub.cluster.admin.create(events, event)
        await ended_hub.cluster.admin.delete(path, grace_period_seconds=0)
        await ended_hub.cluster.wait_gone(ended_hub.cluster.path("pods"))
        assert await spawner.poll() is not None
        assert parts_of(spawner).home.record.failure.startswith(sentence)
        await ended_hub.stop_last()


async def test_an_idle_server_with_devices_is_stopped(ended_hub):
    await ended_hub.cluster.publish(*ready_node())
    ended_hub.side.spawner_config.devices_idle_timeout = 1800
    for user, claims, is_stopped in (("ada", WHOLE, True), ("bob", {}, False)):
        ended_hub.side.spawner_config.device_claims = claims
        assert await ended_hub.spawn(user) is None
        spawner = ended_hub.user(user).spawner
        assert await spawner.poll() is None
        spawner.orm_spawner.last_activity = spawner.orm_spawner.started = utcnow(with_tz=False) - timedelta(
            seconds=1900
        )
        statuses = await asyncio.gather(spawner.poll(), spawner.poll())
        assert statuses.count(0) == is_stopped, statuses
        assert parts_of(spawner).home.record.was_ended is is_stopped
        if is_stopped:
            assert (
                parts_of(spawner).home.record.failure
                == "Nobody used it for 30 min, so its devices are free for others now."
            )
        await ended_hub.stop(user)
        await ended_hub.nothing_is_left()


async def test_a_server_whose_time_is_over_is_stopped_and_no_jump_of_the_clock_ends_it(ended_hub):
    await ended_hub.cluster.publish(*ready_node())
    ended_hub.side.spawner_config.devices_lifetime = 3600
    ended_hub.side.spawner_config.device_claims = WHOLE
    assert await ended_hub.spawn("ada") is None
    spawner = ended_hub.user("ada").spawner
    home = parts_of(spawner).home
    spawner.orm_spawner.started = utcnow(with_tz=False) - timedelta(days=9)  # the clock was set to another day
    assert await spawner.poll() is None
    assert 3500 < home.session().seconds_left <= 3600
    session = home.session()
    home.record = replace(home.record, session=replace(session, seen_at=session.seen_at - 3000))
    assert await spawner.poll() is None, "it is warned of, not stopped"
    assert home.session().ends_soon
    assert spawner.orm_spawner.state["dra_spawner"]["session"]["ran"] >= 3000, "it is stored for the next hub"
    home.record = replace(home.record, session=replace(session, ran=3600.0))
    statuses = await asyncio.gather(spawner.poll(), spawner.poll())
    assert statuses.count(0) == 1, statuses
    assert home.record.failure == "It ran for 1 h, the longest time of its choice. You may start it again."
    await ended_hub.stop("ada")
    await ended_hub.nothing_is_left()


async def test_a_server_that_somebody_stops_has_no_reason(ended_hub):
    await ended_hub.cluster.publish(*ready_node())
    assert await ended_hub.spawn() is None
    spawner = ended_hub.user("ada").spawner
    await ended_hub.stop_last()
    assert parts_of(spawner).home.record.failure == ""

"""Device classes whose CEL Kubernetes accepts: a service that evaluates them answers, and decides for other profiles."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner.kube.client.api import resource_path
from dra_spawner.service.context import Role
from tests.adversary.expressions import ACCEPTED
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable, whole
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.service.replica import Replica, publish_shapes, replica

from .busy_service import LONGEST_STALL, start_server, still_decides, watched_loop

PART = shape({"gpu": claim_spec("gpu-share.example.com", "10Gi")})
#: Each blocked the service for seconds to minutes.
EXPENSIVE = ("precision", "pairs compared", "digits in a loop", "pattern in a loop")


def class_name(number: int) -> str:
    return f"expensive-{number}.example.com"


def hostile_class(number: int) -> dict[str, object]:
    """No shipped class: its result for other drivers' devices does not matter."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": class_name(number)},
        "spec": {"selectors": [{"cel": {"expression": ACCEPTED[EXPENSIVE[number]]}}]},
    }


@pytest.fixture
async def tenant(cluster: ClusterUnderTest) -> AsyncIterator[str]:
    async with cluster.another_namespace("mallory") as name:
        yield name


@pytest.fixture
async def classes(cluster: ClusterUnderTest) -> AsyncIterator[range]:
    """Numbers of the hostile classes. Tests on the real control plane share them, so they do not stay."""
    numbers = range(len(EXPENSIVE))
    await cluster.publish(*(hostile_class(number) for number in numbers))
    yield numbers
    for number in numbers:
        path = resource_path("resource.k8s.io/v1", "deviceclasses", None, class_name(number))
        await cluster.admin.delete(path, missing_ok=True)


async def test_the_service_answers_and_decides_beside_hostile_device_classes(
    cluster: ClusterUnderTest, tenant: str, classes: range
) -> None:
    nodes = node("node-a", shareable("share"), *(whole(f"gpu-{number}") for number in range(4)))
    await prepare(cluster, *nodes, *node("node-b", shareable("share"), whole("gpu-0")))
    claims = [claim_spec(class_name(number)) for number in classes]
    hostile = {f"hostile-{number}": shape({"gpu": claim}) for number, claim in enumerate(claims)}
    await publish_shapes(cluster, {"gpu-slice": PART, **hostile})
    # Placeholders of a hostile profile are wanted, too; not of all, for kube-scheduler evaluates their classes as well.
    replicas = {"gpu-slice": {"min": 2, "max": 2}, "hostile-0": {"min": 1}}
    async with replica(cluster, placeholders=replicas, user_namespaces=True) as service:
        async with watched_loop(service) as stalls:
            await service.until_warm(PART, 2)
            await service.until_warm(hostile["hostile-0"], 1)
            for number, claim in enumerate(claims):
                await start_server(
                    cluster, tenant, f"server-{number}", claim, hostile[f"hostile-{number}"].id, schedulerName="nobody"
                )
            await service.until(lambda: len(_looked_at(service, tenant)) == len(claims), "each pod is looked at")
            profiles = {each["name"]: each for each in (await service.get_json("profiles"))["items"]}
            pending = (await service.get_json("pending-servers"))["items"]
            page = await service.get("page")
            answers = [
                await service.ask({"shape": each.id, "pod": "eve", "namespace": cluster.namespace})
                for each in hostile.values()
            ]
            await still_decides(service, 2, PART)
            placed = await service.place(PART, "ada")
        assert max(stalls) < LONGEST_STALL
        assert placed["state"] == "ready", placed
        assert [status for status, _ in answers] == [200] * len(answers)
        assert all(name in page and profiles[name]["availability"] for name in hostile)
        # Kubernetes evaluates this one in no time, and so does the service; of others there is no verdict.
        assert (answers[0][1]["state"], profiles["hostile-0"]["placeholders"]["warm"]) == ("ready", 1)
        assert "evaluating it takes more than" in answers[1][1]["reason"]
        assert "evaluating it takes more than" in profiles["hostile-1"]["availability"]["reason"]
        decided = {each["name"]: each for each in pending if each["namespace"] == tenant}
        assert [decided[f"server-{number}"]["is_known"] for number in classes] == [True, False, False, True]
        assert all("evaluating it takes more than" in decided[f"server-{number}"]["cause"] for number in (1, 2))
        assert not any(each["needs_node"] for each in decided.values())
        assert service.context.elector is not None
        assert (service.context.role, service.context.elector.terms) == (Role.LEADER, 1)
        await service.until(lambda: service.context.problems() == (), "it has no problem")


def _looked_at(service: Replica, namespace: str) -> list[str]:
    decided = service.controller.latest
    if decided is None:
        return []
    return [each.pod.name for each in decided.pending if each.pod.namespace == namespace]

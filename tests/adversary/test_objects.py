"""Strangers who may write objects in a namespace of their own: nothing they write stops the service or a hub.

On the real control plane they have ClusterRole ``edit`` there, and what they send is what the API server stores.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.cluster.api import KubernetesApi, resource_path
from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.cluster.diagnosis import diagnose
from dra_spawner.cluster.facts import read_facts
from dra_spawner.cluster.json_text import LEFT_OUT
from dra_spawner.cluster.leftovers import Sweep
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.web.context import Role
from tests.adversary.hostile_objects import (
    DEEP_PARAMETERS,
    NOT_UTF8,
    annotated,
    claim_text,
    class_text,
    large_pods,
    largest_claim,
    largest_template,
    nested,
    template_text,
    with_deep_managed_fields,
)
from tests.adversary.tenant import Tenant, tenant_of
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import faulty_on
from tests.placeholders.world import shape, user_pod
from tests.service.replica import WHOLE, Replica, Service, node, prepare, publish_shapes, replica

pytestmark = pytest.mark.timeout(180)

GPU = shape(WHOLE)
PLAIN = shape({})
DRA = "resource.k8s.io/v1"


async def write_odd_objects(tenant: Tenant, name: str) -> list[tuple[Kind, str]]:
    """What ``json.loads`` refuses: too deep, no UTF-8; the kinds and names of what was stored."""
    pod = user_pod(f"{name}-fields", {})
    odd: list[tuple[Kind, str, bytes]] = [
        (Kind.RESOURCE_CLAIM, f"{name}-deep", claim_text(f"{name}-deep", DEEP_PARAMETERS)),
        (Kind.RESOURCE_CLAIM, f"{name}-text", claim_text(f"{name}-text", NOT_UTF8)),
        (Kind.RESOURCE_CLAIM_TEMPLATE, f"{name}-deep", template_text(f"{name}-deep", DEEP_PARAMETERS)),
        (Kind.POD, f"{name}-fields", with_deep_managed_fields(pod)),
    ]
    stored = []
    for kind, key, body in odd:
        status, answer = await tenant.post(kind.value, body)
        # The embedded cluster takes no such text; what it refuses is refused as bad input.
        assert status in ((201,) if tenant.is_real else (201, 400)), (kind, key, status, answer[:300])
        if status == 201:
            stored.append((kind, key))
    return stored


def is_known(watch: ClusterWatch, kind: Kind, key: ObjectKey) -> bool:
    """Whether an object is in the snapshot, and makes sense."""
    snapshot = watch.snapshot
    table: Any = {
        Kind.POD: snapshot.pods,
        Kind.RESOURCE_CLAIM: snapshot.claims,
        Kind.RESOURCE_CLAIM_TEMPLATE: snapshot.templates,
    }[kind]
    return key in table and (kind, key) not in snapshot.state.broken


async def still_decides(service: Replica, count: int) -> None:
    """A placeholder that goes is made anew."""
    await service.until_warm(PLAIN, count)
    gone = next(iter(service.placeholders()))
    await service.cluster.admin.delete(service.cluster.path("pods", gone.name), grace_period_seconds=0)
    await service.until(lambda: gone not in service.placeholders(), "it is gone")
    await service.until_warm(PLAIN, count)


async def test_the_service_goes_on_beside_objects_that_no_json_parser_takes(
    cluster: ClusterUnderTest, caplog: Any
) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    async with tenant_of(cluster) as tenant:
        stored = await write_odd_objects(tenant, "before")  # seen in a list
        async with replica(cluster, headroom={"plain": {"min": 2}}, user_namespaces=True) as service:
            await still_decides(service, 2)
            stored += await write_odd_objects(tenant, "after")  # seen in a watch
            watch = service.context.watch
            assert watch is not None
            for kind, name in stored:
                await service.until(
                    lambda kind=kind, name=name: is_known(watch, kind, ObjectKey(tenant.namespace, name)),
                    f"{kind} {name} is known",
                )
            await still_decides(service, 2)
            assert service.context.role is Role.LEADER
            assert watch.problems() == ()
            assert [status.problem for status in watch.status()] == [""] * 6
            # A page of 200 in one text costs one list, and an event no list at all.
            assert max(status.lists for status in watch.status()) == 1
            assert list(watch.snapshot.broken) == []
            deep = [watch.snapshot.claims[key] for key in watch.snapshot.claims if key.name.endswith(("deep", "text"))]
            assert all(each.claim.config[0].content == {"opaque": {"driver": "gpu.example.com"}} for each in deep)
    told = {
        record.getMessage().rpartition("object=")[2] for record in caplog.records if "nested" in record.getMessage()
    }
    assert told == {f"{tenant.namespace}/{name}" for _, name in stored if not name.endswith("text")}


async def test_the_service_goes_on_beside_the_largest_objects(cluster: ClusterUnderTest) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    async with (
        tenant_of(cluster) as tenant,
        replica(cluster, headroom={"plain": {"min": 2}}, user_namespaces=True) as service,
    ):
        await service.until_warm(PLAIN, 2)
        watch = service.context.watch
        assert watch is not None
        written: list[tuple[Kind, dict[str, Any]]] = [(Kind.POD, each) for each in large_pods()]
        written.append((Kind.POD, annotated(user_pod("annotated", {}))))
        written.append((Kind.RESOURCE_CLAIM, largest_claim("largest")))
        written.append((Kind.RESOURCE_CLAIM_TEMPLATE, largest_template("largest")))
        for kind, obj in written:
            if kind is Kind.POD:
                # As servers of users, the service looks at them closely.
                obj["metadata"]["labels"] = obj["metadata"].get("labels", {}) | user_pod("x", {})["metadata"]["labels"]
            await tenant.create(kind.value, obj)
        for kind, obj in written:
            key = ObjectKey(tenant.namespace, obj["metadata"]["name"])
            await service.until(lambda kind=kind, key=key: watch.observed(kind, key) is not None, f"{kind} {key}")
        await still_decides(service, 2)
        assert service.context.role is Role.LEADER
        assert [problem for problem in service.context.problems() if "cannot be decided" in problem] == []
        assert max(status.lists for status in watch.status()) == 1


async def test_a_hub_starts_servers_beside_them(cluster: ClusterUnderTest) -> None:
    async with faulty_on(cluster) as hub, tenant_of(cluster) as tenant:
        await write_odd_objects(tenant, "odd")
        await cluster.publish(*node_with("node-b", whole("gpu-1")))
        hub.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com", "optional": True}}
        hub.side.spawner_config.start_timeout = 30
        hub.side.spawner_config.optional_devices_wait_seconds = 2
        assert await hub.spawn() is None
        pod = await cluster.admin.get(cluster.path("pods", "jupyter-ada"))
        assert len(pod["spec"]["resourceClaims"]) == 1
        await hub.stop()


async def test_what_a_hub_reads_is_read_beside_them(cluster: ClusterUnderTest, caplog: Any) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    async with tenant_of(cluster) as tenant:
        await write_odd_objects(tenant, "odd")
        diagnosis = await diagnose(cluster.admin, {"gpu": WHOLE["gpu"]})
        assert diagnosis.fits
        facts = await read_facts(cluster.admin, cluster.namespace)
        assert facts.slices
        assert facts.device_classes is not None
        assert "gpu.example.com" in facts.device_classes
        sweep = Sweep(cluster.admin, None, timedelta(0), datetime.now(UTC))
        await sweep.run()
        assert sweep.errors == []


async def test_a_class_with_deep_parameters_is_a_class(real_cluster: ClusterUnderTest) -> None:
    """Only administrators write one; its parameters matter to nobody here all the same."""
    await real_cluster.admin.create(resource_path(DRA, "deviceclasses"), {**class_with(3), "kind": "DeviceClass"})
    facts = await read_facts(real_cluster.admin, real_cluster.namespace)
    assert facts.device_classes is not None
    assert facts.device_classes["deep"].config[0].content["opaque"]["driver"] == "gpu.example.com"


def class_with(levels: int) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(class_text("deep", f'{{"a":{nested(levels)}}}'))
    return found


async def test_an_informer_that_ends_ends_the_service_with_the_cause(
    embedded_cluster: ClusterUnderTest, caplog: Any
) -> None:
    """The last resort, for a mistake of this program: a leader that follows nothing would decide nothing."""
    broken = asyncio.Event()

    class BrokenClock:
        def __call__(self) -> float:
            if broken.is_set():
                raise RuntimeError("the clock is broken (injected by a test)")
            return asyncio.get_running_loop().time()

    class Watching(Service):
        def new_watch(self, api: KubernetesApi) -> ClusterWatch:
            return ClusterWatch(api, clock=BrokenClock())

    cluster = embedded_cluster
    service = Watching(
        kubeconfig=str(cluster.admin_kubeconfig),
        namespace=cluster.namespace,
        lease_seconds=3.0,
        url="http://127.0.0.1:0",
    )
    lease = resource_path("coordination.k8s.io/v1", "leases", cluster.namespace, "dra-spawner")
    run = asyncio.create_task(service.run())
    await cluster.wait_for(lease, lambda found: bool(found["spec"].get("holderIdentity")))
    service.log.addHandler(caplog.handler)
    broken.set()
    await cluster.publish(user_pod("anything", {}))
    assert await asyncio.wait_for(run, 30) == 1
    text = caplog.text
    assert "The service has failed." in text
    assert "the informer of pods has ended" in text
    assert "the clock is broken" in text
    assert (await cluster.admin.get(lease))["spec"].get("holderIdentity", "") == ""


def test_what_is_left_out_is_no_name() -> None:
    assert LEFT_OUT not in DEEP_PARAMETERS

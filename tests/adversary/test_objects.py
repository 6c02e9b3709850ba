"""Strangers who may write objects in a namespace of their own: nothing that they write ends the service or a hub.

On the real control plane they have ClusterRole ``edit`` there, and the API server stores the objects as sent.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dra_spawner.dra.model.decoding import is_deeper_than
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.client.json_text import MAX_LEVELS
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.informers import InformerState
from dra_spawner.names import KEEP_SECONDS, UNUSED_SINCE
from dra_spawner.service.context import Role
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.reader import DeviceReader
from dra_spawner.spawner.objects.api_objects import SHARED_LABELS
from dra_spawner.spawner.objects.leftovers import Sweep
from tests.adversary.busy_service import PLAIN, still_decides
from tests.adversary.hostile_objects import (
    DEEP_PARAMETERS,
    NOT_UTF8,
    SENT_PODS,
    annotated,
    claim_text,
    claim_with,
    class_text,
    largest_claim,
    largest_template,
    nested,
    sent_pods,
    template_text,
    with_deep_managed_fields,
)
from tests.adversary.tenant import Tenant, tenant_of
from tests.cluster.access import service_token
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import faulty_on
from tests.integration.service_process import ServiceProcess
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape, user_pod
from tests.polling import PATIENCE_SECONDS, eventually
from tests.service.replica import Service, publish_shapes, replica

GPU = shape(WHOLE)
DRA = "resource.k8s.io/v1"


async def write_odd_objects(tenant: Tenant, name: str) -> list[tuple[Kind, str]]:
    """Objects that ``json.loads`` refuses: too deep, no UTF-8; returns kinds and names of the stored ones."""
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
        # The embedded cluster refuses such a text as bad input.
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


async def test_the_service_goes_on_beside_objects_that_no_json_parser_accepts(
    cluster: ClusterUnderTest, caplog: Any
) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    async with tenant_of(cluster) as tenant:
        stored = await write_odd_objects(tenant, "before")  # seen in a list
        async with replica(cluster, placeholders={"plain": {"min": 2}}, user_namespaces=True) as service:
            await still_decides(service, 2)
            stored += await write_odd_objects(tenant, "after")  # seen in a watch
            watch = service.context.watch
            assert watch is not None
            for kind, name in stored:
                await service.until(
                    partial(is_known, watch, kind, ObjectKey(tenant.namespace, name)),
                    f"{kind} {name} is known",
                )
            await still_decides(service, 2)
            assert service.context.role is Role.LEADER
            assert watch.problems() == ()
            served = [status for status in watch.status() if status.state is not InformerState.OFF]
            assert len(served) >= 6, "all but DeviceTaintRules, which Kubernetes serves from 1.37 on"
            assert [status.problem for status in served if status.problem] == []
            # A page of 200 in one text costs one list, and an event no list at all.
            assert max(status.lists for status in watch.status()) == 1
            assert list(watch.snapshot.broken) == []
            deep = [watch.snapshot.claims[key] for key in watch.snapshot.claims if key.name.endswith(("deep", "text"))]
            assert all(each.claim.config[0].content == {"opaque": {"driver": "gpu.example.com"}} for each in deep)
    logged = {
        record.getMessage().rpartition("object=")[2] for record in caplog.records if "nested" in record.getMessage()
    }
    assert logged == {f"{tenant.namespace}/{name}" for _, name in stored if not name.endswith("text")}


async def test_the_service_goes_on_beside_the_largest_objects(cluster: ClusterUnderTest) -> None:
    """Other costs of each are in test_mutations."""
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    async with (
        tenant_of(cluster) as tenant,
        replica(cluster, placeholders={"plain": {"min": 2}}, user_namespaces=True) as service,
    ):
        await service.until_warm(PLAIN, 2)
        watch = service.context.watch
        assert watch is not None
        pods: list[Any] = list(sent_pods().values())
        assert len(pods) == len(SENT_PODS)
        for pod in pods:
            # Users' servers, by their labels, that wait: the service looks at them closely.
            pod["metadata"]["labels"] = user_pod("x", {})["metadata"]["labels"]
            pod["spec"].setdefault("nodeSelector", {"example.com/none": ""})
        written = [(Kind.POD, each) for each in (*pods, annotated(user_pod("annotated", {})))]
        written.append((Kind.RESOURCE_CLAIM, largest_claim("largest")))
        written.append((Kind.RESOURCE_CLAIM_TEMPLATE, largest_template("largest")))
        for kind, obj in written:
            await tenant.create(kind.value, obj)
        for kind, obj in written:
            key = ObjectKey(tenant.namespace, obj["metadata"]["name"])
            await service.until(partial(is_known, watch, kind, key), f"{kind} {key}")
        await still_decides(service, 2)
        assert service.context.role is Role.LEADER
        assert [problem for problem in service.context.problems() if "cannot be decided" in problem] == []
        assert max(status.lists for status in watch.status()) == 1


async def test_a_hub_starts_servers_beside_odd_objects(cluster: ClusterUnderTest) -> None:
    async with faulty_on(cluster) as hub, tenant_of(cluster) as tenant:
        await write_odd_objects(tenant, "odd")
        await cluster.publish(*node_with("node-b", whole("gpu-1")))
        hub.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com", "optional": True}}
        hub.side.spawner_config.start_timeout = 120
        hub.side.spawner_config.optional_devices_wait_seconds = 60
        assert await hub.spawn() is None
        pod = await cluster.admin.get(cluster.path("pods", "jupyter-ada"))
        assert len(pod["spec"]["resourceClaims"]) == 1
        await hub.stop()


async def test_a_hub_reads_its_objects_beside_odd_objects(cluster: ClusterUnderTest, caplog: Any) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    async with tenant_of(cluster) as tenant:
        await write_odd_objects(tenant, "odd")
        diagnosis = await diagnose(DeviceReader(cluster.admin), {"gpu": WHOLE["gpu"]})
        assert diagnosis.fits
        facts = await read_facts(DeviceReader(cluster.admin), cluster.namespace)
        assert facts.slices
        assert facts.device_classes is not None
        assert "gpu.example.com" in facts.device_classes
        sweep = Sweep(cluster.admin, None, timedelta(0), datetime.now(UTC))
        await sweep.run()
        assert sweep.errors == []


async def test_a_class_with_deep_parameters_is_a_class(real_cluster: ClusterUnderTest) -> None:
    """Only administrators write one; its parameters matter to nobody here all the same."""
    text = class_text("deep", DEEP_PARAMETERS)
    async with tenant_of(real_cluster) as stranger:
        assert (await stranger.post("DeviceClass", text))[0] == 403
        async with stranger.as_administrator(real_cluster) as administrator:
            await administrator.create("DeviceClass", text)
    facts = await read_facts(DeviceReader(real_cluster.admin), real_cluster.namespace)
    assert facts.device_classes is not None
    content: Any = facts.device_classes["deep"].config[0].content
    assert content["opaque"]["driver"] == "gpu.example.com"
    assert not is_deeper_than(content, MAX_LEVELS)


async def test_the_embedded_cluster_refuses_objects_too_deep_to_copy(embedded_cluster: ClusterUnderTest) -> None:
    async with tenant_of(embedded_cluster) as tenant:
        for levels in (240, 300, 500, 900, 2000):
            claim = claim_text("deep", f'{{"a":{nested(levels)}}}')
            pod = with_deep_managed_fields(user_pod("deep", {}), levels)
            for kind, body in (("ResourceClaim", claim), ("Pod", pod)):
                status, answer = await tenant.post(kind, body)
                assert status == (201 if levels < 250 else 400), (levels, answer[:300])
                assert ("nested too deeply" in answer) == (levels > 250), (levels, answer[:300])


async def test_a_page_of_large_objects_is_read_in_smaller_ones(cluster: ClusterUnderTest) -> None:
    names = {f"large-{number}" for number in range(12)}
    metadata = {"annotations": {"example.com/x": "x" * 100_000}}
    async with tenant_of(cluster) as tenant, await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api:
        for name in names:
            await tenant.create("ResourceClaim", claim_with(name, metadata=metadata))
        api.max_page_bytes = 450_000
        path = resource_path(DRA, "resourceclaims", tenant.namespace)
        pages = [page async for page in api.list_pages(path, page_size=20)]
        sizes = [len(page["items"]) for page in pages]
        assert sum(sizes) == len(names)
        assert max(sizes) == 20 // 8
        found = {item["metadata"]["name"] for page in pages for item in page["items"]}
        assert names == found
        # One object alone may be as large as it is.
        api.max_page_bytes = 10_000
        listed = await api.list(path)
        assert {item["metadata"]["name"] for item in listed["items"]} == names


async def test_a_sweep_passes_over_claims_with_invalid_annotations(embedded_cluster: ClusterUnderTest) -> None:
    def left(name: str, seconds: str) -> dict[str, Any]:
        annotations = {KEEP_SECONDS: seconds, UNUSED_SINCE: "0001-01-01T00:00:00+23:59"}
        return claim_with(name, metadata={"labels": SHARED_LABELS, "annotations": annotations})

    invalid = ("9" * 5000, "\u00b2", "-1", "1e3", "\u0661")
    strange = [left(f"a-strange-{number}", seconds) for number, seconds in enumerate(invalid)]
    await embedded_cluster.publish(*strange, left("b-due", "0"))
    sweep = Sweep(embedded_cluster.admin, None, timedelta(0), datetime.now(UTC))
    await sweep.run()
    assert sweep.errors == []
    assert sweep.done == [f"deleted resourceclaims {embedded_cluster.namespace}/b-due"]


async def test_the_process_leads_beside_odd_objects_with_the_shipped_rights(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    token_file = cluster.directory / "token"
    token_file.write_text(await service_token(cluster.admin, cluster.namespace))
    settings = {
        "kube_server": cluster.url,
        "kube_token_file": token_file,
        "kube_certificate_authority": cluster.certificate_authority,
        "namespace": cluster.namespace,
        "max_staleness_seconds": 20,
    }
    arguments = [f"--DRASpawnerService.{name}={value}" for name, value in settings.items()]
    async with tenant_of(cluster) as tenant:
        await write_odd_objects(tenant, "before")
        async with ServiceProcess(cluster.directory, *arguments) as service:
            await service.until(200, "leader")
            await write_odd_objects(tenant, "after")
            names = [
                f"{tenant.namespace}/{when}-{suffix}" for when in ("before", "after") for suffix in ("deep", "fields")
            ]
            await eventually(
                lambda: all(f"object={name}" in service.log.read_text() for name in names), "all are logged"
            )
            await service.until(200, "leader")
            assert await service.stop() == 0
        assert "Traceback" not in service.log.read_text()


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
        url="http://127.0.0.1:0",
    )
    lease = resource_path("coordination.k8s.io/v1", "leases", cluster.namespace, "dra-spawner")
    run = asyncio.create_task(service.run())
    await cluster.wait_for(lease, lambda found: bool(found["spec"].get("holderIdentity")))
    service.log.addHandler(caplog.handler)
    broken.set()
    await cluster.publish(user_pod("anything", {}))
    assert await asyncio.wait_for(run, PATIENCE_SECONDS) == 1
    text = caplog.text
    assert "The service has failed." in text
    assert re.search("InformerEnded: the informer of [a-z.0-9]+ has ended", text)
    assert "the clock is broken" in text
    assert (await cluster.admin.get(lease))["spec"].get("holderIdentity", "") == ""

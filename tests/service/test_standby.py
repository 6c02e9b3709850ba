"""A standby: it answers reads from its own view, reserves nothing, and names the leader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.service.context import Role
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.local_server import serving
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.polling import eventually
from tests.service.replica import Replica, Service, replica, set_up

GPU = shape(WHOLE)
LEASES = "coordination.k8s.io/v1"
#: Fields of a placeholder that only the leader knows.
OF_THE_LEADER = ("reason", "decided_at", "stays_because", "age_seconds")


@pytest.fixture
async def stranger() -> AsyncIterator[list[Any]]:
    """Requests to a server that somebody entered as the leader; the first item is its URL."""
    got: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        got.append(request)
        return web.json_response({"kind": "never", "reason": "go away", "items": [], "total": 77})

    async with serving(handle) as url:
        got.append(f"{url}/")
        yield got


async def lead_as(cluster: ClusterUnderTest, url: str) -> None:
    """A Lease that somebody holds for an hour, with an address that nobody asked for."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": url, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    lease = {
        "metadata": {"name": "dra-spawner", "annotations": {"hub.jupyter.org/leader-url": url}},
        "spec": {**spec, "leaseTransitions": 0},
    }
    await cluster.admin.create(resource_path(LEASES, "leases", cluster.namespace), lease)


def question(cluster: ClusterUnderTest, pod: str = "ada") -> dict[str, str]:
    return {"shape": GPU.id, "pod": pod, "namespace": cluster.namespace}


async def until_standby(service: Replica) -> None:
    await service.until(lambda: service.context.role is Role.STANDBY, "it stands by")


async def test_a_standby_reserves_nothing_and_names_the_leader(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    placeholders = {"gpu-whole": {"min": 1, "max": 1}}
    async with replica(cluster, placeholders=placeholders) as leader:
        await leader.until_warm(GPU, 1)
        async with replica(cluster, placeholders=placeholders) as standby:
            await until_standby(standby)
            await standby.until_warm(GPU, 1)
            status, refused = await standby.ask(question(cluster))
            said = f"This replica stands by: the leader is {leader.identity}."
            assert (status, refused["detail"]) == (503, said)
            assert [each.reservation for each in leader.placeholders().values()] == [None]
            assert standby.context.decisions.count == 0
            answer = await leader.place(GPU, "ada")
            assert (answer["state"], answer["node"]) == ("ready", "node-a")


@pytest.mark.promise("A standby answers reads from its own view.")
async def test_a_standby_answers_reads_from_its_own_view(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    placeholders = {"gpu-whole": {"min": 2, "max": 2}}
    async with replica(cluster, placeholders=placeholders) as leader:
        await leader.until_warm(GPU, 1)
        await leader.until(lambda: len(leader.placeholders()) == 2, "the other one waits for a node")
        async with replica(cluster, placeholders={**placeholders, "tpu": {"min": 1}}) as standby:
            await until_standby(standby)
            await standby.until(lambda: len(standby.placeholders()) == 2, "it sees both")
            await standby.until(
                lambda: list(standby.controller.names_of(GPU.id)) == ["gpu-whole"], "it read the shapes"
            )

            async def agree() -> bool:
                one, other = [(await each.get_json("placeholders"))["items"] for each in (standby, leader)]
                return list(map(shared, one)) == list(map(shared, other)) and any(
                    each["pending_because"] for each in one
                )

            await eventually(agree, "both see the same")
            because = (
                f"This replica stands by: the leader is {leader.identity}. Only the leader knows decisions and their "
                "reasons."
            )
            for address in ("placeholders", "pending-servers", "decisions"):
                of_standby, of_leader = await standby.get_json(address), await leader.get_json(address)
                assert (of_standby["incomplete_because"], of_leader["incomplete_because"]) == (because, "")
                if address == "decisions":
                    assert (of_standby["items"], of_standby["total"]) == ([], 0)
                    assert of_leader["total"] >= 2
                else:
                    assert of_standby["total"] == of_leader["total"]
                    assert [shared(each) for each in of_standby["items"]] == [
                        shared(each) for each in of_leader["items"]
                    ]
            assert (await standby.get_json("status"))["leader"] == leader.identity
            page = await standby.get("page")
            assert page.count(because) == 1
            assert "Replica: standby" in page
            assert "placeholders of tpu" in page
            assert "stands by" not in await leader.get("page")
            status, refused, _ = await standby.send("GET", "decisions?limit=many")
            assert (status, refused["detail"]) == (400, "limit must be a whole number from 0 to 1000.")


def shared(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in OF_THE_LEADER}


async def test_the_holder_of_the_lease_is_asked_nothing(
    embedded_cluster: ClusterUnderTest, stranger: list[Any]
) -> None:
    """Others may be able to write the Lease: its holder is a name to show, and no more."""
    cluster = embedded_cluster
    await lead_as(cluster, stranger[0])
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        status, answer = await standby.ask(question(cluster))
        assert (status, answer["detail"]) == (503, f"This replica stands by: the leader is {stranger[0]}.")
        for address in ("decisions", "placeholders", "pending-servers"):
            of_standby = await standby.get_json(address)
            assert (of_standby["items"], of_standby["total"]) == ([], 0)
        await standby.get("page")
        await standby.get_json("status")
    assert len(stranger) == 1


async def test_only_managers_of_the_service_may_ask_for_placements(embedded_cluster: ClusterUnderTest) -> None:
    async with replica(embedded_cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        for scheme in ("", "DRA-Spawner-Replica 1.2.3.4", "Basic YTpi", "token"):
            assert (await service.ask(question(embedded_cluster), token="", Authorization=scheme))[0] == 401, scheme


async def test_all_that_follows_the_watch_is_there_before_it_begins(embedded_cluster: ClusterUnderTest) -> None:
    """A server that was seen before the history followed would count as gone."""

    class Watch(ClusterWatch):
        has_begun = False

        def __init__(self, api: KubernetesApi) -> None:
            self.late: list[str] = []
            super().__init__(api)

        def start(self) -> None:
            self.has_begun = True
            super().start()

        def on_change(self, callback: Callable[[Change], None]) -> Callable[[], None]:
            if self.has_begun:
                self.late.append(type(getattr(callback, "__self__", callback)).__name__)
            return super().on_change(callback)

    class Watching(Service):
        def new_watch(self, api: KubernetesApi) -> ClusterWatch:
            return Watch(api)

    await set_up(embedded_cluster, {})
    async with replica(embedded_cluster, service=Watching) as found:
        await found.until(lambda: found.controller.leads, "leading")
        assert isinstance(found.context.watch, Watch)
        assert found.context.watch.late == ["ForcedEnds", "Reconciler"], "these begin with the controller, at once"

"""Settings and orders by the API, with a cluster: they take effect, are shown and audited, and survive a restart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from dra_spawner import names
from dra_spawner.kube.taint_rules import PLURAL, served_rules_api
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import DRIVER, whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.polling import eventually
from tests.service.replica import publish_settings, replica, set_up

GPU = shape(WHOLE)
TARGETS = {"gpu-whole": {"min": 1}}


async def two_nodes(cluster: ClusterUnderTest) -> None:
    nodes = [node(name, whole("gpu-0"), whole("gpu-1")) for name in ("node-a", "node-b")]
    await set_up(cluster, {"gpu-whole": GPU}, *nodes[0], *nodes[1])
    await publish_settings(cluster)


@pytest.mark.promise("A number of placeholders that an administrator sets survives a restart.")
async def test_numbers_are_set_and_survive_a_restart(cluster: ClusterUnderTest) -> None:
    await two_nodes(cluster)
    path = "settings/placeholders/gpu-whole"
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until_warm(GPU, 1)
        assert (await service.send("GET", path))[0] == 404
        until = (service.controller.now() + timedelta(hours=1)).isoformat()
        body = {"min": 3, "max": 4, "until": until, "reason": "exam"}
        status, answer, _ = await service.send("PUT", path, body)
        assert (status, answer["min"], answer["by"], answer["reason"]) == (200, 3, "user ada", "exam"), answer
        await service.until_warm(GPU, 3)
        _, _, tag = await service.send("GET", path)
        assert (await service.send("GET", path, None, **{"If-None-Match": tag}))[0] == 304
        assert (await service.send("PUT", path, {"min": 2, "max": 2}, **{"If-Match": '"old"'}))[0] == 412
        assert (await service.send("PUT", path, {"min": 2, "max": 2}, **{"If-Match": tag}))[0] == 200
        await service.until_warm(GPU, 2)
        for wrong in (
            {"min": 3},
            {"min": 3, "max": 2},
            {"min": 1, "max": 2, "until": "2020-01-01T00:00:00Z"},
            {"x": 1},
        ):
            status, problem, _ = await service.send("PUT", path, wrong)
            assert (status, problem["title"]) == (400, "Bad Request")
        assert (await service.send("PUT", "settings/placeholders/nothing", body))[0] == 404
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until_warm(GPU, 2)
        await service.until(lambda: bool(service.controller.overrides.present.settings), "the settings are read")
        assert (await service.get_json("settings"))["items"][0]["min"] == 2
        assert (await service.send("DELETE", path))[0] == 204
        await service.until_warm(GPU, 1)
        assert (await service.send("DELETE", path))[0] == 404
        audit = (await service.get_json("audit"))["items"]
        assert [(each["by"], each["change"], each["subject"]) for each in audit] == [
            ("user ada", "deleted", "placeholders gpu-whole"),
            *[("user ada", "set", "placeholders gpu-whole")] * 2,
        ]


async def test_a_setting_ends_by_itself(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until_warm(GPU, 1)

        async def ends_after(**time: float) -> bool:
            until = (service.controller.now() + timedelta(**time)).isoformat()
            body = {"min": 2, "max": 2, "until": until}
            status, _, _ = await service.send("PUT", "settings/placeholders/gpu-whole", body)
            return status == 200

        assert await ends_after(hours=1)
        await service.until_warm(GPU, 2)
        await eventually(lambda: ends_after(seconds=3), "it ends soon")
        await service.until_warm(GPU, 1)
        assert (await service.get_json("settings"))["items"] == []


@pytest.mark.promise("While an administrator pauses the service, it decides nothing.")
async def test_pause_and_observe(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until_warm(GPU, 1)
        assert (await service.send("PUT", "settings/paused/gpu-whole", {}))[0] == 200
        (key,) = service.placeholders()
        status, taken, _ = await service.send("DELETE", f"placeholders/{key.name}")
        assert (status, taken) == (202, {"subject": key.name, "order": "evict"})
        await service.until(lambda: not service.placeholders(), "it is evicted")
        await service.decide()
        assert not service.placeholders(), "no other one is created"
        evicted = [each.decision for each in service.context.decisions.newest() if each.decision.code == "evicted"]
        assert [(each.reason, each.outcome) for each in evicted] == [("user ada evicted it", "done")]
        assert (await service.send("DELETE", f"placeholders/{key.name}"))[0] == 404
        assert (await service.send("PUT", "settings/observing", {"reason": "test"}))[0] == 200
        assert (await service.send("DELETE", "settings/paused/gpu-whole"))[0] == 204
        await service.decide()
        assert not service.placeholders()
        hold = "nothing is decided: the service only observes, set by user ada: test"
        assert (await service.get_json("placeholders"))["on_hold"] == hold
        assert (await service.send("DELETE", "settings/observing"))[0] == 204
        await service.until_warm(GPU, 1)


async def test_an_order_outlives_its_leader(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until_warm(GPU, 1)
        (key,) = service.placeholders()
        # Nothing is carried out before this leader ends.
        assert (await service.send("PUT", "settings/observing", {}))[0] == 200
        assert (await service.send("DELETE", f"placeholders/{key.name}"))[0] == 202
        await service.decide()
        assert key in service.placeholders()
    async with replica(cluster, placeholders=TARGETS) as service:
        await service.until(lambda: bool(service.controller.overrides.present.settings), "the settings are read")
        assert (await service.send("DELETE", "settings/observing"))[0] == 204
        await service.until(lambda: key not in service.placeholders(), "the next leader evicts it")
        await service.until(lambda: not service.controller.overrides.present.orders, "the order is removed")
        await service.until_warm(GPU, 1)
        audit = (await service.get_json("audit"))["items"]
        assert [(each["by"], each["change"], each["subject"]) for each in audit][1] == (
            "user ada",
            "evict",
            f"Pod {key}",
        )


async def test_a_reservation_is_released(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    async with replica(cluster, placeholders=TARGETS, reservation_seconds=600.0) as service:
        await service.until_warm(GPU, 1)
        (key,) = service.placeholders()
        path = f"placeholders/{key.name}/reservation"
        assert (await service.send("DELETE", path))[0] == 409
        await service.place(GPU, "ada")
        assert (await service.send("DELETE", f"placeholders/{key.name}"))[0] == 409, "it is reserved"
        assert (await service.send("DELETE", path))[0] == 202
        await service.until(lambda: key not in service.placeholders(), "it is deleted")
        await service.until_warm(GPU, 1)


@pytest.mark.promise("An administrator drains a node, and uses it again.")
async def test_a_node_is_drained_and_used_again(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 2}}) as service:
        await service.until_warm(GPU, 2)
        (drained, *_) = {each.node for each in service.placeholders().values()}
        status, _, _ = await service.send("PUT", f"settings/draining/{drained}", {"reason": "repair"})
        assert status == 200

        def nodes() -> list[str]:
            return [each.node for each in service.placeholders().values()]

        await service.until(lambda: len(nodes()) == 2 and drained not in nodes(), "its placeholders are elsewhere")
        await service.until_warm(GPU, 2)
        assert await label_of(cluster, drained) == names.ORDERED
        assert (await service.send("DELETE", f"settings/draining/{drained}"))[0] == 204

        async def is_back() -> bool:
            return await label_of(cluster, drained) == ""

        await eventually(is_back, "the label is removed")


async def label_of(cluster: ClusterUnderTest, name: str) -> str:
    found = await cluster.admin.get(f"/api/v1/nodes/{name}")
    return str(found["metadata"]["labels"].get(names.DRAINING, ""))


@pytest.mark.promise("An administrator takes one device out of use, and servers on other devices stay.")
async def test_a_device_is_drained_and_servers_on_others_stay(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await two_nodes(cluster)
    admin = cluster.admin
    async with replica(cluster, placeholders={"gpu-whole": {"min": 2}}) as service:
        await service.until_warm(GPU, 2)
        held = {
            part.id: key.name
            for key, each in service.placeholders().items()
            for claim in each.claims
            for part in service.controller.watch.snapshot.claims[claim].claim.status.devices or ()
        }
        device, loser = next(iter(held.items()))
        beside = set(held.values()) - {loser}
        path = f"devices/{quote('/'.join(device), safe='')}/drain"
        assert device.driver == DRIVER
        for unknown in ("x%2Fy%2Fz", "x/y/z", "x"):
            assert (await service.send("PUT", f"devices/{unknown}/drain", {}))[0] == 404
        soon = (service.controller.now() + timedelta(minutes=1)).isoformat()
        late = {"evict_at": (service.controller.now() + timedelta(hours=2)).isoformat()}
        ends = {"until": (service.controller.now() + timedelta(hours=1)).isoformat()}
        for wrong in ({"evict_at": soon}, {**late, **ends}):
            assert (await service.send("PUT", path, wrong))[0] == 400
        status, answer, _ = await service.send("PUT", path, {"reason": "fan"})
        assert (status, answer["kind"], answer["reason"]) == (200, "devices", "fan"), answer

        async def rules() -> list[Any]:
            return list((await admin.list(f"/apis/resource.k8s.io/v1/{PLURAL}"))["items"])

        (rule,) = await eventually(rules, "the rule is written")
        selector = {"driver": device.driver, "pool": device.pool, "device": device.device}
        assert rule["spec"]["deviceSelector"] == selector
        await service.until(lambda: loser not in names_of(service), "its placeholder goes")
        await service.until_warm(GPU, 2)
        assert beside <= names_of(service), "no other placeholder has moved"
        claims = service.controller.watch.snapshot.claims

        def is_free() -> bool:
            return device not in {part.id for each in claims.values() for part in each.claim.status.devices or ()}

        await service.until(is_free, "nobody has the device")
        # As a proxy that decodes addresses sends it on.
        assert (await service.send("DELETE", f"devices/{'/'.join(device)}/drain"))[0] == 204

        async def is_gone() -> bool:
            return not await rules()

        await eventually(is_gone, "the rule is removed")


async def test_a_broken_device_is_drained_until_a_person_ends_that(cluster: ClusterUnderTest) -> None:
    """With the rights and the policy of all drains."""
    if await served_rules_api(cluster.admin) is None:
        pytest.skip("Kubernetes 1.36 serves no rules by default")
    await two_nodes(cluster)
    admin = cluster.admin

    async def rules() -> list[Any]:
        return list((await admin.list(f"/apis/resource.k8s.io/v1/{PLURAL}"))["items"])

    def report(pod: Any) -> Any:
        broken = {"resourceID": "cdi.example.com/gpu=x", "health": "Unhealthy", "message": "Xid 79"}
        (container,) = pod["status"]["containerStatuses"]
        entry = pod["spec"]["resourceClaims"][0]["name"]
        return {**container, "allocatedResourcesStatus": [{"name": f"claim:{entry}", "resources": [broken]}]}

    async with replica(cluster, placeholders={"gpu-whole": {"min": 2}}, drain_sick_devices=1) as service:
        await service.until_warm(GPU, 2)
        claims = service.controller.watch.snapshot.claims
        first, second = sorted(service.placeholders().items())
        (device,) = (part.id for key in first[1].claims for part in claims[key].claim.status.devices or ())
        for key, _ in (first, second):
            path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
            status = {"status": {"containerStatuses": [report(await admin.get(path))]}}
            await admin.patch(f"{path}/status", status)
            if key == first[0]:
                (rule,) = await eventually(rules, "the rule is written")
        assert rule["spec"]["deviceSelector"]["device"] == device.device
        assert rule["metadata"]["annotations"][names.REASON] == "reported as broken: Xid 79"
        (setting,) = (await service.get_json("settings"))["items"]
        assert (setting["by"], setting["until"]) == ("the service", None)
        assert any("the service drains them" in each for each in service.controller.problems())
        # Both placeholders are replaced, and their reports are gone with them: the second device stays in use.
        await service.until(lambda: not {first[0], second[0]} & service.placeholders().keys(), "they are replaced")
        await service.until_warm(GPU, 2)
        assert len(await rules()) == 1
        assert device not in {part.id for each in claims.values() for part in each.claim.status.devices or ()}
        assert (await service.send("DELETE", f"devices/{quote('/'.join(device), safe='')}/drain"))[0] == 204

        async def is_gone() -> bool:
            return not await rules()

        await eventually(is_gone, "the rule is removed")


def names_of(service: Any) -> set[str]:
    return {key.name for key in service.placeholders()}

"""VLANs of servers that start and stop, many at once and through every fault: no VLAN is given twice or lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jupyterhub
import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.profiles.compiler.vlans import leases_from_data
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.server_start import begin_sweeps
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import (
    Faulty,
    advance_clock,
    faults_at,
    hub_behind_proxy,
    hurried,
    with_a_user_each,
    without_patience,
)
from tests.integration.vlan_devices import VLAN_CLASS, vlan_devices
from tests.polling import PATIENCE_SECONDS, eventually

MAPS = "configmaps"
CLAIMS = {"nic": {"device_class": VLAN_CLASS, "capacity": {"bandwidth": "100M"}, "vlan": {"id": "{vlan}"}}}


class Hub(Faulty):
    """A hub's side on the cluster with the cards."""

    async def account(self) -> dict[int, set[str]]:
        """VLAN -> owners, as the ConfigMap has it."""
        found: dict[str, Any] = next(
            (each for each in await self.items(MAPS) if each["metadata"]["name"] == names.VLANS_CONFIG_MAP), {}
        )
        leases = leases_from_data(found.get("data"))
        return {vlan: {holder.owner for holder in holders} for vlan, holders in leases.items()}

    async def set_account(self, data: dict[str, str]) -> None:
        await self.cluster.publish(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.VLANS_CONFIG_MAP}, "data": data}
        )

    async def until_account(self, expected: dict[int, set[str]]) -> None:
        found: list[dict[int, set[str]]] = []

        async def is_so() -> bool:
            found[:] = [await self.account()]
            return found == [expected]

        await eventually(is_so, f"the account is {expected}", shows=lambda: found)

    async def vlans_of_pods(self) -> dict[str, str]:
        labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in await self.items("pods")}
        return {name: found.get("hub.jupyter.org/vlan", "") for name, found in labels.items()}

    def leases(self, *, later: timedelta = timedelta()) -> VlanLeases:
        """The account as an administrator's program would keep it, at another time."""
        namespace = self.cluster.namespace
        return VlanLeases(self.cluster.admin, namespace, namespace, now=lambda: datetime.now(UTC) + later)


@contextlib.asynccontextmanager
async def hub_on(cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    async with hub_behind_proxy(cluster) as (proxy, side):
        await cluster.publish(*vlan_devices())
        config = side.spawner_config
        config.start_timeout = 90
        config.device_claims = CLAIMS
        config.vlans = {"range": "100-102"}
        yield Hub(cluster, proxy, side)


@pytest.fixture
async def either_hub(cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    async with hub_on(cluster) as found:
        yield found


@pytest.fixture
async def real_hub(real_cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    async with hub_on(real_cluster) as found:
        yield found


@pytest.fixture
async def hub(embedded_cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    """For what the control plane has no part in: the account is a ConfigMap that is read and written."""
    async with hub_on(embedded_cluster) as found:
        yield found


@pytest.mark.promise("A start takes a VLAN, and a stop gives it back.")
async def test_a_start_takes_a_vlan_and_a_stop_gives_it_back(either_hub: Hub):
    assert await either_hub.spawn() is None
    ((vlan, owners),) = (await either_hub.account()).items()
    assert vlan in (100, 101, 102)
    assert owners == {"user:ada"}
    assert await either_hub.vlans_of_pods() == {"jupyter-ada": str(vlan)}
    (claim,) = await either_hub.items("resourceclaims")
    (entry,) = claim["status"]["allocation"]["devices"]["config"]
    assert entry["opaque"]["parameters"]["config"]["plugins"] == [{"type": "vlan", "vlanId": vlan, "ipam": {}}]
    assert either_hub.proxy.count("create", MAPS) == 1
    await either_hub.stop()
    await either_hub.until_account({})
    await either_hub.nothing_is_left()
    assert await either_hub.spawn() is None
    assert set(await either_hub.account()) == {vlan}, "mostly the same again"
    await either_hub.stop()


async def test_a_second_server_shares_the_vlan_and_the_last_server_gives_it_back(hub: Hub):
    assert await hub.spawn() is None
    hub.side.spawner(hub.user(), "second")
    assert await hub.spawn(server="second") is None
    assert len(await hub.account()) == 1
    assert len(set((await hub.vlans_of_pods()).values())) == 1
    await hub.stop()
    assert len(await hub.account()) == 1
    await hub.stop(server="second")
    await hub.until_account({})


@pytest.mark.promise("No two of many starts at once get the same VLAN.")
@pytest.mark.parametrize("hubs", ["one hub", "hubs of their own"])
async def test_many_starts_at_once(either_hub: Hub, hubs: str, monkeypatch: pytest.MonkeyPatch):
    """Six users want three VLANs. Where each is another hub's, nothing but compare-and-swap keeps them apart."""
    if hubs != "one hub":
        monkeypatch.setattr("dra_spawner.spawner.steps.vlan.vlan_lock", lambda _: contextlib.nullcontext())
    people = [f"user-{number}" for number in range(6)]
    errors = await asyncio.gather(*map(either_hub.spawn, people))
    running = [person for person, error in zip(people, errors, strict=True) if error is None]
    assert len(running) == 3, errors
    for error in filter(None, errors):
        assert str(error) == "All 3 VLANs are in use. Please try again when another server has stopped."
        # JupyterHub 5 replaces the reason of any failure during a start.
        assert getattr(error, "reason", None) == ("error" if jupyterhub.version_info < (6,) else "no-vlan")
    assert sorted((await either_hub.vlans_of_pods()).values()) == ["100", "101", "102"]
    assert await either_hub.account() == {
        int(vlan): {f"user:{name.removeprefix('jupyter-')}"}
        for name, vlan in (await either_hub.vlans_of_pods()).items()
    }
    await asyncio.gather(*map(either_hub.stop, running))
    await either_hub.until_account({})
    await either_hub.nothing_is_left()


async def test_vlans_of_groups(hub: Hub):
    hub.side.spawner_config.vlans = {"by": "group", "groups": ["maths", "physics"], "range": "100-102"}
    groups = {"ada": ["physics"], "bob": ["physics", "maths"], "eve": ["maths"], "dan": ["art"]}
    for user, names_of_groups in groups.items():
        hub.user(user, *names_of_groups)
    for user in ("ada", "bob", "eve"):
        assert await hub.spawn(user) is None
    refused = await hub.spawn("dan")
    assert str(refused) == "This choice is for members of groups maths or physics; you are not a member."
    assert getattr(refused, "status_code", None) == 403
    pods = await hub.vlans_of_pods()
    assert pods["jupyter-bob"] == pods["jupyter-eve"] != pods["jupyter-ada"]
    assert {owner for owners in (await hub.account()).values() for owner in owners} == {"group:maths", "group:physics"}
    await hub.stop("bob")
    assert len(await hub.account()) == 2, "one of the group is still there"
    await asyncio.gather(hub.stop("ada"), hub.stop("eve"))
    await hub.until_account({})


async def test_a_mapping_alone_needs_no_account(hub: Hub):
    hub.side.spawner_config.vlans = {"mapping": {"ada": {"id": 42, "address": "10.42.0.7/24"}}}
    ipam = {"type": "static", "addresses": [{"address": "{address}"}]}
    hub.side.spawner_config.device_claims = {
        "nic": {"device_class": VLAN_CLASS, "vlan": {"id": "{vlan}", "ipam": ipam}}
    }
    assert await hub.spawn() is None
    assert await hub.vlans_of_pods() == {"jupyter-ada": "42"}
    (claim,) = await hub.items("resourceclaims")
    plugin = claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]["config"]["plugins"][0]
    assert plugin["ipam"]["addresses"] == [{"address": "10.42.0.7/24"}]
    refused = await hub.spawn("bob")
    assert str(refused) == "No VLAN is set up for you. An administrator can do that."
    await hub.stop()
    # Companions of earlier tests in this process were ConfigMaps, too: the sweep lists ConfigMaps.
    assert [each for each in hub.proxy.requests if each.resource == MAPS and each.verb != "list"] == []


FAULTS = {
    "refused connection": Fault.refuse(),
    "lost answer": Fault.lose_answer(),
    "done without answer": Fault.hold_answer(),
    "conflict": Fault.answer(409, "Conflict"),
    "forbidden": Fault.answer(403, "Forbidden", "is forbidden"),
    "internal error": Fault.answer(500, "InternalError"),
}
NOT_BEGUN = {name: FAULTS[name] for name in ("lost answer", "forbidden")}


async def test_one_failed_request_of_a_start(real_hub: Hub):
    """Users one after the other, as they write the same account. `test_faults` has all faults of a pod's creation."""

    async def start(user: str, fault: Fault, verb: str, resource: str) -> None:
        await real_hub.cluster.admin.delete(real_hub.cluster.path(MAPS, names.VLANS_CONFIG_MAP), missing_ok=True)
        if verb == "update":
            await real_hub.set_account({"777": '[{"owner": "nobody"}]'})
        before, known = await real_hub.account(), len(real_hub.proxy.requests)
        real_hub.proxy.fail(fault, verb=verb, resource=resource)
        try:
            starting = asyncio.create_task(real_hub.start_and_stop(user))

            def is_met() -> bool:
                return (verb, resource) in [(each.verb, each.resource) for each in real_hub.proxy.requests[known:]]

            await eventually(lambda: starting.done() or is_met(), "the fault is met")
            if fault == FAULTS["done without answer"]:
                advance_clock(6)
            await starting
        finally:
            real_hub.proxy.heal()
        assert is_met(), "the fault has to be met"
        await real_hub.nothing_is_left()
        await real_hub.leases(later=timedelta(minutes=5)).reconcile()
        await real_hub.until_account(before)
        assert await real_hub.spawn(user) is None, "the next start works"
        await real_hub.stop(user)
        await real_hub.until_account(before)

    without_patience(real_hub.side)
    rows = faults_at(FAULTS, [("get", MAPS), ("create", MAPS), ("update", MAPS)])
    await with_a_user_each(rows | faults_at(NOT_BEGUN, [("create", "pods")]), start, at_once=1)


async def test_an_api_that_is_away_is_reported(hub: Hub):
    hub.proxy.fail(Fault.refuse(), resource=MAPS, times=None)
    error = await hurried(hub.spawn())
    assert str(error) == "The cluster does not answer, so no VLAN can be assigned. Please try again later."
    hub.proxy.heal()
    await hub.nothing_is_left()
    assert hub.proxy.count("create", "pods") == 0


async def test_a_storm_of_conflicts_is_reported(hub: Hub):
    await hub.set_account({"777": '[{"owner": "nobody"}]'})
    hub.proxy.fail(Fault.answer(409, "Conflict"), verb="update", resource=MAPS, times=None)
    error = await hurried(hub.spawn())
    assert str(error) == "Too many servers with VLANs start at the moment. Please try again."
    hub.proxy.heal()
    assert await hub.account() == {777: {"nobody"}}


@pytest.mark.promise("A corrupt account of VLANs is reported and never overwritten.")
async def test_a_corrupt_account_is_reported_and_left_alone(hub: Hub):
    data = {"100": "[{]"}
    await hub.set_account(data)
    error = await hub.spawn()
    assert str(error) == "The list of VLANs in use is damaged. Please tell your administrator."
    assert (await hub.cluster.admin.get(hub.cluster.path(MAPS, names.VLANS_CONFIG_MAP)))["data"] == data
    await hub.cluster.admin.delete(hub.cluster.path(MAPS, names.VLANS_CONFIG_MAP))
    assert await hub.spawn() is None
    await hub.stop()
    await hub.until_account({})


async def test_a_hub_that_is_killed_between_the_vlan_and_the_pod(hub: Hub):
    """As the cluster sees it: the account was written, and no further request came."""
    spawner = hub.user().spawner
    await spawner.load_user_options()
    (vlan,) = await hub.account()
    await hub.leases().reconcile()
    assert set(await hub.account()) == {vlan}, "the start may still be under way"
    await hub.leases(later=parts_of(spawner).server.longest_start + timedelta(seconds=61)).reconcile()
    assert await hub.account() == {}


async def test_a_pod_that_goes_by_itself_is_found_by_the_sweep(hub: Hub):
    assert await hub.spawn() is None
    await hub.cluster.admin.delete(hub.cluster.path("pods", "jupyter-ada"), grace_period_seconds=0)
    await hub.cluster.wait_gone(hub.cluster.path("pods"))
    await hub.leases(later=timedelta(minutes=5)).reconcile()
    assert await hub.account() == {}


async def test_a_pod_that_stays_keeps_its_vlan(hub: Hub):
    assert await hub.spawn() is None
    before = await hub.account()
    hub.proxy.fail(Fault.answer(500), verb="delete", resource="pods", times=None)
    stop = asyncio.create_task(hub.stop())
    await eventually(lambda: hub.proxy.count("delete", "pods"), "the hub asks to delete the pod")
    assert await hub.vlans_of_pods()
    await hub.leases(later=timedelta(days=1)).reconcile()
    assert await hub.account() == before
    hub.proxy.heal()
    await stop
    await hub.until_account({})


async def test_a_stop_goes_on_giving_back_until_the_api_answers(hub: Hub):
    assert await hub.spawn() is None
    hub.proxy.fail(Fault.answer(500), verb="update", resource=MAPS, times=3)
    await hub.stop()
    await hub.until_account({})


async def test_a_hub_that_was_restarted_gives_back_at_the_stop(hub: Hub):
    assert await hub.spawn() is None
    again = hub.side.user("ada")
    assert again.spawner is not hub.user().spawner
    again.spawner.load_state(hub.user().spawner.get_state())
    assert parts_of(again.spawner).start.attempt.steps == []
    await again.spawner.stop()
    await hub.until_account({})


async def test_the_sweep_runs_with_the_hub(hub: Hub):
    begin_sweeps(parts_of(hub.user().spawner).server)
    await eventually(lambda: hub.proxy.count("get", MAPS), "the sweep reads the account")


async def test_a_hub_without_the_right_says_so(either_hub: Hub, caplog: pytest.LogCaptureFixture):
    if either_hub.cluster.kind == "embedded":
        either_hub.proxy.fail(Fault.answer(403, "Forbidden", "cannot get"), verb="get", resource=MAPS, times=None)
    else:
        async with await KubernetesApi.from_kubeconfig(either_hub.cluster.admin_kubeconfig) as api:
            await api.delete(
                f"/apis/rbac.authorization.k8s.io/v1/namespaces/{either_hub.cluster.namespace}/rolebindings/dra-spawner"
            )
        async with asyncio.timeout(PATIENCE_SECONDS):
            error = None
            while not (error and "lacks a right in the cluster" in str(error)):
                if error is None:
                    await either_hub.stop()
                error = await either_hub.spawn()
    assert "lacks a right in the cluster" in str(await either_hub.spawn())
    assert "helm-values/rbac.yaml" in caplog.text

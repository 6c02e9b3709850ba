"""Both charts as an administrator installs them: every pod is a process with its rendered rights, files and environment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import resource_path
from tests.chart.granted_rights import unused
from tests.chart.hub_release import HubRelease
from tests.chart.rendering import ROOT
from tests.chart.whole_cluster import WholeCluster, gathered, whole_cluster
from tests.chart.z2jh import merged
from tests.cluster.background import BackgroundLoop
from tests.polling import eventually

pytestmark = pytest.mark.timeout(300)

_SHARING = "integration/test_sharing.py::test_servers_of_a_group_share_one_claim_until_the_last_has_gone"
_VLANS = "integration/test_vlans.py::test_a_start_takes_a_vlan_and_a_stop_gives_it_back"
#: Rights that only rare events use, by the test in which they are used.
ELSEWHERE = {
    ("hub", "resourceclaims", "create"): _SHARING,
    ("hub", "resourceclaims", "delete"): _SHARING,
    ("hub", "resourceclaims", "patch"): _SHARING,
    ("hub", "configmaps", "get"): _VLANS,
    ("hub", "configmaps", "update"): _VLANS,
    ("hub", "resourceclaimtemplates", "delete"): "integration/test_faults.py::test_a_failed_request_of_the_clean_up",
    # A claim that its placeholder does not take along.
    ("service", "resourceclaims", "delete"): (
        "placeholders/controller/test_deleting_claims.py::test_a_claim_of_the_same_name_that_came_after_it_stays"
    ),
    # A write that failed in between.
    ("service", "resourceclaims", "get"): "service/test_chaos.py::test_chaos",
    # Half a minute after a pod stays pending.
    ("service", "events", "list"): (
        "placeholders/controller/test_cluster_limits.py::test_messages_about_pending_placeholders_are_read"
    ),
    # The same again within minutes.
    ("service", "events", "patch"): (
        "placeholders/controller/test_event_recorder.py::test_equal_events_are_one_with_a_count"
    ),
}


@pytest.fixture(scope="module")
def cluster(
    control_plane_path: Path, background_loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WholeCluster]:
    """One control plane for all cases."""
    with whole_cluster(control_plane_path, background_loop, tmp_path_factory.mktemp("whole")) as found:
        yield found


async def use(hub: HubRelease, user: str = "ada") -> None:
    """Login, form, warm start, page, stop."""

    async def is_warm() -> bool:
        return bool(await hub.placeholders())

    await eventually(is_warm, "a placeholder is warm", 120, shows=hub.cluster.logs)
    kept = {entry["resourceClaimName"] for pod in await hub.placeholders() for entry in pod["spec"]["resourceClaims"]}
    async with await hub.browser(user) as browser:
        assert "GPU slice, 10 GiB" in await browser.get("/hub/spawn")
        events = await browser.start(profile="gpu-slice")
        assert events[-1].get("ready"), f"{events}\n{hub.cluster.logs()}"
        environment = json.loads(await browser.get(f"/user/{user}/environment"))
        assert environment["JUPYTERHUB_BASE_URL"] == hub.base_url
        pod = await hub.server_of(user)
        assert pod is not None
        assert {each.get("resourceClaimName") for each in pod["spec"]["resourceClaims"]} <= kept
        await look(hub)
        await browser.stop()

        async def is_gone() -> bool:
            return await hub.server_of(user) is None

        await eventually(is_gone, "the server is gone", shows=hub.cluster.logs)


async def use_more(hub: HubRelease) -> None:
    """A start without a warm claim; and an administrator changes a number."""
    async with await hub.browser("bob") as bob:
        events = await bob.start(profile="small")
        assert events[-1].get("ready"), f"{events}\n{hub.cluster.logs()}"
    async with await hub.browser("admin") as admin:
        address = f"/services/{hub.service_name}/api/settings/placeholders/gpu-slice"
        await admin.change(address, {"min": 0, "max": 0})

    async def are_none() -> bool:
        return not await hub.placeholders()

    await eventually(are_none, "placeholders end", shows=hub.cluster.logs)


async def look(hub: HubRelease) -> None:
    """An administrator opens the page, which is in the hub's menu."""
    async with await hub.browser("admin") as admin:
        path = f"/services/{hub.service_name}/"
        assert path in await admin.get("/hub/home")
        assert "node-a" in await admin.get(path)


def assert_nothing_was_refused(hub: HubRelease) -> None:
    """The charts grant all that their programs ask for."""
    ours = set(hub.accounts())
    refused = {str(each) for each in hub.cluster.accesses() if each.account in ours and each.status in (401, 403)}
    assert sorted(refused) == []


def assert_all_is_used(hub: HubRelease) -> None:
    """The charts grant nothing else."""
    found = hub.cluster.accesses()
    rare = {
        str(right): ("hub" if right.account.endswith("hub") else "service", right.resource, right.verb)
        for right in unused(hub.objects, found)
    }
    assert [right for right, key in rare.items() if key not in ELSEWHERE] == []


def test_rare_events_have_tests() -> None:
    for each in ELSEWHERE.values():
        path, _, name = each.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text()


async def make_namespaces(cluster: WholeCluster, *namespaces: str) -> None:
    for name in namespaces:
        await cluster.api.create(resource_path("v1", "namespaces"), {"metadata": {"name": name}})


def test_a_hub_at_the_root(cluster: WholeCluster, tmp_path: Path) -> None:
    # No node has room for a server and a placeholder: the service makes the server's pod a consumer of the warm claim.
    large: JsonObject = {"singleuser": {"cpu": {"guarantee": 4.5}}}
    hub = HubRelease(cluster, "teaching", hub_values=large)

    async def install_and_use() -> None:
        await make_namespaces(cluster, hub.namespace)
        await hub.install(tmp_path / "printed")
        await use(hub)
        await use_more(hub)

    cluster.run(install_and_use)
    assert_nothing_was_refused(hub)
    assert_all_is_used(hub)
    cluster.run(hub.remove)


def test_two_hubs_in_one_namespace_and_a_third_elsewhere(cluster: WholeCluster, tmp_path: Path) -> None:
    """Of different versions and base URLs, each with its own account, Lease, page and placeholders."""
    hubs = [
        beside(cluster, "one", "main"),
        beside(cluster, "two", "4.4.0", {"hub": {"baseUrl": "/jupyter/"}}),
        HubRelease(cluster, "other", version="4.0.0", values={"hub": {"baseUrl": "/jupyter/"}}),
    ]

    async def install_and_use() -> None:
        await make_namespaces(cluster, "shared", "other")
        for number, hub in enumerate(hubs):
            await hub.install(tmp_path / str(number))
        await gathered(*(use(hub, f"user-{number}") for number, hub in enumerate(hubs)))
        await agree(hubs)

    cluster.run(install_and_use)
    for hub in hubs:
        assert_nothing_was_refused(hub)


def beside(cluster: WholeCluster, name: str, version: str, values: JsonObject | None = None) -> HubRelease:
    """A hub with others in its namespace, as the documentation has it."""
    documented = (ROOT / "docs" / "how-to" / "two-hubs.md").read_text().replace("two", name)
    ours, theirs = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", documented, re.DOTALL))
    return HubRelease(cluster, "shared", f"{name}-gpus", name, version, merged(ours, values or {}), theirs)


async def agree(hubs: list[HubRelease]) -> None:
    """Each service has its own placeholders and no other's, and all of them stay."""

    async def each_has_its_own() -> bool:
        return all([len(await hub.placeholders()) == 1 for hub in hubs])

    await eventually(each_has_its_own, "each has the placeholder that it wants", 60, shows=hubs[0].cluster.logs)
    before = [pod["metadata"]["uid"] for hub in hubs for pod in await hub.placeholders()]
    for hub in hubs:
        await look(hub)
    assert [pod["metadata"]["uid"] for hub in hubs for pod in await hub.placeholders()] == before
    nodes = await hubs[0].cluster.api.list(resource_path("v1", "nodes"))
    ready = {node["metadata"]["name"] for node in nodes["items"] if names.IMAGES_READY in node["metadata"]["labels"]}
    assert {"node-a", "node-b"} <= ready

"""Both charts as an administrator installs them: every pod is a process with its rendered rights, files and environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from tests.chart.granted_rights import Right, granted, unused
from tests.chart.hub_release import CHART_VALUES, PLAIN, SLICE, HubRelease
from tests.chart.hub_use import assert_nothing_was_refused, look, use
from tests.chart.optional_starts import start_with_options
from tests.chart.removal import remove_as_documented
from tests.chart.rendering import ROOT, rendered
from tests.chart.whole_cluster import PATIENT, WholeCluster, gathered, whole_cluster
from tests.chart.z2jh import merged
from tests.cluster.background import BackgroundLoop
from tests.polling import eventually, eventually_sync

_SHARING = "integration/test_sharing.py::test_servers_of_a_group_share_one_claim_until_the_last_has_gone"
_DEVICE_DRAIN = "service/test_set_by_people.py::test_a_device_is_drained_and_servers_on_others_stay"
_VLANS = "integration/test_vlans.py::test_a_start_takes_a_vlan_and_a_stop_gives_it_back"
#: Rights that only rare events use, by the test in which they are used.
ELSEWHERE = {
    ("hub", "resourceclaims", "create"): _SHARING,
    # The cause of a pending server.
    ("hub", "resourceclaims", "list"): "integration/test_waiting_sentences.py::test_a_device_of_a_cordoned_node",
    ("hub", "resourceclaims", "delete"): _SHARING,
    ("hub", "resourceclaims", "patch"): _SHARING,
    ("hub", "configmaps", "get"): _VLANS,
    ("hub", "configmaps", "update"): _VLANS,
    ("hub", "resourceclaimtemplates", "delete"): "integration/test_faults.py::test_a_failed_request_of_the_clean_up",
    # A claim that is not deleted with its placeholder.
    ("service", "resourceclaims", "delete"): (
        "placeholders/controller/test_deletions.py::test_a_claim_of_the_same_name_that_came_after_it_stays"
    ),
    # A write that failed in between.
    ("service", "resourceclaims", "get"): "service/test_chaos.py::test_chaos",
    # Half a minute after a pod stays pending.
    ("service", "events", "list"): (
        "placeholders/controller/round/test_cluster_limits.py::test_messages_about_pending_placeholders_are_read"
    ),
    # A person drains one device.
    **{("service", "devicetaintrules", verb): _DEVICE_DRAIN for verb in ("create", "update", "delete")},
    # The same again within minutes.
    ("service", "events", "patch"): (
        "placeholders/controller/records/test_event_recorder.py::test_equal_events_are_one_with_a_count"
    ),
}
#: The same for rights that are options.
OPTIONS_ELSEWHERE = {
    # Placeholders are preempted for a server in its user's namespace.
    ("service", "pods", "patch"): (
        "service/test_user_namespaces.py::test_placeholders_are_preempted_with_the_rights_that_are_shipped"
    ),
}
NOTHING: JsonObject = {"networkAttachments": False, "webhooks": False, "allPods": False, "userSecrets": False}
NETWORKS: JsonObject = {"rbac": {"hub": {"networkAttachments": True}}}
#: All values that add rules.
OPTIONS: JsonObject = {
    "userNamespaces": True,
    "rbac": {"hub": {"networkAttachments": True, "webhooks": True, "allPods": True, "userSecrets": True}},
    "placeholders": {"targets": {"plain": {"min": 1, "max": 3}}},
}


@pytest.fixture(scope="module")
def cluster(
    control_plane_path: Path, background_loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WholeCluster]:
    """One control plane for all cases."""
    with whole_cluster(control_plane_path, background_loop, tmp_path_factory.mktemp("whole")) as found:
        yield found


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


def assert_all_is_used(hub: HubRelease) -> None:
    """The charts grant nothing else."""
    all_are_used(lambda: unused(hub.objects, hub.cluster.accesses()), ELSEWHERE)


def assert_options_are_used(hub: HubRelease) -> None:
    """The chart's options grant no unused right."""
    without = merged(hub.values, {"userNamespaces": False, "rbac": {"hub": NOTHING}})
    always = set(granted(rendered(merged(CHART_VALUES, without), release=hub.release, namespace=hub.namespace)))
    assert len(set(granted(hub.objects)) - always) > 4
    all_are_used(
        lambda: (each for each in unused(hub.objects, hub.cluster.accesses()) if each not in always), OPTIONS_ELSEWHERE
    )


def all_are_used(rights: Callable[[], Iterable[Right]], elsewhere: Mapping[tuple[str, str, str], str]) -> None:
    """Wait until no right is unused: some are used after seconds only, as that to renew a Lease."""

    def rare() -> list[str]:
        keys = {
            str(right): ("hub" if "-hub" in right.role else "service", right.resource, right.verb) for right in rights()
        }
        return [right for right, key in keys.items() if key not in elsewhere]

    eventually_sync(lambda: rare() == [], "all rights are used", shows=rare, pause_seconds=0.5)


def test_rare_events_have_tests() -> None:
    for each in (*ELSEWHERE.values(), *OPTIONS_ELSEWHERE.values()):
        path, _, name = each.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text()


async def make_namespaces(cluster: WholeCluster, *namespaces: str) -> None:
    for name in namespaces:
        await cluster.api.create(resource_path("v1", "namespaces"), {"metadata": {"name": name}})


def test_a_hub_at_the_root(cluster: WholeCluster, tmp_path: Path) -> None:
    # A server does not fit beside a placeholder on any node, and kube-scheduler does not preempt for it: the service
    # makes the server's pod a consumer of the warm claim.
    spawner = {"priority_class_name": PATIENT}
    large: JsonObject = {"singleuser": {"cpu": {"guarantee": 4.5}}, "hub": {"config": {"KubeSpawner": spawner}}}
    hub = HubRelease(cluster, "teaching", hub_values=merged(large, lasting(tmp_path)))

    async def install_and_use() -> None:
        await make_namespaces(cluster, hub.namespace)
        await hub.install()
        await use(hub)
        await use_more(hub)

    async def leave_and_remove() -> None:
        await set_at_run_time(hub, "bob")
        await remove_as_documented(hub, "bob")
        await hub.remove()

    cluster.run(install_and_use)
    assert_nothing_was_refused(hub)
    assert_all_is_used(hub)
    cluster.run(leave_and_remove)


def lasting(directory: Path) -> JsonObject:
    """Values of a hub that knows its users and its proxy after an upgrade."""
    url = f"sqlite:///{directory}/hub.sqlite"
    return {
        "hub": {"db": {"type": "other", "url": url}, "cookieSecret": "c" * 64},
        "proxy": {"secretToken": "d" * 64},
    }


async def set_at_run_time(hub: HubRelease, user: str) -> None:
    """An administrator sets a number, drains a user's node, and announces a class; a placeholder is warm elsewhere."""
    server = await hub.server_of(user)
    assert server is not None
    # A placeholder fits only on the other node.
    drained = server["spec"]["nodeName"]
    settings = f"/services/{hub.service_name}/api"
    entry = {"begins": "2030-01-01 09:00", "minutes": 90, "users": "20 of gpu-slice", "name": "class"}
    async with await hub.browser("admin") as admin:
        await admin.change(f"{settings}/settings/placeholders/gpu-slice", {"min": 1, "max": 1})
        await admin.change(f"{settings}/settings/draining/{drained}", {})
        await admin.change(f"{settings}/calendar-entries", entry, "POST")

    async def has_happened() -> bool:
        node = await hub.cluster.api.get(resource_path("v1", "nodes", name=drained))
        is_elsewhere = any(each["spec"]["nodeName"] != drained for each in await hub.placeholders())
        return names.DRAINING in node["metadata"]["labels"] and is_elsewhere

    await eventually(has_happened, f"{drained} drains, a placeholder is warm elsewhere", shows=hub.cluster.logs)


def test_two_hubs_in_one_namespace_and_a_third_elsewhere(cluster: WholeCluster, tmp_path: Path) -> None:
    """Of different versions and base URLs, each with its own account, Lease, page and placeholders."""
    base: JsonObject = {"hub": {"baseUrl": "/jupyter/"}}
    profiles = {"singleuser": {"profileList": [SLICE, PLAIN]}}
    hubs = [
        beside(cluster, "one", "main", NETWORKS),
        beside(cluster, "two", "4.4.0", base),
        HubRelease(cluster, "other", version="4.0.0", values=merged(base, OPTIONS), hub_values=profiles),
    ]
    one, _, other = hubs

    async def install_and_use() -> None:
        await make_namespaces(cluster, "shared", "other")
        for hub in hubs:
            await hub.install()
        await gathered(use_all(), look(other))
        await agree(hubs)

    async def use_all() -> None:
        await gathered(*(use(hub, f"user-{number}") for number, hub in enumerate(hubs)))
        for hub in (one, other):
            await start_with_options(hub, tmp_path / f"certificates-{hub.namespace}")

    cluster.run(install_and_use)
    for hub in hubs:
        assert_nothing_was_refused(hub)
    for hub in (one, other):
        assert_options_are_used(hub)


def beside(cluster: WholeCluster, name: str, version: str, values: JsonObject | None = None) -> HubRelease:
    """A hub with others in its namespace, as the documentation has it."""
    documented = (ROOT / "docs" / "how-to" / "two-hubs.md").read_text().replace("two", name)
    ours, theirs, limits = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", documented, re.DOTALL))
    return HubRelease(cluster, "shared", f"{name}-gpus", name, version, merged(ours, limits, values or {}), theirs)


async def agree(hubs: list[HubRelease]) -> None:
    """Each service has its own placeholders and no other's, and all of them stay."""

    async def each_has_its_own() -> bool:
        return all([len(await hub.placeholders()) == hub.wanted_placeholders for hub in hubs])

    await eventually(each_has_its_own, "each has the placeholders that it wants", shows=hubs[0].cluster.logs)
    before = [pod["metadata"]["uid"] for hub in hubs for pod in await hub.placeholders()]
    for hub in hubs:
        await look(hub)
    assert [pod["metadata"]["uid"] for hub in hubs for pod in await hub.placeholders()] == before
    nodes = await hubs[0].cluster.api.list(resource_path("v1", "nodes"))
    ready = {node["metadata"]["name"] for node in nodes["items"] if names.IMAGES_READY in node["metadata"]["labels"]}
    assert {"node-a", "node-b"} <= ready

"""Profiles checked against clusters: the hub reads with its own rights, logs findings, refuses choices and heals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml

from dra_spawner import names
from dra_spawner.cli import main
from dra_spawner.doctor.examination import examine
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.taint_rules import PLURAL, served_rules_api
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.reader import DeviceReader
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import classes, device_class, node_with, shareable, whole
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

PROFILES = [
    {
        "display_name": "share",
        "kubespawner_override": {
            "device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
        },
    },
    {
        "display_name": "whole",
        "kubespawner_override": {
            "device_claims": {
                "gpu": {"first_available": {"a": {"device_class": "gpu.example.com"}}},
                "pair": {
                    "requests": {"x": {"device_class": "gpu.example.com", "tolerations": [{"operator": "Exists"}]}},
                    "constraints": [{"distinct_attribute": "gpu.example.com/model"}],
                },
            }
        },
    },
]


async def checked(capsys, *arguments):
    """Exit code and JSON of the command, which runs a loop of its own."""
    code = await asyncio.to_thread(main, ["check", *arguments, "--format", "json"])
    printed = capsys.readouterr()
    assert printed.err == ""
    return code, json.loads(printed.out)


async def test_facts_with_the_rights_of_a_hub(cluster):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig) as api:
        facts: Any = await read_facts(DeviceReader(api), cluster.namespace)
        assert facts.kubernetes_version == cluster.kubernetes
        assert facts.dropped_fields == frozenset()
        assert set(facts.device_classes) == {"gpu-share.example.com", "gpu.example.com"}
        assert [device.id.device for item in facts.slices for device in item.devices] == ["gpu-0", "gpu-1"]
        assert [node["metadata"]["name"] for node in facts.nodes] == ["node-a"]
        assert names.ADMIN_ACCESS not in facts.namespace_labels

        label = {"metadata": {"labels": {names.ADMIN_ACCESS: "true"}}}
        await cluster.admin.patch(resource_path("v1", "namespaces", name=cluster.namespace), label)
        version = await served_rules_api(cluster.admin)
        path, name = resource_path(str(version), PLURAL), f"power-{cluster.namespace}"
        selector, taint = {"driver": "other.example.com"}, {"key": "power", "effect": "NoSchedule"}
        if version is not None:
            spec = {"deviceSelector": selector, "taint": taint}
            await cluster.admin.create(path, {"metadata": {"name": name}, "spec": spec})
        facts = await read_facts(DeviceReader(api), cluster.namespace)
        if version is not None:
            await cluster.admin.delete(f"{path}/{name}")
            assert name in {each.name for each in facts.taint_rules}
        assert facts.namespace_labels[names.ADMIN_ACCESS] == "true"
        assert facts.dropped_fields == frozenset()
    assert (await cluster.admin.list(cluster.path("resourceclaimtemplates")))["items"] == []


async def test_an_account_that_may_do_little_knows_little(real_cluster):
    cluster = real_cluster
    await cluster.admin.create(cluster.path("serviceaccounts"), {"metadata": {"name": "nobody"}})
    path = resource_path("v1", "serviceaccounts", cluster.namespace, "nobody", "token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = (await cluster.admin.create(path, request))["status"]["token"]
    kubeconfig = json.loads(cluster.hub_kubeconfig.read_text())
    kubeconfig["users"][0]["user"]["token"] = token
    file = cluster.directory / "nobody.kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    async with await KubernetesApi.from_kubeconfig(file) as api:
        facts = await read_facts(DeviceReader(api), cluster.namespace)
    assert facts.kubernetes_version == cluster.kubernetes
    for name in ("device_classes", "slices", "nodes", "namespace_labels", "dropped_fields"):
        assert getattr(facts, name) is None


@pytest.mark.promise("`dra-spawner check` says which choices cannot work on this cluster.")
async def test_the_command_asks_a_cluster(real_cluster, capsys):
    cluster = real_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    file = cluster.directory / "profiles.yaml"
    file.write_text(yaml.safe_dump(PROFILES))
    kubeconfig = ("--kubeconfig", str(cluster.hub_kubeconfig), "--namespace", cluster.namespace)
    code, answer = await checked(capsys, str(file), *kubeconfig)
    rules = [finding["rule"] for choice in answer["choices"] for finding in choice["findings"]]
    assert code == 1
    assert "field-dropped" not in rules
    # Two whole GPUs are asked for, one is there.
    assert "never-fits" in rules
    assert answer["cluster"] == {
        "kubernetesVersion": ".".join(map(str, cluster.kubernetes)),
        "nodes": 1,
        "devices": 2,
        "drivers": ["gpu.example.com"],
        "droppedFields": [],
    }
    assert answer["notChecked"] == []


async def test_fields_that_a_cluster_with_gates_off_drops(control_plane_path, tmp_path, capsys):
    """A share would silently be a whole device there."""
    gates = {"DRAConsumableCapacity": False, "DRADeviceTaints": False}
    # Kubernetes 1.37 starts with no gate that needs another one.
    needing = {"DRADeviceTaintRules": False}
    plane = ControlPlane(control_plane_path, tmp_path / "plane", feature_gates={**gates, **needing})
    await asyncio.to_thread(plane.start)
    try:
        async with await KubernetesApi.from_kubeconfig(plane.admin_kubeconfig) as api:
            for name in ("gpu.example.com", "gpu-share.example.com"):
                # CEL knows no device.allowMultipleAllocations there.
                await api.create(resource_path("resource.k8s.io/v1", "deviceclasses"), device_class(name, "true"))
            facts = await read_facts(DeviceReader(api), "default")
            examined = examine(await DoctorReader(api, Questions("default")).read())
        off = [each.fix.partition("=")[2].partition("=")[0] for each in examined if each.code == "feature-gate"]
        assert set(off) == gates.keys(), examined
        assert facts.dropped_fields == {"capacity", "distinctAttribute", "tolerations"}
        file = tmp_path / "profiles.yaml"
        file.write_text(yaml.safe_dump(PROFILES))
        code, answer = await checked(capsys, str(file), "--kubeconfig", str(plane.admin_kubeconfig))
    finally:
        await asyncio.to_thread(plane.stop)
    assert code == 1
    dropped = [
        (finding["level"], finding["path"].partition("device_claims")[2], finding["message"])
        for choice in answer["choices"]
        for finding in choice["findings"]
        if finding["rule"] == "field-dropped"
    ]
    assert {(level, path) for level, path, _ in dropped} == {
        ("error", ".gpu.capacity"),
        ("error", ".pair.requests.x.tolerations"),
        ("error", ".pair.constraints[0]"),
    }
    (share,) = (message for _, path, message in dropped if path == ".gpu.capacity")
    assert "DRAConsumableCapacity is off): the server would get a whole device instead of a share" in share


async def test_a_real_api_server_accepts_the_output_of_render(real_cluster, capsys):
    cluster = real_cluster
    network = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "net"}, "data": {"user": "{username}"}}
    request = {"device_class": "gpu.example.com"}
    shared = {
        "requests": {"gpu": request},
        "shared": {"by": "group", "group": "lab"},
        "companions": {"net": {"manifest": network}},
    }
    gas = {"display_name": "gas", "kubespawner_override": {"intel_gas": {"resource": "i915", "count": 1}}}
    profiles = [*PROFILES, {"display_name": "team", "kubespawner_override": {"device_claims": {"team": shared}}}, gas]
    file = cluster.directory / "profiles.yaml"
    file.write_text(yaml.safe_dump(profiles))
    code = await asyncio.to_thread(
        main, ["render", str(file), "--namespace", cluster.namespace, "--user", "Ada@example"]
    )
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    plurals = {"ResourceClaimTemplate": "resourceclaimtemplates", "ResourceClaim": "resourceclaims", "Pod": "pods"}
    documents = list(yaml.safe_load_all(printed.out))
    for document in documents:
        path = cluster.path(plurals.get(document["kind"], "configmaps"))
        answer = await cluster.admin.create(path, document, params={"dryRun": "All"})
        assert answer["metadata"]["name"] == document["metadata"]["name"]
    *_, gas_pod = documents
    assert gas_pod["spec"]["containers"][0]["resources"]["limits"] == {"gpu.intel.com/i915": "1"}
    kinds = {document["kind"] for document in documents}
    assert kinds == {"ResourceClaimTemplate", "ResourceClaim", "ConfigMap", "Pod"}


MORE = """
def profile(slug, **claim):
    return {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": {"gpu": claim}}}

c.DRASpawner.profile_list += [
    profile("late", device_class="late.example.com"),
    profile("huge", device_class="gpu-share.example.com", capacity={"memory": "42Gi"}),
    profile("typed", device_class="gpu-share.example.com", capacity={"memory": "10Gi"}) | {
        "profile_options": {"memory": {"display_name": "Memory", "unlisted_choice": {
            "enabled": True, "validation_regex": ".+",
            "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "{value}"}}}},
        }}},
    },
    profile("nine", device_class="gpu.example.com", count=9),
    profile("fails", device_class="gpu.example.com", where='device.attributes["gpu.example.com"].nothing == 1'),
]
"""


def hub_on(cluster, more=""):
    return HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, MORE + more)


async def logged(hub, text):
    await eventually(lambda: text in hub.log.read_text(), f"the hub logs {text!r}")


@pytest.mark.promise("A choice that cannot work is refused at once, and works again when its cause is gone.")
async def test_a_broken_choice_is_logged_refused_and_heals(cluster):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    twice = "c.KubeSpawner.delete_grace_period, c.DRASpawner.delete_grace_period = 2, 1"
    async with hub_on(cluster, twice) as hub:
        await logged(hub, "Checked device profiles: choices=7 errors=4 warnings=0")
        log = hub.log.read_text()
        assert "only c.DRASpawner.delete_grace_period counts. Remove one of them." in log
        assert "Device profile cannot work on this cluster: profile_list[2].kubespawner_override" in log
        assert "the cluster has no device class late.example.com" in log

        status, body = await hub.refusal("ada", {"profile": "late"})
        assert status == 400
        kind = "it asks for a kind of device that this cluster does not have"
        assert body["message"] == f"This choice cannot work on this cluster: {kind}. Please tell your administrator."
        status, body = await hub.refusal("ada", {"profile": "fails"})
        assert status == 400
        assert "its settings do not fit what is there. Please tell your administrator." in body["message"]
        # Names of objects are for the administrator.
        await logged(hub, "which device gpu.example.com/node-a/gpu-1 does not publish")

        # Nobody restarts the hub.
        await cluster.publish(device_class("late.example.com", "!device.allowMultipleAllocations"))
        status, body = await hub.spawn("ada", {"profile": "late"})
        assert status in (201, 202), body
        await hub.until_ready("ada")
        await hub.stop_server("ada")


@pytest.mark.promise("A choice that no device of the cluster can ever serve is refused when it is submitted.")
async def test_a_choice_that_fits_no_present_node_is_refused_where_no_others_come(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    async with hub_on(cluster) as hub:
        # Before its first look at the cluster, the hub refuses no choice because of the cluster.
        await logged(hub, "Checked device profiles")
        typed = {"profile": "typed", "memory": "unlisted-choice", "memory--unlisted-choice": "42Gi"}
        share = "no device gives a share of 45 GiB of memory"
        nine = "it asks for 9 such devices, and the machine with most of them has 1"
        for options, why in (({"profile": "huge"}, share), (typed, share), ({"profile": "nine"}, nine)):
            status, body = await hub.refusal("ada", options)
            sentence = f"This choice cannot work on this cluster: {why}. Please tell your administrator."
            assert (status, body["message"]) == (400, sentence)
        # A node that comes may bring such devices: as long as it publishes none, it is not known.
        await cluster.publish(*node_with("node-b"))
        status, body = await hub.spawn("ada", {"profile": "nine"})
        assert status in (201, 202), body
        await cluster.publish(*node_with("node-c", *(whole(f"gpu-{number}") for number in range(9))))
        await hub.until_ready("ada")


async def test_rules_can_be_ignored(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    more = """
c.DRASpawner.nodes_may_be_added = False
c.DRASpawner.ignored_profile_rules = ["share-too-large", "never-fits"]
c.DRASpawner.start_timeout = 8
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 600}
"""
    async with hub_on(cluster, more) as hub:
        # KubeSpawner gives up, in its own time.
        status, body = await hub.refusal("ada", {"profile": "huge"})
        assert status == 503
        assert body["message"].startswith("Gave up after 8 seconds.")


async def test_a_cluster_that_cannot_be_asked_refuses_nobody(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    async with cluster.fault_proxy() as proxy:
        proxy.fail(Fault.answer(500, "InternalError"), verb="list", resource="deviceclasses", times=None)
        soon = 'c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 1}\n'
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        hub = HubProcess(cluster.directory / "hub", kubeconfig, cluster.namespace, MORE + soon)
        async with hub:
            await logged(hub, "Profiles are not checked against the cluster, which does not answer")
            status, body = await hub.spawn("ada", {"profile": "gpu-slice"})
            assert status in (201, 202), body
            await hub.until_ready("ada")
            await hub.stop_server("ada")
            status, body = await hub.spawn("ada", {"profile": "late"})
            assert status == 202, body
            assert hub.log.read_text().count("which does not answer") == 1

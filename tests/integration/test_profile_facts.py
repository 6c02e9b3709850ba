"""Facts of a cluster that the hub's shipped rights do not show, or show in part: which findings follow."""

from __future__ import annotations

import asyncio
import json
import re

import yaml

from dra_spawner.cli import main
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.reader import DeviceReader
from tests.cluster.access import SHIPPED_RULES, grant
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.network_definitions import NETWORKS, networks_served

NVIDIA = "gpu.nvidia.com"
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
OTHER = "other"
COMMENTED_RULE = re.compile(
    r"^  # (- apiGroups: \[k8s\.cni\.cncf\.io\]\n)  # (  resources: .*\n)  # (  verbs: \[create, .*\n)", re.M
)
WEBHOOKS = resource_path("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")


def profile(name, device_class, driver, **parameters):
    request = {"requests": {"r": {"device_class": device_class}}}
    claim = {**request, "config": [{"driver": driver, "parameters": parameters}]}
    return {"display_name": name, "kubespawner_override": {"device_claims": {"a": claim}}}


def interface(name, **parameters):
    return profile(name, SRIOV, SRIOV, apiVersion=f"{SRIOV}/v1alpha1", kind="VfConfig", **parameters)


def webhook(name, group, resource):
    """A webhook that is never asked: no object has its label."""
    return {
        "name": name,
        "rules": [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [resource]}],
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "objectSelector": {"matchLabels": {"example.com/none": "such"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


async def facts_as(kubeconfig, cluster: ClusterUnderTest):
    async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
        return await read_facts(DeviceReader(api), cluster.namespace)


async def found(capsys, cluster: ClusterUnderTest, kubeconfig, rule, *profiles):
    """Choices of which `dra-spawner check` says this rule."""
    file = cluster.directory / "profiles.yaml"
    file.write_text(yaml.safe_dump(list(profiles)))
    options = ["--kubeconfig", str(kubeconfig), "--namespace", cluster.namespace, "--format", "json"]
    await asyncio.to_thread(main, ["check", str(file), *options])
    answer = json.loads(capsys.readouterr().out)
    return [
        choice["profile"]
        for choice in answer["choices"]
        if any(finding["rule"] == rule for finding in choice["findings"])
    ]


async def test_networks_are_known_as_far_as_they_may_be_listed(real_cluster, tmp_path, capsys):
    cluster = real_cluster
    rule = "missing-attachment-definition"
    profiles = (
        interface("there", netAttachDefName="vlan-42"),
        interface("missing", netAttachDefName="vlan-43"),
        interface("elsewhere", netAttachDefName="vlan-42", netAttachDefNamespace=OTHER),
    )
    async with networks_served(cluster):
        network = {"apiVersion": NETWORKS[0], "kind": "NetworkAttachmentDefinition", "metadata": {"name": "vlan-42"}}
        await cluster.admin.create(resource_path(*NETWORKS, cluster.namespace), network)

        facts = await facts_as(cluster.hub_kubeconfig, cluster)
        assert (facts.attachment_definitions, facts.attachment_namespaces) == (None, None)
        assert await found(capsys, cluster, cluster.hub_kubeconfig, rule, *profiles) == []

        text, times = COMMENTED_RULE.subn(r"  \1  \2  \3", SHIPPED_RULES.read_text())
        assert times == 1, "the rule is a comment in the shipped file"
        rules = tmp_path / "rbac.yaml"
        rules.write_text(text)
        await grant(cluster.admin, cluster.namespace, rules)
        facts = await facts_as(cluster.hub_kubeconfig, cluster)
        assert facts.attachment_definitions == {f"{cluster.namespace}/vlan-42"}
        assert facts.attachment_namespaces == {cluster.namespace}
        assert await found(capsys, cluster, cluster.hub_kubeconfig, rule, *profiles) == ["missing"]

        facts = await facts_as(cluster.admin_kubeconfig, cluster)
        assert facts.attachment_definitions == {f"{cluster.namespace}/vlan-42"}
        assert facts.attachment_namespaces is None
        assert await found(capsys, cluster, cluster.admin_kubeconfig, rule, *profiles) == ["missing", "elsewhere"]


async def test_webhooks_are_known_to_accounts_that_may_list_them(real_cluster, capsys):
    cluster = real_cluster
    rule = "vfio-beside-webhook"
    version = "resource.nvidia.com/v1beta1"
    passthrough = profile("vm", "vfio.gpu.nvidia.com", NVIDIA, apiVersion=version, kind="VfioDeviceConfig")
    webhooks = [webhook(NVIDIA, "resource.k8s.io", "resourceclaims"), webhook("pods.example.com", "", "pods")]
    configuration = {"metadata": {"name": "test-of-facts"}, "webhooks": webhooks}
    assert (await facts_as(cluster.admin_kubeconfig, cluster)).webhooks == frozenset()
    assert await found(capsys, cluster, cluster.admin_kubeconfig, rule, passthrough) == []
    await cluster.admin.create(WEBHOOKS, configuration)
    try:
        assert (await facts_as(cluster.admin_kubeconfig, cluster)).webhooks == {NVIDIA}
        assert await found(capsys, cluster, cluster.admin_kubeconfig, rule, passthrough) == ["vm"]
        assert (await facts_as(cluster.hub_kubeconfig, cluster)).webhooks is None
        assert await found(capsys, cluster, cluster.hub_kubeconfig, rule, passthrough) == []
    finally:
        await cluster.admin.delete(f"{WEBHOOKS}/test-of-facts")

"""Starts that need the rights that are options of the chart, in this process, with the account of an installed hub."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.server_context import parts_of
from tests.chart.hub_release import HubRelease
from tests.chart.rendering import of_kind
from tests.chart.whole_cluster import SERVER_IMAGE
from tests.integration.hub_process import QUICK_SERVER
from tests.integration.network_definitions import NETWORKS
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

#: It has another name in KubeSpawner 6, whose volume claims are looked up.
_USER = "Eve.Example"
_GPU: JsonObject = {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}


def _network(name: str = "") -> JsonObject:
    metadata = {"name": name} if name else {}
    spec = {"config": {"cniVersion": "1.0.0", "type": "macvlan", "master": "eth1"}}
    return {"apiVersion": NETWORKS[0], "kind": "NetworkAttachmentDefinition", "metadata": metadata, "spec": spec}


async def start_with_options(hub: HubRelease, directory: Path) -> None:
    """A start with networks, a shared claim, a volume claim and certificates; its end; and leftovers of another start."""
    account = of_kind(hub.objects, "RoleBinding", "-hub")["subjects"][0]["name"]
    kubeconfig = await hub.cluster.kubeconfig_of(hub.namespace, account)
    # KubeSpawner keeps the clients of an event loop.
    await asyncio.to_thread(asyncio.run, _with_account(hub, kubeconfig, directory))


async def _with_account(hub: HubRelease, kubeconfig: Path, directory: Path) -> None:
    with kubernetes_of(kubeconfig):
        side = HubSide(kubeconfig, hub.namespace)
        config = side.spawner_config
        config.image, config.cmd = SERVER_IMAGE, [sys.executable, str(QUICK_SERVER)]
        config.storage_pvc_ensure, config.storage_capacity = True, "1Gi"
        config.k8s_api_request_timeout, config.start_timeout = 20, 60
        config.enable_user_namespaces = bool(hub.values.get("userNamespaces"))
        config.user_namespace_template = f"{hub.namespace}-{{username}}"
        # In a pod the hub knows its namespace.
        config.user_namespace_labels = {names.HUB_NAMESPACE: hub.namespace}
        networks = {
            name: {"manifest": _network(name if name != "own" else "")} for name in ("own", "shared", "foreign")
        }
        config.device_claims = {
            "gpu": {**_GPU, "companions": networks},
            "team": {**_GPU, "shared": {"by": "user"}},
        }
        try:
            async with await KubernetesApi.from_kubeconfig(hub.cluster.plane.admin_kubeconfig) as admin:
                await _start_and_stop(hub, admin, side.user(_USER).spawner, directory)
            await _leave_and_sweep(side.user("left").spawner)
        finally:
            await end_hub_side()


async def _start_and_stop(hub: HubRelease, api: KubernetesApi, spawner: DRASpawner, directory: Path) -> None:
    namespace = spawner.namespace
    if namespace != hub.namespace:
        await spawner._ensure_namespace()
    await api.create(resource_path(*NETWORKS, namespace), _network("foreign"))
    if hub.values["rbac"]["hub"].get("userSecrets"):
        _use_certificates(spawner, directory)
    # As of an older KubeSpawner.
    spawner.load_state({"pod_name": spawner.pod_name})
    await spawner.start()
    await spawner.stop()
    await spawner.delete_forever()
    await api.delete(resource_path(*NETWORKS, namespace, "foreign"))


def _use_certificates(spawner: DRASpawner, directory: Path) -> None:
    """As with ``internal_ssl``, which brings a Secret and a Service."""
    directory.mkdir()
    for name in ("keyfile", "certfile", "cafile"):
        (directory / name).write_text(name)
    spawner.internal_ssl = True
    spawner.cert_paths = {name: str(directory / name) for name in ("keyfile", "certfile", "cafile")}
    spawner.internal_trust_bundles = {"hub-ca": str(directory / "cafile")}


async def _leave_and_sweep(spawner: DRASpawner) -> None:
    """As if the hub had been killed before it created the pod."""
    await spawner.load_user_options()
    if spawner.enable_user_namespaces:
        await spawner._ensure_namespace()
    await spawner.get_pod_manifest()
    objects = parts_of(spawner).start.attempt.objects
    assert objects is not None
    claims = {each["metadata"]["name"] for each in objects.templates.values()}
    await objects.ensure(claims | {each.object.name for each in objects.shared.values()})
    await objects.end_pod(spawner.pod_name, 0)
    later = utc_now() + timedelta(hours=1)
    sweep = Sweep(
        parts_of(spawner).server.kubernetes,
        parts_of(spawner).server.servers_namespace,
        timedelta(),
        later,
        hub_namespace=parts_of(spawner).server.hub_namespace,
    )
    await sweep.run({NETWORKS})
    assert sweep.errors == []
    deleted = [each for each in sweep.done if each.startswith("deleted ") and f" {spawner.namespace}/" in each]
    assert len(deleted) == len(objects.templates) + 4, sweep.done

"""Objects and fields that the package reads: found in its source and in its shipped rights, and tried with examples."""

from __future__ import annotations

import ast
import asyncio
import importlib
import io
import itertools
import logging
import pkgutil
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubernetes_asyncio.client import ApiClient

import dra_spawner
from dra_spawner import names
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.rehearsing.cluster_sources import cluster_of_api
from dra_spawner.doctor.examination import examine
from dra_spawner.doctor.facts import ServiceSettings
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import RESOURCES, ClusterWatch
from dra_spawner.kube.leader import LeaderElector
from dra_spawner.kube.observed import ObservedObject
from dra_spawner.placeholders.controller.round.cluster_limits import ClusterLimits
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore
from dra_spawner.placeholders.controller.sources.server_namespaces import ServerNamespaces
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.controller.sources.shapes_source import ShapesSource
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.intel_gas.gas_language import GpuRequest
from dra_spawner.service.tickets.followed_tickets import FollowedTickets
from dra_spawner.simulator.model.cluster_objects import BrokenObject, decode
from dra_spawner.spawner.accounts.intel_gas_ledger import GpuLedger
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases
from dra_spawner.spawner.devices.claim_reader import ClaimReader
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.held import claim_names, held_devices, place_text
from dra_spawner.spawner.devices.held import devices_of as held_devices_of
from dra_spawner.spawner.devices.other_nodes import devices_of, fits_elsewhere
from dra_spawner.spawner.devices.reader import DeviceReader
from dra_spawner.spawner.hub_parts.own_namespaces import own_namespaces
from dra_spawner.spawner.my_devices.my_devices_handler import read_own_devices
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.adversary.examples import EXAMPLES
from tests.adversary.recorded import Json, Recorded
from tests.cluster.access import CHART_RULES, manifests
from tests.placeholders.planner.objects import NAMESPACE, gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.running import running

_VERSION: Final = re.compile(r"v1|[a-z0-9.]+/v\d\w*")
_PLURAL: Final = re.compile(r"[a-z][a-z-]+s")
_READING: Final = frozenset({"get", "list", "watch"})


def modules() -> Iterator[Any]:
    """Modules of hub and service; strangers do not use the embedded cluster, and uninstalling has tests of its own."""
    for each in pkgutil.walk_packages(dra_spawner.__path__, "dra_spawner."):
        if not each.name.startswith(
            ("dra_spawner.devcluster", "dra_spawner.commands.removing")
        ) and not each.name.endswith("__main__"):
            yield importlib.import_module(each.name)


def kinds_in(module: Any, source: str) -> Iterator[str]:
    """Plurals that stand beside an API version, as literals or as the module's constants."""

    def value_of(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        return getattr(module, node.id, None) if isinstance(node, ast.Name) else None

    for node in ast.walk(ast.parse(source)):
        items = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        values = [value if isinstance(value := value_of(item), str) else "" for item in items]
        for version, plural in itertools.pairwise(values):
            if _VERSION.fullmatch(version) and _PLURAL.fullmatch(plural):
                yield plural


def kinds_with_rights() -> set[str]:
    """Plurals that the shipped roles let hub or service read; those that only KubeSpawner reads are left out."""
    found = set()
    for obj in manifests("any"):
        for rule in obj["rules"] if obj["kind"].endswith("Role") else ():
            found |= set(rule["resources"]) if _READING & set(rule["verbs"]) else set()
    return found - {resource for rule in CHART_RULES for resource in rule["resources"]}


# --- an API of examples ----------------------------------------------------------------------------------------------

_PATH: Final = re.compile(r"/apis?/(?:[^/]+/)?v\d[^/]*(?:/namespaces/[^/]+(?=/))?/([^/?]+)(?:/([^/?]+))?")


class ExamplesApi(KubernetesApi):
    """Answers with examples, which record the keys that are looked for; accepts all writes."""

    def __init__(self, objects: Mapping[str, list[Recorded]]) -> None:
        super().__init__(ApiClient(), owns_client=True)
        self._objects = objects

    def _found(self, path: str) -> list[Recorded]:
        match = _PATH.match(path)
        assert match is not None, path
        objects = self._objects[match[1]]
        return [each for each in objects if each["metadata"]["name"] == match[2]] or objects

    async def get(self, path: str, **_: Any) -> Json:
        match path:
            case "/version":
                return {"major": "1", "minor": "36"}
            case "/apis":
                groups = (names.RESOURCE_GROUP, "cilium.io", "policy.networking.k8s.io")
                return {"groups": [{"name": each, "versions": [{"version": "v1"}]} for each in groups]}
            case _:
                return self._found(path)[0]

    async def get_text(self, path: str, **_: Any) -> str:
        return ""

    async def date(self) -> str:
        return ""

    async def list(self, path: str, **_: Any) -> Json:
        return {"metadata": {}, "items": list(self._found(path))}

    async def list_pages(self, path: str, **_: Any) -> AsyncGenerator[Json, None]:
        yield await self.list(path)

    async def create(self, path: str, body: Json, **_: Any) -> Json:
        return body

    async def replace(self, path: str, body: Json, **_: Any) -> Json:
        return body

    async def patch(self, path: str, body: Any, **_: Any) -> Json:
        return self._found(path)[0]

    async def delete(self, path: str, **_: Any) -> Json:
        return {}


# --- readers ---------------------------------------------------------------------------------------------------------


async def _watch(api: ExamplesApi) -> None:
    for kind, resource in RESOURCES.items():
        for obj in (await api.list(resource.path))["items"]:
            found = decode(obj)
            assert not isinstance(found, BrokenObject | None), found
            ObservedObject.from_json(obj)
            ClusterWatch(api).put(kind, obj)


async def _diagnose(api: ExamplesApi) -> None:
    pod, *_ = (await api.list("/api/v1/pods"))["items"]
    wanted = gpu_claim()
    await diagnose(DeviceReader(api), {"gpu": wanted}, pod=pod)
    await diagnose(DeviceReader(api), {"gpu": wanted}, {"gpu": "c"}, NAMESPACE, pod, ("gpu",))
    await diagnose(DeviceReader(api), {"gpu": wanted}, {"gpu": "c"}, NAMESPACE)


async def _other_nodes(api: ExamplesApi) -> None:
    pods = (await api.list("/api/v1/pods"))["items"]
    await fits_elsewhere(DeviceReader(api), {"c": gpu_claim()}, pods[0], pods, lambda pod: False)
    await devices_of(api, pods[0])


async def _held_devices(api: ExamplesApi) -> None:
    pod, *_ = (await api.list("/api/v1/pods"))["items"]
    place_text(await held_devices(api, pod), pod["spec"].get("nodeName") or "")


async def _claims(api: ExamplesApi) -> None:
    pod, *_ = (await api.list("/api/v1/pods"))["items"]
    claims = await ClaimReader(api, NAMESPACE).claims(claim_names(pod))
    place_text(held_devices_of(claims), pod["spec"].get("nodeName") or "")


async def _own_devices(api: ExamplesApi) -> None:
    for pod in (await api.list("/api/v1/pods"))["items"]:
        (await read_own_devices(api, pod)).as_json()


async def _facts(api: ExamplesApi) -> None:
    await read_facts(DeviceReader(api), NAMESPACE)


async def _devices(api: ExamplesApi) -> None:
    assert (await DeviceReader(api).learn()).is_known


async def _intel(api: ExamplesApi) -> None:
    ledger = GpuLedger(None, logging.getLogger(__name__), hub_namespace=NAMESPACE)
    pod = {"metadata": {"name": "n", "namespace": NAMESPACE}, "spec": {"containers": [{"name": "notebook"}]}}
    await ledger.assign(api, GpuRequest(), pod, timedelta(minutes=1))


async def _leader(api: ExamplesApi) -> None:
    leading = asyncio.Event()

    async def lead() -> None:
        leading.set()
        await asyncio.Event().wait()

    async with running(LeaderElector(api, NAMESPACE, "dra-spawner").run(lead)), asyncio.timeout(60):
        await leading.wait()


async def _leftovers(api: ExamplesApi) -> None:
    sweep = Sweep(api, None, timedelta(0), datetime.now(UTC), hub_namespace=NAMESPACE)
    await sweep.run()
    assert not [error for error in sweep.errors if "is invalid" in error], sweep.errors


async def _vlans(api: ExamplesApi) -> None:
    leases = VlanLeases(api, NAMESPACE, None)
    policy = parse_vlan_policy({"range": "100-100"})
    assert policy is not None
    await leases.acquire(policy, "eve", server=f"{NAMESPACE}/eve", start="s", until=datetime.now(UTC))
    await leases.reconcile()
    await leases.release(f"{NAMESPACE}/ada", "s")


async def _shapes(api: ExamplesApi) -> None:
    source = ShapesSource(api, NAMESPACE)
    source.put((await api.list("/api/v1/configmaps"))["items"][0])
    assert source.is_usable, source.problem


async def _settings(api: ExamplesApi) -> None:
    store = OverrideStore(api, NAMESPACE, now=lambda: datetime(2000, 1, 1, tzinfo=UTC))
    store.put((await api.list("/api/v1/configmaps"))["items"][1])
    assert store.present.replicas
    assert store.present.audit
    assert store.present.orders
    assert store.present.entries


async def _tickets(api: ExamplesApi) -> None:
    store = TicketStore(api, NAMESPACE, "hub/shapes")
    assert await store.standings("ada")
    await store.leave("bob", "gpu")
    followed = FollowedTickets(api, NAMESPACE, "hub/shapes", now=lambda: datetime(2000, 1, 1, tzinfo=UTC))
    followed.put((await api.list("/api/v1/configmaps"))["items"][4])
    assert followed.present.open


async def _server_namespaces(api: ExamplesApi) -> None:
    followed = ServerNamespaces(api, ControllerSettings(NAMESPACE, user_namespaces=True))
    for obj in (await api.list("/api/v1/namespaces"))["items"]:
        followed.put(obj)
    assert followed.present.servers


async def _own_namespaces(api: ExamplesApi) -> None:
    assert await own_namespaces(api, NAMESPACE)


async def _cluster_limits(api: ExamplesApi) -> None:
    limits = ClusterLimits(
        api, NAMESPACE, priority_class="placeholder", has_servers=True, pending=lambda: {"u"}, now=lambda: START
    )
    for obj in (await api.list("/api/v1/resourcequotas"))["items"]:
        limits.put(obj)
    await limits.read_events()
    assert limits.quotas
    assert not limits.problems()


async def _rehearse(api: ExamplesApi) -> None:
    read = await cluster_of_api(api, NAMESPACE, names.SHAPES_CONFIG_MAP, Progress(io.StringIO()))
    assert read.quotas


async def _doctor(api: ExamplesApi) -> None:
    for settings in (None, ServiceSettings(priority_class="x", shapes_config_map="x")):
        facts = await DoctorReader(api, Questions(NAMESPACE, settings=settings)).read()
        assert {"user-scheduler", "missing-right"} <= {each.code for each in examine(facts)}


FLOWS: Final[Mapping[str, Callable[[ExamplesApi], Awaitable[None]]]] = {
    "dra_spawner.kube.cluster_watch": _watch,
    "dra_spawner.spawner.devices.diagnosis": _diagnose,
    "dra_spawner.spawner.devices.facts_reading": _facts,
    "dra_spawner.spawner.devices.claim_reader": _claims,
    "dra_spawner.spawner.devices.held": _held_devices,
    "dra_spawner.spawner.my_devices.my_devices_handler": _own_devices,
    "dra_spawner.spawner.devices.reader": _devices,
    "dra_spawner.spawner.accounts.intel_gas_ledger": _intel,
    "dra_spawner.kube.leader": _leader,
    "dra_spawner.doctor.reader": _doctor,
    "dra_spawner.spawner.objects.leftovers": _leftovers,
    "dra_spawner.spawner.devices.other_nodes": _other_nodes,
    "dra_spawner.spawner.accounts.vlan_leases": _vlans,
    "dra_spawner.placeholders.controller.sources.shapes_source": _shapes,
    "dra_spawner.placeholders.controller.sources.override_store": _settings,
    "dra_spawner.placeholders.controller.sources.server_namespaces": _server_namespaces,
    "dra_spawner.service.tickets.followed_tickets": _tickets,
    "dra_spawner.ticket_store.ticket_store": _tickets,
    "dra_spawner.spawner.hub_parts.own_namespaces": _own_namespaces,
    "dra_spawner.placeholders.controller.round.cluster_limits": _cluster_limits,
    "dra_spawner.commands.rehearsing.cluster_sources": _rehearse,
}
"""Module that reads -> the same with examples."""

ONE_OBJECT: Final = {
    "dra_spawner.spawner.objects.start_objects": "the pod of its own start: uid and annotation",
    "dra_spawner.spawner.steps.pod_watch": "whether the pod of its own start is there",
    "dra_spawner.spawner.home_page": "events of the pod of its own server: reason and time of creation",
    "dra_spawner.spawner.hub_start.shape_publication": "what the hub itself has published",
    "dra_spawner.placeholders.controller.round.executor": "whether a warm claim, whose fields the watch has read, is still allocated",
    "dra_spawner.service.idle.idle_servers": "a user's pod, whose annotations the watch has read: it is written only",
    "dra_spawner.service.leader_label": "its own pod, whose labels the watch has read: it is written only",
    "dra_spawner.placeholders.controller.round.reservations": "version and reservation of a warm claim, which the watch has read",
}
"""Modules that read again one object that is known, and what of it."""


def recorded_examples() -> tuple[dict[str, list[Recorded]], dict[str, dict[str, str]]]:
    """All examples, and by plural a dictionary of absent keys, filled by readers."""
    missed: dict[str, dict[str, str]] = {plural: {} for plural in EXAMPLES}
    return {plural: [Recorded(obj, missed[plural]) for obj in make()] for plural, make in EXAMPLES.items()}, missed

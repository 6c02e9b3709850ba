"""Input of a rehearsal, read from a cluster or from files that kubectl printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from dra_spawner import names
from dra_spawner.commands.cluster_files.documents import SourceObject
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.questions import has_kind, separate_questions
from dra_spawner.commands.cluster_files.reading import Progress, read_files
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.discovery import is_absent
from dra_spawner.kube.cluster_watch import DEVICE_KINDS, RESOURCES
from dra_spawner.kube.taint_rules import list_taint_rules
from dra_spawner.placeholders.planner.targets.limits import Quota, quota_of
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, read_config_map
from dra_spawner.simulator.model.cluster_objects import Kind

_CONFIG_MAP: Final = "ConfigMap"
_QUOTA: Final = "ResourceQuota"
_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    Kind.NODE: ("v1",),
    Kind.POD: ("v1",),
    _CONFIG_MAP: ("v1",),
    _QUOTA: ("v1",),
    Kind.RESOURCE_CLAIM: (names.RESOURCE_API, names.RESOURCE_API_BETA),
    Kind.RESOURCE_CLAIM_TEMPLATE: (names.RESOURCE_API, names.RESOURCE_API_BETA),
    Kind.RESOURCE_SLICE: (names.RESOURCE_API, names.RESOURCE_API_BETA),
    Kind.DEVICE_CLASS: (names.RESOURCE_API, names.RESOURCE_API_BETA),
    Kind.DEVICE_TAINT_RULE: names.TAINT_RULE_APIS,
}


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """The input that a rehearsal reads from a cluster.

    Attributes
    ----------
    objects
        Objects for a snapshot, as JSON.
    namespace
        Namespace of the users' servers.
    notes
        Sentences on objects that could not be read.
    """

    objects: tuple[JsonObject, ...]
    namespace: str
    published: PublishedShapes
    quotas: tuple[Quota, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Objects:
    """Objects of files; of several objects with one name the last one counts."""

    by_key: dict[tuple[str, str, str], JsonObject] = field(default_factory=dict)

    def add(self, source: SourceObject) -> None:
        """Add an object; other kinds are ignored."""
        if not has_kind(source, _VERSIONS):
            return
        metadata = source.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str):
            raise source.document.error((*source.path, "metadata", "name"), "must be a string")
        if not isinstance(metadata.get("namespace", ""), str):
            raise source.document.error((*source.path, "metadata", "namespace"), "must be a string")
        # Items of a typed list may have no kind.
        self.by_key[source.kind, str(metadata.get("namespace", "")), name] = {**source.value, "kind": source.kind}

    def of(self, kind: str) -> Iterator[JsonObject]:
        return (obj for (each, _, _), obj in self.by_key.items() if each == kind)


def cluster_of_files(
    files: Sequence[str], namespace: str, config_map: str, standard_input: BinaryIO, progress: Progress
) -> ReadCluster:
    """The cluster of files.

    Raises
    ------
    InputError
        If a file cannot be read, or if no file has the published profiles.
    """
    found, questions = separate_questions(read_files(files, standard_input, progress), _Objects)
    progress.clear()
    if questions:
        raise InputError(files[0], 0, "", "has a question for dra-spawner fit; only objects of the cluster are allowed")
    objects = tuple(obj for (kind, _, _), obj in found.by_key.items() if kind in list(Kind))
    return _read_cluster(
        objects, list(found.of(_CONFIG_MAP)), list(found.of(_QUOTA)), namespace, config_map, ", ".join(files)
    )


async def cluster_of_api(api: KubernetesApi, namespace: str, config_map: str, progress: Progress) -> ReadCluster:
    """The cluster of an API server.

    Raises
    ------
    InputError
        If the cluster has no published profiles.
    KubernetesError
        If the cluster cannot be read.
    """
    objects: list[JsonObject] = []
    notes: list[str] = []
    for kind, resource in RESOURCES.items():
        progress.show(f"reading {resource.plural}")
        if kind is Kind.DEVICE_TAINT_RULE:
            try:
                objects += await list_taint_rules(api)
            except KubernetesError as error:
                if error.status != 403:
                    raise
                notes.append(
                    "DeviceTaintRules are not known: you may not list them, so a closed device may count as free"
                )
            continue
        try:
            async for page in api.list_pages(resource.path):
                objects += ({**each, "kind": kind.value} for each in page.get("items") or ())
        except KubernetesError as error:
            # A cluster without Dynamic Resource Allocation does not serve these kinds.
            if not (kind in DEVICE_KINDS and await _is_unserved(api, error, resource.group_version, resource.plural)):
                raise
    if not any(each["kind"] == Kind.NODE for each in objects) and any(_is_bound(each) for each in objects):
        raise InputError("the cluster", 0, "", "has pods on nodes, and lists no node: try again in a minute")
    progress.show("reading profiles")
    selector = f"metadata.name={config_map}"
    if namespace:
        maps = (await api.list(resource_path("v1", "configmaps", namespace), field_selector=selector))["items"]
    if not namespace or not maps:
        maps = (await api.list(resource_path("v1", "configmaps"), field_selector=selector))["items"]
    read = _read_cluster(tuple(objects), maps, [], namespace, config_map, "the cluster")
    quotas: list[JsonObject] = []
    try:
        listed = await api.list(resource_path("v1", "resourcequotas", read.namespace))
        quotas = listed["items"]
    except KubernetesError as error:
        if error.status == 403:
            notes.append(f"ResourceQuotas of namespace {read.namespace} are not checked: you may not list them")
        elif not await _is_unserved(api, error, "v1", "resourcequotas"):  # the embedded cluster has none
            raise
    return ReadCluster(read.objects, read.namespace, read.published, _quotas(quotas, "the cluster"), tuple(notes))


def _is_bound(obj: JsonObject) -> bool:
    return obj["kind"] == Kind.POD and bool((obj.get("spec") or {}).get("nodeName"))


async def _is_unserved(api: KubernetesApi, error: KubernetesError, group_version: str, plural: str) -> bool:
    """Whether a kind cannot be listed because the cluster does not serve it."""
    return error.status == 404 and await is_absent(api, group_version, plural)


def _read_cluster(
    objects: tuple[JsonObject, ...],
    maps: Sequence[JsonObject],
    quotas: Sequence[JsonObject],
    namespace: str,
    config_map: str,
    source: str,
) -> ReadCluster:
    chosen = _config_map(maps, namespace, config_map, source)
    found_in: str = (chosen.get("metadata") or {}).get("namespace") or "default"
    own = namespace or found_in
    published = read_config_map(chosen, config_map)
    if published.problem:
        raise InputError(source, 0, "", published.problem)
    of_namespace = [each for each in quotas if (each["metadata"].get("namespace") or "default") == own]
    return ReadCluster(objects, own, published, _quotas(of_namespace, source))


def _config_map(maps: Sequence[JsonObject], namespace: str, config_map: str, source: str) -> JsonObject:
    """The ConfigMap with the profiles: the one of the servers' namespace, else the only one."""
    named = [each for each in maps if each["metadata"]["name"] == config_map]
    own = [each for each in named if each["metadata"].get("namespace") == namespace] or named
    if not own:
        problem = (
            f"has no ConfigMap {config_map}, in which a hub with DRASpawner publishes its profiles when it starts; "
            "start the hub, or name the ConfigMap by --config-map"
        )
        raise InputError(source, 0, "", problem)
    if len(own) > 1:
        found = ", ".join(sorted(str(each["metadata"].get("namespace")) for each in own))
        raise InputError(source, 0, "", f"has {config_map} in the namespaces {found}: choose one by --namespace")
    return own[0]


def _quotas(objects: Sequence[Mapping[str, Any]], source: str) -> tuple[Quota, ...]:
    try:
        for each in objects:
            for amount in (each.get("spec") or {}).get("hard", {}).values():
                Quantity.from_json(amount)  # an API server has valid amounts, a file may not
        return tuple(quota_of(dict(each), names.PRIORITY_CLASS) for each in objects)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        problem = f"has an invalid ResourceQuota: {type(error).__name__}: {str(error)[:200]}"
        raise InputError(source, 0, "", problem) from None

"""Facts for checks of profiles, from the API server: devices, classes, nodes, version and feature gates.

A dry run of claim templates shows which fields the API server keeps, and so which gates are on. It stores nothing, and
needs no more rights than the start of a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import is_granted
from dra_spawner.profiles.facts import ClusterFacts, claim_webhooks, unpublished_devices
from dra_spawner.profiles.intel_gas.names import GAS_LABEL
from dra_spawner.spawner.devices.reader import NOW, DeviceReader, KnownDevices, decoded, readable
from dra_spawner.versions import served_version

_ATTACHMENTS: Final = ("k8s.cni.cncf.io/v1", "network-attachment-definitions")
_WEBHOOKS: Final = (names.ADMISSION_API, "validatingwebhookconfigurations")


async def read_facts(
    reader: DeviceReader,
    namespace: str | None,
    claims: Iterable[str] = (),
    before: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> ClusterFacts:
    """Read all facts; a fact that the account may not read stays unknown.

    Parameters
    ----------
    namespace
        Namespace of servers; None if each user has one: then namespaces and claims are not read.
    claims
        Names of claims that others made.
    before
        The most devices that were published earlier (`published_devices`).

    Raises
    ------
    KubernetesError
        When the API server does not answer, or refuses the account altogether.
    """
    api = reader.api
    version, patch = served_version(await api.get("/version"))
    devices, nodes, own, attachments, dropped, specs = await all_of(
        asyncio.gather(
            _devices(reader),
            readable(reader.nodes.get(NOW)),
            _namespace(api, namespace),
            _attachments(api, namespace),
            _dropped_fields(api, namespace),
            _claims(api, namespace, claims),
        )
    )
    webhooks, gas, rules = await all_of(
        asyncio.gather(_list(api, *_WEBHOOKS), _list(api, "v1", "pods", label_selector=GAS_LABEL), _rules(reader))
    )
    return ClusterFacts(
        device_classes=devices.classes,
        slices=devices.slices,
        nodes=tuple(map(_lasting_parts, nodes)) if nodes is not None else None,
        namespace=namespace or "",
        namespace_labels=(own["metadata"].get("labels") or {}) if own is not None else None,
        attachment_definitions=attachments[0],
        attachment_namespaces=attachments[1],
        webhooks=claim_webhooks(webhooks) if webhooks is not None else None,
        gas_runs=bool(gas) if gas is not None else None,
        kubernetes_version=version,
        kubernetes_patch=patch,
        dropped_fields=dropped,
        claims=specs,
        taint_rules=decoded(DeviceTaintRule.from_json, rules),
        unpublished=unpublished_devices(nodes or (), devices.slices or (), before, datetime.now(UTC)),
    )


async def _claims(api: KubernetesApi, namespace: str | None, wanted: Iterable[str]) -> dict[str, JsonObject]:
    """Specs of the claims that are there and may be read."""
    found: dict[str, JsonObject] = {}
    for name in wanted if namespace else ():
        try:
            claim = await readable(api.get(resource_path(names.RESOURCE_API, "resourceclaims", namespace, name)))
        except KubernetesError as error:
            if error.status != 404:
                raise
            continue
        if claim is not None:
            found[name] = claim["spec"]
    return found


async def _devices(reader: DeviceReader) -> KnownDevices:
    """The devices; unknown where a 404 does not tell whether the cluster has any."""
    try:
        return await reader.devices.get(NOW)
    except KubernetesError as error:
        if error.status != 404:
            raise
        return reader.devices.value or KnownDevices(None, None)


async def _rules(reader: DeviceReader) -> list[JsonObject]:
    """The DeviceTaintRules; as read last where a 404 does not tell whether the cluster has any."""
    try:
        return await reader.rules.get(NOW)
    except KubernetesError as error:
        if error.status != 404:
            raise
        return reader.rules.value or []


async def _namespace(api: KubernetesApi, name: str | None) -> JsonObject | None:
    return await readable(api.get(resource_path("v1", "namespaces", name=name))) if name else None


async def _attachments(
    api: KubernetesApi, namespace: str | None
) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """NetworkAttachmentDefinitions, and the namespaces that could be read; None for all namespaces."""
    everywhere = _names(await _list(api, *_ATTACHMENTS))
    if everywhere is not None or namespace is None:
        return everywhere, None
    own = _names(await _list(api, *_ATTACHMENTS, namespace))
    return own, frozenset({namespace}) if own is not None else None


async def _list(
    api: KubernetesApi, group_version: str, plural: str, namespace: str | None = None, *, label_selector: str = ""
) -> list[JsonObject] | None:
    """Objects of an optional right; None without it."""
    if not await is_granted(api, "list", group_version.rpartition("/")[0], plural, namespace):
        return None
    found = await readable(api.list(resource_path(group_version, plural, namespace), label_selector=label_selector))
    return list(found["items"]) if found is not None else None


def _lasting_parts(node: JsonObject) -> JsonObject:
    """A node without parts that change often, so that unchanged facts compare equal."""
    metadata = {
        key: value for key, value in node["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    status = {key: value for key, value in node.get("status", {}).items() if key not in ("conditions", "images")}
    return {**node, "metadata": metadata, "status": status}


def _names(objects: Iterable[JsonObject] | None) -> frozenset[str] | None:
    if objects is None:
        return None
    return frozenset(f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}" for obj in objects)


_CLASS: Final = {"deviceClassName": "probe.example.com"}


def _of_request(**more: Any) -> JsonObject:
    return {"requests": [{"name": "probe", "exactly": {**_CLASS, **more}}]}


#: A claim's ``spec.devices`` that uses each field.
_PROBES: Final[Mapping[str, JsonObject]] = {
    "capacity": _of_request(capacity={"requests": {"memory": "1Gi"}}),
    "tolerations": _of_request(tolerations=[{"operator": "Exists"}]),
    "adminAccess": _of_request(adminAccess=True),
    "firstAvailable": {"requests": [{"name": "probe", "firstAvailable": [{"name": "probe", **_CLASS}]}]},
    "distinctAttribute": {**_of_request(), "constraints": [{"distinctAttribute": "probe.example.com/probe"}]},
}


async def _dropped_fields(api: KubernetesApi, namespace: str | None) -> frozenset[str] | None:
    """Fields that a dry run drops; None if the account may not create claim templates."""
    if namespace is None:
        return None
    path = resource_path(names.RESOURCE_API, "resourceclaimtemplates", namespace)
    answers = await all_of(
        asyncio.gather(*(_is_dropped(api, path, field, devices) for field, devices in _PROBES.items()))
    )
    if None in answers:
        return None
    return frozenset(field for field, dropped in zip(_PROBES, answers, strict=True) if dropped)


async def _is_dropped(api: KubernetesApi, path: str, field: str, devices: JsonObject) -> bool | None:
    template = {
        "apiVersion": names.RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"generateName": names.PROBE_PREFIX},
        "spec": {"spec": {"devices": devices}},
    }
    try:
        created = await api.create(path, template, params={"dryRun": "All"})
    except KubernetesError as error:
        if error.status in (403, 404) and error.reason != "Invalid" and names.ADMIN_ACCESS not in error.message:
            return None
        if error.status in (400, 403, 422):
            # Without the field the template is invalid, unless admin access was recognised and refused.
            return names.ADMIN_ACCESS not in error.message
        raise
    return not _has(created["spec"]["spec"]["devices"], field)


def _has(value: object, field: str) -> bool:
    """Whether a key exists at any depth of a value."""
    if isinstance(value, Mapping):
        return field in value or any(_has(each, field) for each in value.values())
    return isinstance(value, list) and any(_has(each, field) for each in value)

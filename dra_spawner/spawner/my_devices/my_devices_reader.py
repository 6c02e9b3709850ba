"""Reads the objects that say which devices a pod has, and how their drivers publish them."""

from __future__ import annotations

import asyncio
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.dra.model.devices import PoolId, ResourceSlice
from dra_spawner.dra.model.objects import DeviceTaintRule
from dra_spawner.dra.model.taint_rules import applied, with_rules
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.devices.held import held_claims
from dra_spawner.spawner.devices.reader import decoded, device_reader, readable
from dra_spawner.spawner.my_devices.drain_notes import drain_notes
from dra_spawner.spawner.my_devices.own_devices import OwnDevices, is_consumer, own_devices
from dra_spawner.spawner.my_devices.published import PublishedDevices

__all__ = ["read_own_devices"]

#: Age in seconds of rules that close devices.
_RULES_SECONDS: Final = 10.0
#: Seconds for each of the requests without which an answer is only less complete.
_PUBLISHED_SECONDS: Final = 1.0


async def read_own_devices(api: KubernetesApi, pod: JsonObject) -> OwnDevices:
    """Read the devices of a pod: a request for each claim, one for the node's devices, seldom one for each driver more.

    Raises
    ------
    KubernetesError
        If a claim cannot be read. Devices that cannot be read as published have no totals.
    """
    claims, on_node, rules = await all_of(asyncio.gather(held_claims(api, pod), _on_node(api, pod), _rules(api)))
    results = [
        result
        for claim in claims
        if is_consumer(pod, claim)
        for result in ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
    ]
    known = PublishedDevices(on_node)
    elsewhere = {each["driver"] for each in results if not known.has_pool(PoolId(each["driver"], each["pool"]))}
    more = await all_of(asyncio.gather(*(_slices(api, f"spec.driver={driver}") for driver in sorted(elsewhere))))
    slices = [*on_node, *(each for slices in more for each in slices)]
    decoded_rules = decoded(DeviceTaintRule.from_json, rules)
    in_force = applied({each.name: each for each in decoded_rules}, device_reader(api).scheduler_rules.quirks)
    published = PublishedDevices((with_rules(each, in_force) for each in slices), drain_notes(rules))
    return own_devices(pod, claims, published)


async def _rules(api: KubernetesApi) -> list[JsonObject]:
    """The rules that close devices; servers share one request."""
    try:
        async with asyncio.timeout(_PUBLISHED_SECONDS):
            return await device_reader(api).rules.get(_RULES_SECONDS)
    except (KubernetesError, TimeoutError):
        return []


async def _on_node(api: KubernetesApi, pod: JsonObject) -> tuple[ResourceSlice, ...]:
    """The slices of the pod's node: few, however large the cluster is."""
    node = (pod.get("spec") or {}).get("nodeName")
    return await _slices(api, f"spec.nodeName={node}") if node else ()


async def _slices(api: KubernetesApi, selector: str) -> tuple[ResourceSlice, ...]:
    path = resource_path(names.RESOURCE_API, "resourceslices")
    try:
        found = await readable(api.list(path, field_selector=selector, timeout_seconds=_PUBLISHED_SECONDS))
    except KubernetesError:
        return ()
    return decoded(ResourceSlice.from_json, found["items"]) if found is not None else ()

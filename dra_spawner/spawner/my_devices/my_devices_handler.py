"""``GET {hub}/dra-spawner/devices``: the devices of the server whose own token comes with the request.

Which server that is follows from the token alone. The request has no parameters.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from tornado.web import HTTPError

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.dra.model.devices import PoolId, ResourceSlice
from dra_spawner.dra.model.objects import DeviceTaintRule
from dra_spawner.dra.model.taint_rules import applied, with_rules
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.devices.drain_notes import drain_notes
from dra_spawner.spawner.devices.held import held_claims
from dra_spawner.spawner.devices.reader import Reading, decoded, device_reader, readable
from dra_spawner.spawner.my_devices.own_devices import OwnDevices, is_consumer, own_devices
from dra_spawner.spawner.my_devices.own_server_handler import OwnParts, OwnServerHandler
from dra_spawner.spawner.my_devices.published import PublishedDevices
from dra_spawner.spawner.placement.standing import own_budget_sentences
from dra_spawner.spawner.server_context import ServerContext

_WAIT_SECONDS: Final = 3.0
#: Maximum age of the devices that a server is told; a server may ask as often as it likes.
_LONGEST_AGE_SECONDS: Final = 2.0

_NOT_KNOWN: Final = "The devices of this server are not known at present."


class DevicesHandler(OwnServerHandler):
    """Answers a server."""

    async def get(self) -> None:
        """Write the answer as JSON."""
        self.set_header("Cache-Control", "no-store")
        parts = self.own_parts()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                found = await _own_devices(parts)
        except (KubernetesError, TimeoutError) as error:
            self.log.warning("The devices of a server are not told: server=%s %r", self.server_name(), error)
            found = None
        except Exception:  # whatever is in a claim that others made
            self.log.exception("The devices of a server are not told: server=%s", self.server_name())
            found = None
        if found is None:
            raise HTTPError(503, _NOT_KNOWN)
        session = parts.home.session()
        spawner = parts.server.spawner
        use = await own_budget_sentences(
            spawner.placeholder_service,
            spawner.user.name,
            parts.server.user_groups,
            self.log,
            spawner.placeholder_service_ca_file,
        )
        if kept := parts.home.kept_note():
            use = (kept, *use)
        end = session.as_json() if session is not None else {}
        self.finish({**found.as_json(), **end, **({"use": use} if use else {})})


async def _own_devices(parts: OwnParts) -> OwnDevices | None:
    """The devices of a running server; None if the hub does not see its pod.

    Raises
    ------
    KubernetesError
        If they cannot be read.
    """
    if not parts.server.pod():
        return None
    return await devices_of_server(parts).get(_LONGEST_AGE_SECONDS)


def devices_of_server(parts: OwnParts) -> Reading[OwnDevices]:
    """What reads the devices of a server, one for the server's life."""
    if parts.own_devices is None:
        parts.own_devices = Reading(partial(_read, parts.server))
    return parts.own_devices


async def _read(server: ServerContext) -> OwnDevices:
    pod = server.pod()
    return await read_own_devices(server.kubernetes, pod) if pod else OwnDevices()


#: Age in seconds of rules that close devices.
_RULES_SECONDS: Final = 2.0
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
    """The rules that close devices, as read last after a failure; servers share one request."""
    rules = device_reader(api).rules
    try:
        async with asyncio.timeout(_PUBLISHED_SECONDS):
            return await rules.get(_RULES_SECONDS)
    except (KubernetesError, TimeoutError):
        return rules.value or []


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

"""The list of VLANs in use, in a ConfigMap that is written by compare-and-swap.

Every change reads the ConfigMap, decides, and replaces exactly that version (``resourceVersion``). If another writer
was faster, the API server answers 409 and the change is repeated. An invalid ConfigMap is never overwritten. A missing
ConfigMap is created from the pods, whose annotations state their VLAN.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.profiles.compiler.vlan_policy import VlanPolicy
from dra_spawner.profiles.compiler.vlans import (
    Leases,
    LeasesCorrupt,
    VlanAssignment,
    VlanPod,
    VlanRefusal,
    VlanRefused,
    assign,
    contested,
    leases_data,
    leases_from_data,
    reconcile,
    release,
)
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.hub_parts.own_namespaces import own_namespaces

#: Maximum tries of a change.
MAX_TRIES = 12
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 2.0

_Answer = TypeVar("_Answer")


def vlan_lock(namespace: str) -> asyncio.Lock:
    """A lock that avoids conflicts between starts of one hub; safety does not depend on it."""
    return this_hub().shared(("turn of VLANs", namespace), asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Result of a reconciliation.

    Attributes
    ----------
    freed
        Servers whose VLANs were freed.
    added
        Servers whose missing entries were added.
    contested
        VLANs with several owners.
    """

    freed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    contested: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.freed or self.added)


class VlanLeases:
    """Assigns VLANs to starts, and frees them.

    Parameters
    ----------
    namespace
        Namespace of the ConfigMap.
    pods_namespace
        Namespace of servers; ``None`` means the namespaces of the users of the hub in ``namespace``
        (``enable_user_namespaces``). An entry is made only for pods in the hub's own namespaces.
    turn
        Lock of each try of a change; see `vlan_lock`.
    now, sleep, jitter
        Clock, and source of random numbers from 0 to 1.

    Every method raises `KubernetesError` if the API server refuses, or does not answer in `MAX_TRIES` tries, and
    `LeasesCorrupt` if the ConfigMap cannot be read.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        pods_namespace: str | None,
        *,
        turn: AbstractAsyncContextManager[object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self.namespace = namespace
        self.pods_namespace = pods_namespace
        self._turn = turn or nullcontext()
        self._now = now
        self._sleep = sleep
        self._jitter = jitter

    async def acquire(
        self, policy: VlanPolicy, name: str, *, server: str, start: str, until: datetime
    ) -> int | VlanRefused:
        """Assign a VLAN to a start; see `assign`. Idempotent for a start.

        If all VLANs are in use, those of servers that are gone are freed first.
        """

        async def take(leases: Leases) -> tuple[int | VlanRefused, Leases]:
            found = assign(leases, policy, name, server, start, until)
            if isinstance(found, VlanRefused) and found.reason in (VlanRefusal.EXHAUSTED, VlanRefusal.BUSY):
                leases = reconcile(leases, await self._pods(_of_servers(leases)), self._now())
                found = assign(leases, policy, name, server, start, until)
            if isinstance(found, VlanAssignment):
                return found.vlan, found.leases
            return found, leases

        return await self._change(take, create=True)

    async def release(self, server: str, start: str) -> bool:
        """Free the VLAN of a server's start, unless its pod exists.

        Returns
        -------
        bool
            Whether it is freed.
        """

        async def give_back(leases: Leases) -> tuple[bool, Leases]:
            without = release(leases, server, start, ())
            if without == leases:
                return True, leases
            after = release(leases, server, start, await self._pods({server}))
            return after == without, after

        return await self._change(give_back, create=False)

    async def reconcile(self) -> Reconciled:
        """Compare the list with the pods: free VLANs that a killed hub has left, and add missing entries."""

        async def compare(leases: Leases) -> tuple[Reconciled, Leases]:
            after = reconcile(leases, await self._pods(_of_servers(leases)), self._now())
            gone, new = _servers(leases) - _servers(after), _servers(after) - _servers(leases)
            return Reconciled(tuple(sorted(gone)), tuple(sorted(new)), contested(after, leases)), after

        return await self._change(compare, create=False)

    async def _change(self, decide: Callable[[Leases], Awaitable[tuple[_Answer, Leases]]], *, create: bool) -> _Answer:
        """Read, decide and write until there is no conflict."""
        wait = _FIRST_WAIT_SECONDS
        for left in reversed(range(MAX_TRIES)):
            try:
                async with self._turn:
                    return await self._try(decide, create)
            except KubernetesError as error:
                again = error.retryable or error.conflict or error.already_exists or error.not_found
                if not again or not left:
                    raise
            await self._sleep(wait * (0.5 + self._jitter() / 2))
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
        raise AssertionError("the last try returns or raises")

    async def _try(self, decide: Callable[[Leases], Awaitable[tuple[_Answer, Leases]]], create: bool) -> _Answer:
        found = await self._read()
        if found is None:
            # The ConfigMap is new, or was removed while servers run.
            before = reconcile({}, await self._pods(()), self._now())
        else:
            before = leases_from_data(found.get("data"))
        answer, after = await decide(before)
        if found is None:
            if after and (create or before):
                await self._create(after)
        elif after != before:
            body = {**found, "data": leases_data(after)}
            await self._api.replace(resource_path("v1", "configmaps", self.namespace, names.VLANS_CONFIG_MAP), body)
        return answer

    async def _read(self) -> JsonObject | None:
        try:
            found = await self._api.get(resource_path("v1", "configmaps", self.namespace, names.VLANS_CONFIG_MAP))
        except KubernetesError as error:
            if error.not_found:
                return None
            raise
        if found.get("binaryData"):
            raise LeasesCorrupt("it has binaryData")
        return found

    async def _create(self, leases: Leases) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.VLANS_CONFIG_MAP, "labels": {names.MANAGED_BY: names.MANAGER}},
            "data": leases_data(leases),
        }
        await self._api.create(resource_path("v1", "configmaps", self.namespace), body)

    async def _pods(self, servers: Collection[str]) -> tuple[VlanPod, ...]:
        """Pods in a VLAN. One of these servers is gone if two lists lack its pod: the first may be an old state."""
        pods = await self._listed_pods()
        return pods if {each.server for each in pods}.issuperset(servers) else await self._listed_pods()

    async def _listed_pods(self) -> tuple[VlanPod, ...]:
        answer = await self._api.list(resource_path("v1", "pods", self.pods_namespace), label_selector=names.VLAN)
        items = answer["items"]
        own = await own_namespaces(self._api, self.namespace) if self.pods_namespace is None and items else None
        return vlan_pods(items, own)


def pod_marks(vlan: int, owner: str, start: str) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a pod in a VLAN; the list can be recreated from them."""
    return {names.VLAN: str(vlan)}, {names.VLAN_OWNER: owner, names.VLAN_LEASE: start}


def vlan_pods(pods: Collection[JsonObject], own: Collection[str] | None = None) -> tuple[VlanPod, ...]:
    """Pods in a VLAN, without pods that have ended.

    Parameters
    ----------
    own
        Namespaces of the hub's servers; None for all.
    """
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        vlan = (metadata.get("labels") or {}).get(names.VLAN, "")
        owner = annotations.get(names.VLAN_OWNER)
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not ended and owner and vlan.isascii() and vlan.isdigit() and 1 <= int(vlan) <= 4094:
            server = f"{metadata['namespace']}/{metadata['name']}"
            is_own = own is None or metadata["namespace"] in own
            found.append(VlanPod(int(vlan), owner, server, annotations.get(names.VLAN_LEASE, ""), is_own))
    return tuple(found)


def _of_servers(leases: Leases) -> set[str]:
    return {holder.server for holders in leases.values() for holder in holders if holder.server}


def _servers(leases: Leases) -> set[str]:
    return {f"{holder.server} (VLAN {vlan})" for vlan, holders in leases.items() for holder in holders if holder.server}
